//! The reasons for which a process cannot start.

use std::io;

use crate::{cluster::ClusterError, listener::ListenError, ops::tls_client::NoCertificate};

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
    /// The system refused a thread or a socket.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}
