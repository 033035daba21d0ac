//! The gateway in front of a container: the headers that select a port, and the mutual proof.

use std::fmt;

use http::{HeaderName, HeaderValue};

use super::{gateway_secret, query_token};
use crate::model::{
    app::App,
    attested::{Attestation, AttestedUpstream},
    secret::Secret,
    uuid::Uuid,
};

const AUTHORIZATION: HeaderName = HeaderName::from_static("x-arvados-authorization");
const AUTHORIZATION_RESPONSE: HeaderName =
    HeaderName::from_static("x-arvados-authorization-response");
const GATEWAY_UUID: HeaderName = HeaderName::from_static("x-arvados-container-gateway-uuid");
const TARGET_PORT: HeaderName = HeaderName::from_static("x-arvados-container-target-port");

/// The gateway of one container, for one of its ports.
pub(super) struct ContainerGateway {
    container: Uuid,
    headers: [(HeaderName, HeaderValue); 2],
    /// Shared with this gateway only: derived from the system's token and the uuid.
    key: Secret,
}

impl ContainerGateway {
    /// The gateway for a port; `key` is the container's.
    pub(super) fn new(container: Uuid, port: u16, key: Secret) -> ContainerGateway {
        // Letters, digits and dashes are valid in a header.
        let uuid = HeaderValue::from_str(container.as_str());
        let uuid = uuid.unwrap_or_else(|_| HeaderValue::from_static(""));
        ContainerGateway {
            container,
            headers: [(GATEWAY_UUID, uuid), (TARGET_PORT, HeaderValue::from(port))],
            key,
        }
    }
}

impl fmt::Debug for ContainerGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, (_, port)] = &self.headers;
        write!(f, "ContainerGateway({}, port {port:?})", self.container)
    }
}

impl AttestedUpstream for ContainerGateway {
    fn tenant(&self) -> &str {
        self.container.as_str()
    }

    fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    fn attest(&self, certificate: &[u8]) -> Option<Attestation> {
        let shown = gateway_secret::shown(&self.key, certificate);
        let expected = gateway_secret::answered(&self.key, &shown);
        let mut shown = HeaderValue::try_from(shown).ok()?;
        shown.set_sensitive(true);
        Some(Attestation {
            ours: (AUTHORIZATION, shown),
            theirs: (AUTHORIZATION_RESPONSE, expected),
        })
    }

    /// A page that was opened with a token in its address sends that address as `Referer` with
    /// every request.
    fn withholds_referer(&self, value: &[u8]) -> bool {
        query_token::names_token(value)
    }
}

/// The container of an app that is a container's port; `None` for other apps.
pub(super) fn container_of(app: &App) -> Option<Uuid> {
    app.tenant().and_then(Uuid::new)
}
