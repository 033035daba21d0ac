//! What TLS towards an app must hold, and what is shown to the app: said per app, for its https
//! upstreams.
//!
//! Only values, read and checked; `trust` makes them count.

use std::{fmt, sync::Arc};

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::pki_types::ServerName;

use super::secret::Secret;

/// Whom the app must prove to be, and who we are to it. The default is as for any site: the
/// system's authorities, and the upstream's host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM file content of the CA that signed the app's certificate; `None`: the system's, or with
    /// a pin none.
    pub ca: Option<Arc<[u8]>>,
    /// Asked for (SNI), and held by the certificate; `None`: the upstream's host.
    pub server_name: Option<ServerName<'static>>,
    /// The key of the app's certificate. With a CA both must hold; without one the pin is enough.
    pub pin: Option<KeyPin>,
    /// Shown to an app that asks for one.
    pub client_certificate: Option<Arc<ClientCertificate>>,
}

/// The SHA-256 of a SubjectPublicKeyInfo in DER, as `pin-sha256` of RFC 7469 section 2.4 has it.
///
/// Of the key and not of the certificate: a certificate is renewed every few weeks, mostly by a
/// machine and for the same key, and a pin that breaks with each renewal is soon taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPin([u8; 32]);

impl KeyPin {
    /// Reads `sha256:` and base64.
    pub fn parse(text: &str) -> Option<KeyPin> {
        let bytes = STANDARD.decode(text.strip_prefix("sha256:")?).ok()?;
        bytes.try_into().ok().map(KeyPin)
    }

    /// Whether this is the key, given as SubjectPublicKeyInfo in DER. It is public: nothing hangs
    /// on time.
    pub fn holds(&self, public_key: &[u8]) -> bool {
        digest::digest(&digest::SHA256, public_key).as_ref() == self.0
    }
}

/// A certificate of ours and its key.
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
    /// The key follows from the certificate, which holds its other half.
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
        assert!(pin.holds(b"") && !pin.holds(b"x"));
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
