//! The service of labs: what talks to registries, clusters and people.
//!
//! It uses the pure modules of this package; they never use it.

pub mod callers;
mod deletion;
pub mod file_servers;
pub mod images;
mod lab;
pub mod lab_service;
mod leadership;
mod listeners;
pub mod metrics;
mod openapi;
mod operation;
mod operation_end;
mod operation_log;
mod operation_request;
mod operation_store;
mod operation_task;
pub mod operations;
mod outcome;
mod pod_wait;
mod reconcile;
mod replicas;
mod resolve_image;
mod retry;
pub mod routes;
mod served_labs;
pub mod server;
mod settings;
mod source_secrets;
mod spawn;
mod spawn_plan;
mod sse;
mod stores;
mod writes;

pub use listeners::LabEventStream;
pub use operation::Deletion;
pub use operation_store::OperationStoreSettings;
pub use resolve_image::ResolveImage;
pub use settings::LabServiceSettings;
