//! The controller of viewers against a real API server, with the rights of
//! config/rbac/viewers.yaml. Tests write the pods, and the status of Deployments.

mod claims;
mod faults;
mod golden;
mod killed;
mod life;
mod objects;
mod placement;
mod refusals;
mod routes;
mod status;
mod take_over;
