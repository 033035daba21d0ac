//! Secret text: redacted in `Debug`, without `PartialEq`, compared in constant time here only, and
//! overwritten on drop. Copies that libraries make on the way to a socket are not covered.

use std::fmt;

use zeroize::Zeroizing;

/// A client secret, a token, a key in text form.
#[derive(Clone)]
pub struct Secret(Zeroizing<Box<str>>);

impl Secret {
    /// Wraps a text. The caller's copy is not overwritten.
    pub fn new(text: impl Into<Box<str>>) -> Secret {
        Secret(Zeroizing::new(text.into()))
    }

    /// The text. Only for code that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares with a presented text, in time that depends on the lengths only.
    pub fn matches(&self, presented: &[u8]) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(self.0.as_bytes(), presented).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
