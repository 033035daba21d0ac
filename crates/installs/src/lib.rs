//! Apps from Helm charts, as the custom resources ApplicationDefinition and
//! ApplicationInstallation describe them.
//!
//! [`source`] downloads charts, [`helm`] runs the program, [`releases`] reads what it stores in the
//! cluster, and [`targets`] gives it access to one namespace of a cluster. [`controller`] joins
//! them. The other public modules are without IO. They check and default objects, choose the next
//! step of an installation, and compute its status.

pub mod admission;
pub mod applied_digest;
pub mod conditions;
pub mod controller;
pub mod created_namespace;
pub mod defaulting;
pub mod defaults;
pub mod deploy_options;
pub mod health;
pub mod helm;
pub mod initial;
pub mod interval;
pub mod placement;
pub mod plan;
mod process_group;
pub mod redaction;
pub mod release;
pub mod release_name;
pub mod releases;
pub mod resource_json;
pub mod retry;
#[cfg(test)]
mod samples;
pub mod source;
pub mod status;
pub mod stuck;
pub mod targets;
pub mod validation;
pub mod values;
pub mod version;
pub mod withdrawal;
