//! Mutual proof with an upstream that no certificate authority vouches for.

use std::sync::Arc;

use http::HeaderMap;

use super::fault::Fault;
use crate::model::{
    attested::{Attestation, AttestedUpstream},
    header_values::single,
};

/// The proof on one connection.
#[derive(Debug)]
pub struct ConnectionProof {
    upstream: Arc<dyn AttestedUpstream>,
    attestation: Attestation,
}

impl ConnectionProof {
    /// The proof for a connection on which this certificate (DER) was presented.
    pub fn new(
        upstream: &Arc<dyn AttestedUpstream>,
        certificate: &[u8],
    ) -> Option<ConnectionProof> {
        Some(ConnectionProof {
            attestation: upstream.attest(certificate)?,
            upstream: upstream.clone(),
        })
    }

    /// Adds our proof to a request.
    pub fn add_to(&self, headers: &mut HeaderMap) {
        let (name, value) = &self.attestation.ours;
        headers.insert(name, value.clone());
    }

    /// Checks the upstream's proof on a response, and removes everything of it: none of it is for
    /// clients.
    ///
    /// # Errors
    /// [`Fault::WrongProof`]: the peer is not the upstream, and nothing of its response is relayed.
    pub fn check(&self, headers: &mut HeaderMap) -> Result<(), Fault> {
        let (name, expected) = &self.attestation.theirs;
        let is_valid =
            single(headers, name).is_some_and(|given| expected.matches(given.as_bytes()));
        headers.remove(name);
        headers.remove(&self.attestation.ours.0);
        for (name, _) in self.upstream.headers() {
            headers.remove(name);
        }
        if is_valid {
            Ok(())
        } else {
            Err(Fault::WrongProof)
        }
    }
}
