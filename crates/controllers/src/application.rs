//! PhApplications: each becomes a Deployment, a Service and two NetworkPolicies. `template` checks
//! what they are made from.

pub mod admission;
pub mod adoption;
pub mod app;
pub mod controller;
pub mod dataset_grant;
pub mod datasets;
pub mod desired;
pub mod environment;
pub mod group_names;
pub mod inputs;
pub mod instance_type;
pub mod pod;
pub mod quantity;
pub mod quota;
pub mod reconcile;
#[cfg(test)]
pub(crate) mod samples;
mod service_ports;
pub mod settings;
mod shared_volumes;
pub mod status;
pub mod stores;
pub mod template;
pub mod unpublished;
pub mod validate;
