//! The gateway in front of an Arvados container: where it is told which port is meant, and the
//! secret that lets each side prove to the other who it is.

use std::fmt;

use http::HeaderValue;

use super::{secret::Secret, uuid::Uuid};

/// The gateway of one container.
pub struct ContainerGateway {
    /// Which container.
    pub container: Uuid,
    /// The port inside the container.
    pub port: HeaderValue,
    /// The container's uuid as a header value.
    pub uuid: HeaderValue,
    /// Shared with this container's gateway only: derived from the system's token and the uuid.
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
    /// The key follows from the container.
    fn eq(&self, other: &ContainerGateway) -> bool {
        self.container == other.container && self.port == other.port
    }
}

impl Eq for ContainerGateway {}
