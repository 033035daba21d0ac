//! Mutual authentication with a container's gateway, whose certificate no CA has signed: each side
//! proves that it has the container's key, and that it means this very certificate.

use aws_lc_rs::hmac;

use crate::model::{hex, secret::Secret, uuid::Uuid};

/// The key of a container's gateway; computing it needs the system's token.
pub fn key(system_token: &Secret, container: &Uuid) -> Secret {
    Secret::new(hex_hmac(
        system_token.expose().as_bytes(),
        container.as_str().as_bytes(),
    ))
}

/// Our proof on a connection with this certificate (DER). The HMAC's key is the key's hexadecimal
/// text, not the bytes it encodes.
pub fn shown(key: &Secret, certificate: &[u8]) -> String {
    hex_hmac(key.expose().as_bytes(), certificate)
}

/// The proof that the gateway must answer with.
pub fn answered(key: &Secret, shown: &str) -> Secret {
    Secret::new(hex_hmac(key.expose().as_bytes(), shown.as_bytes()))
}

fn hex_hmac(key: &[u8], message: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    hex::encode(tag.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_is_made_as_the_gateway_makes_it() {
        // RFC 4231 test case 2.
        assert_eq!(
            hex_hmac(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        // Computed independently of this code.
        let container = Uuid::new("zzzzz-dz642-xqhgmzqm1tyc3bs").expect("a uuid");
        let key = key(&Secret::new("root"), &container);
        assert_eq!(
            key.expose(),
            "17b40144cec5f7792fd05e3a4a6867e1b9310b60879024f34d6567737ad5e9d7"
        );
        let shown = shown(&key, b"certificate");
        assert_eq!(
            shown,
            "c32f491be09ce5cb98b6b8fb084fbf59945aef7f9adbab717113896a4dd462db"
        );
        assert_eq!(
            answered(&key, &shown).expose(),
            "d0411c1e9e53e1f6df804213c425a40d7026c349e83cfec81c2c83db546039b8"
        );
    }
}
