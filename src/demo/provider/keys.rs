//! Keys of the demo's provider: ES256, made at start, kept in memory only.

use std::io;

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::session::cookie::NewId;

/// A key pair with an id.
pub struct SigningKey {
    id: String,
    pair: EcdsaKeyPair,
}

impl SigningKey {
    /// A new random key pair.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn new() -> io::Result<SigningKey> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .map_err(|_| io::Error::other("no key could be made"))?;
        let id = NewId::random().map_err(io::Error::other)?.as_str()[..16].to_owned();
        Ok(SigningKey { id, pair })
    }

    /// Its `kid`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The public half as a JWK (RFC 7517, RFC 7518 section 6.2).
    pub fn public_jwk(&self) -> Value {
        // Uncompressed point: 0x04, x, y.
        let point = self.pair.public_key().as_ref();
        let coordinate = |range: std::ops::Range<usize>| {
            URL_SAFE_NO_PAD.encode(point.get(range).unwrap_or_default())
        };
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": coordinate(1..33), "y": coordinate(33..65),
        })
    }

    /// A compact JWS (RFC 7515 section 7.1); empty when the system cannot sign.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let input = format!("{}.{}", encode(header), encode(claims));
        match self.pair.sign(&SystemRandom::new(), input.as_bytes()) {
            Ok(signature) => format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature)),
            Err(_) => String::new(),
        }
    }
}

impl SigningKey {
    /// Whether this key signed the compact JWS.
    pub fn verifies(&self, token: &str) -> bool {
        use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
        let Some((input, signature)) = token.rsplit_once('.') else {
            return false;
        };
        let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else {
            return false;
        };
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        key.verify(input.as_bytes(), &signature).is_ok()
    }
}
