//! TLS requirements of an app's https upstreams: CA, server name, key pin, client certificate.
//!
//! Parsed values only; `forward::app_tls` builds the TLS configuration from them.

use std::{fmt, sync::Arc};

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::pki_types::ServerName;

use super::secret::Secret;

/// How the app is verified, and our certificate for it. By default the system's CAs and the
/// upstream's host name are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM content of the CA of the app's certificate; `None`: the system's CAs, or none if a pin
    /// is set.
    pub ca: Option<Arc<[u8]>>,
    /// Name for SNI and verification; `None`: the upstream's host.
    pub server_name: Option<ServerName<'static>>,
    /// Pin of the certificate's key. With a CA both must match; without one the pin is enough.
    pub pin: Option<KeyPin>,
    /// Client certificate, sent if the app requests one.
    pub client_certificate: Option<Arc<ClientCertificate>>,
}

/// The SHA-256 of a SubjectPublicKeyInfo in DER, as `pin-sha256` of RFC 7469 section 2.4 has it.
///
/// It pins the key, not the certificate: certificates are renewed every few weeks, mostly with the
/// same key, and operators remove a pin that breaks with each renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPin([u8; 32]);

impl KeyPin {
    /// Parses `sha256:` followed by base64.
    pub fn parse(text: &str) -> Option<KeyPin> {
        let bytes = STANDARD.decode(text.strip_prefix("sha256:")?).ok()?;
        bytes.try_into().ok().map(KeyPin)
    }

    /// Whether the SubjectPublicKeyInfo in DER has this hash. Keys are public, so the comparison
    /// need not be constant-time.
    pub fn matches(&self, public_key: &[u8]) -> bool {
        digest::digest(&digest::SHA256, public_key).as_ref() == self.0
    }
}

/// Our client certificate and its key.
pub struct ClientCertificate {
    /// PEM content of the chain, ours first.
    pub chain: Arc<[u8]>,
    /// PEM content of the private key.
    pub key: Secret,
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientCertificate({} bytes)", self.chain.len())
    }
}

impl PartialEq for ClientCertificate {
    /// The certificate holds the public key, so equal chains have equal private keys.
    fn eq(&self, other: &ClientCertificate) -> bool {
        self.chain == other.chain
    }
}

impl Eq for ClientCertificate {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_the_base64_of_one_sha_256_and_nothing_else() {
        let of_nothing = "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        let pin = KeyPin::parse(of_nothing).expect("a pin");
        assert!(pin.matches(b"") && !pin.matches(b"x"));
        for bad in [
            "",
            "sha256:",
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            "sha1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
            "sha256:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=",
            "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hS",
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ] {
            assert_eq!(KeyPin::parse(bad), None, "{bad:?}");
        }
    }
}
