//! PVCViewers: each becomes a Deployment, a NetworkPolicy, and with networking a Service.
//!
//! The object stays as its author wrote it: defaults are computed at each reconcile, so they follow
//! the settings and the viewer's path.

pub mod controller;
pub mod default_networking;
pub mod default_pod;
pub mod desired;
pub mod idle_timing;
pub mod parsed;
pub mod placement;
pub mod pod;
pub mod reconcile;
mod reserved_name;
pub mod route;
#[cfg(test)]
pub(crate) mod samples;
pub mod settings;
pub mod status;
pub mod stop_reason;
pub mod stores;
pub mod validate;
