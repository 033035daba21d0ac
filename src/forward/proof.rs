//! Proving to a container's gateway who we are, and having it prove who it is: once a connection is
//! open the certificate is known, and with it what must be shown and answered.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::fault::Fault;
use crate::{
    integrations::arvados::proof,
    model::{container::ContainerGateway, secret::Secret},
};

const SHOWN: HeaderName = HeaderName::from_static("x-arvados-authorization");
const ANSWERED: HeaderName = HeaderName::from_static("x-arvados-authorization-response");
/// Which container is meant.
pub const GATEWAY_UUID: HeaderName = HeaderName::from_static("x-arvados-container-gateway-uuid");
/// Which of its ports.
pub const TARGET_PORT: HeaderName = HeaderName::from_static("x-arvados-container-target-port");

/// What is shown and expected on one connection.
#[derive(Debug)]
pub struct Proof {
    shown: HeaderValue,
    expected: Secret,
}

impl Proof {
    /// For a connection on which this certificate was presented (DER).
    pub fn new(gateway: &ContainerGateway, certificate: &[u8]) -> Option<Proof> {
        let shown = proof::shown(&gateway.key, certificate);
        let expected = proof::answered(&gateway.key, &shown);
        let mut shown = HeaderValue::try_from(shown).ok()?;
        shown.set_sensitive(true);
        Some(Proof { shown, expected })
    }

    /// Shows it on a request.
    pub fn show(&self, headers: &mut HeaderMap) {
        headers.insert(SHOWN, self.shown.clone());
    }

    /// Checks the answer, and takes the proof off it: it is not for clients.
    ///
    /// # Errors
    /// [`Fault::WrongProof`]: whoever answers is not the container's gateway, and nothing of it is
    /// passed on.
    pub fn check(&self, headers: &mut HeaderMap) -> Result<(), Fault> {
        let holds = {
            let mut given = headers.get_all(ANSWERED).iter();
            matches!((given.next(), given.next()), (Some(one), None) if self.expected.matches(one.as_bytes()))
        };
        for name in [SHOWN, ANSWERED, GATEWAY_UUID, TARGET_PORT] {
            headers.remove(name);
        }
        if holds {
            Ok(())
        } else {
            Err(Fault::WrongProof)
        }
    }
}
