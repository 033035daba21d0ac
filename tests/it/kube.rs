//! Against a real Kubernetes API server, with exactly the rights that config/rbac grants, and with
//! apps whose addresses are not of this machine: `make test-kube` runs these, `make test` does not.

mod api;
mod faults;
mod killed;
mod kubelet;
mod leader;
mod life;
mod logs;
mod many;
mod namespace;
mod outage;
mod pods;
mod reachable;
mod revoked;
mod states;
mod templates;
mod viewers;
mod webhook;
