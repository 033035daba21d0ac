//! The gateway of an Arvados container: the headers that select a port, and the secret for mutual
//! authentication.

use std::fmt;

use http::HeaderValue;

use super::{secret::Secret, uuid::Uuid};

/// The gateway of one container.
pub struct ContainerGateway {
    /// The container's uuid.
    pub container: Uuid,
    /// Port inside the container, as a header value.
    pub port: HeaderValue,
    /// The container's uuid as a header value.
    pub uuid: HeaderValue,
    /// Secret shared with this gateway only: derived from the system's token and the uuid.
    pub key: Secret,
}

impl fmt::Debug for ContainerGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ContainerGateway({}, port {:?})",
            self.container, self.port
        )
    }
}

impl PartialEq for ContainerGateway {
    /// The key is derived from the container's uuid.
    fn eq(&self, other: &ContainerGateway) -> bool {
        self.container == other.container && self.port == other.port
    }
}

impl Eq for ContainerGateway {}
