//! The reasons for which a process cannot start.

use std::io;

use crate::{
    cluster::ClusterError, identity::service_tokens::file::TokenFileError,
    installs::helm::outcome::HelmError, labs::service::images::RegistryError,
    listener::ListenError, ops::tls_client::NoCertificate,
};

/// Why the gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listening socket cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The CA file of the provider, or of an API server, is invalid.
    #[error("a ca file: {0}")]
    Trust(#[from] NoCertificate),
    /// The Kubernetes client cannot be configured.
    #[error(transparent)]
    Kubernetes(#[from] ClusterError),
    /// The registry of lab images cannot be asked.
    #[error("the registry of lab images: {0}")]
    Registry(#[from] RegistryError),
    /// Helm cannot be run, or has an unknown version.
    #[error("controller.installations.helm: {0}")]
    Helm(#[from] HelmError),
    /// The file of service tokens cannot be used.
    #[error(transparent)]
    ServiceTokens(#[from] TokenFileError),
    /// The system refused a thread or a socket.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}
