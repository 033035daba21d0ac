//! Against a real Kubernetes API server, with exactly the rights that config/rbac grants, and with
//! apps whose addresses are not of this machine: `make test-kube` runs these, `make test` does not.

mod api;
mod faults;
mod helm_engine;
mod installs;
mod installs_api;
mod killed;
mod kubelet;
mod labs;
mod labs_images;
mod leader;
mod life;
mod logs;
mod many;
mod namespace;
mod outage;
mod pods;
mod reachable;
mod revoked;
mod served_labs;
mod states;
mod templates;
mod viewers;
mod webhook;
