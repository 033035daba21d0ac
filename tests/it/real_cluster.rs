//! Against a whole Kubernetes cluster: Deployments roll, pods run, are probed and write logs.
//! `make test-cluster` runs these, `make test` does not.

mod applications;
mod busybox;
mod chart;
mod command_line;
mod events;
mod python_client;
mod rollout;
