//! Applications from Helm charts by REST: definitions, and installations on this cluster and on
//! targets. All objects are in this cluster. The shapes are those of the API of the Kubermatic
//! Kubernetes Platform.
//!
//! `call`, `request_body`, `cluster_user`, `reserved_keys`, `spec_history`, `bundle` and
//! `preparation` are pure: they read requests, name their people as Kubernetes does, and check and
//! change objects. `home_cluster`, `access` and `objects` call the cluster; `definitions` and
//! `installs` are the operations, and `endpoint` answers requests.
//!
//! Invariant: no installation is read or changed before Kubernetes has said that its person may.

mod access;
mod answer;
mod bundle;
mod call;
pub mod cluster_user;
mod definitions;
pub(crate) mod endpoint;
mod home_cluster;
mod installs;
mod objects;
mod preparation;
mod request_body;
mod reserved_keys;
pub mod service;
mod spec_history;
