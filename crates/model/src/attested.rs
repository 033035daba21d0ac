//! Upstreams that no certificate authority vouches for, and that prove themselves over HTTP.

use std::fmt;

use http::{HeaderName, HeaderValue};

use super::secret::Secret;

/// An upstream that proves itself on each connection, by a secret that both sides know.
pub trait AttestedUpstream: fmt::Debug + Send + Sync {
    /// The workload that has the address now. Another one has another text.
    fn tenant(&self) -> &str;

    /// Headers of every request to it. Responses must not carry them to clients.
    fn headers(&self) -> &[(HeaderName, HeaderValue)];

    /// The proof for a connection on which this certificate (DER) was presented; `None` if there is
    /// none for it.
    fn attest(&self, certificate: &[u8]) -> Option<Attestation>;

    /// Whether a Referer of this value holds a credential, so that the upstream must not see it.
    fn withholds_referer(&self, value: &[u8]) -> bool;
}

impl PartialEq for dyn AttestedUpstream {
    fn eq(&self, other: &dyn AttestedUpstream) -> bool {
        self.tenant() == other.tenant() && self.headers() == other.headers()
    }
}

impl Eq for dyn AttestedUpstream {}

/// Mutual proof on one connection.
#[derive(Debug)]
pub struct Attestation {
    /// The header that proves us to the upstream.
    pub ours: (HeaderName, HeaderValue),
    /// The header of the response that proves the upstream, and its only valid value.
    pub theirs: (HeaderName, Secret),
}
