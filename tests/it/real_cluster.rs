//! Against a whole Kubernetes cluster: Deployments roll, pods run, are probed and write logs.
//! `make test-cluster` runs these, `make test` does not.

mod applications;
mod command_line;
mod datasets;
mod document_reader;
mod events;
mod from_primehub;
mod group_pods;
mod images;
mod installs;
mod instance_types;
mod labs;
mod owners;
mod primehub;
mod python_client;
mod quick_start;
mod refusals;
mod repetitions;
mod rollout;
mod stop;
mod take_over;
mod times;
mod updates;
mod viewers;
mod volume;
