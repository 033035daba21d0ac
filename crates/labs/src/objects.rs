//! Kubernetes objects: of labs, of file servers, and of the pod for administrators.

mod account;
mod config_maps;
mod containers;
mod desired;
mod fileserver;
mod fsadmin;
mod network;
mod parts;
mod pod;
mod secrets;
mod source;
mod volumes;

pub use desired::{DesiredLab, desired};
pub use fileserver::{DesiredFileServer, FileServerContext, file_server};
pub use fsadmin::{FilesystemAdminObjects, filesystem_admin};
pub use parts::{DesiredLabError, LabContext, LabRequest};
pub use source::{SourceSecret, SourceSecrets};

#[cfg(test)]
mod tests;
