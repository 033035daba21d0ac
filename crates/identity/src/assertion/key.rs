//! One key pair of the curve P-256, which signs compact JWTs (RFC 7515 section 7.1).

use std::fmt;

use aws_lc_rs::{
    digest,
    error::KeyRejected,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// A key pair with its id.
pub(super) struct AssertionKey {
    /// The thumbprint of the public key (RFC 7638), so that all replicas name it alike.
    id: Box<str>,
    /// The coordinates of the public key (RFC 7518 section 6.2.1).
    x: String,
    y: String,
    /// The header of its tokens, encoded.
    header: String,
    pair: EcdsaKeyPair,
}

impl fmt::Debug for AssertionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AssertionKey({})", self.id)
    }
}

impl AssertionKey {
    /// Reads a private key in the form PKCS #8 or SEC 1 (DER).
    ///
    /// # Errors
    /// When it is no key of the curve P-256.
    pub(super) fn from_der(der: &[u8]) -> Result<AssertionKey, KeyRejected> {
        let pair = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der)?;
        // An uncompressed point: 0x04, x, y (SEC 1 section 2.3.3).
        let point = pair.public_key().as_ref();
        let coordinate = |range: std::ops::Range<usize>| {
            URL_SAFE_NO_PAD.encode(point.get(range).unwrap_or_default())
        };
        let (x, y) = (coordinate(1..33), coordinate(33..65));
        // RFC 7638 section 3: these members in this order, without blanks.
        let members = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let hash = digest::digest(&digest::SHA256, members.as_bytes());
        let id = URL_SAFE_NO_PAD.encode(hash.as_ref());
        let header = json!({ "alg": "ES256", "kid": id, "typ": "JWT" });
        Ok(AssertionKey {
            id: id.into(),
            x,
            y,
            header: URL_SAFE_NO_PAD.encode(header.to_string()),
            pair,
        })
    }

    /// Its id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The public key as a JWK.
    pub(super) fn public_jwk(&self) -> Value {
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256",
            "kid": self.id, "x": self.x, "y": self.y,
        })
    }

    /// A token with this payload; `None` if the library cannot sign.
    pub(super) fn sign(&self, payload: &[u8]) -> Option<String> {
        let mut token = format!("{}.{}", self.header, URL_SAFE_NO_PAD.encode(payload));
        let signature = self.pair.sign(&SystemRandom::new(), token.as_bytes());
        let signature = signature.ok()?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Some(token)
    }
}
