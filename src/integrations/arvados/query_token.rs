//! Query parameters that hold an Arvados token, however their names are percent-encoded.

/// Both names are in use; the longer one is also the cookie's.
const NAMES: [&str; 2] = ["arvados_api_token", "api_token"];

/// The value of a `name=value` pair, if the name is one of a token's.
pub fn token_of(pair: &str) -> Option<String> {
    let (name, value) = url::form_urlencoded::parse(pair.as_bytes()).next()?;
    NAMES.contains(&&*name).then(|| value.into_owned())
}

/// Whether an address, such as a `Referer` value, holds such a parameter.
pub fn names_token(address: &[u8]) -> bool {
    let Some(at) = memchr::memchr(b'?', address) else {
        return false;
    };
    let query = String::from_utf8_lossy(&address[at + 1..]);
    query.split('&').any(|pair| token_of(pair).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_token_is_recognised() {
        for with in [
            "https://a/x?api_token=T",
            "/?b&%61pi_token=T",
            "https://a/?x=1&arvados_api_token",
        ] {
            assert!(names_token(with.as_bytes()), "{with}");
        }
        for without in [
            "https://a/api_token=T",
            "https://a/?my_api_token=T",
            "https://a/?x=api_token",
            "",
        ] {
            assert!(!names_token(without.as_bytes()), "{without}");
        }
    }
}
