//! The body of a request.

use ludgate_installs::resource_json::error::ResourceError;
use serde_json::Value;

/// A body that was read as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestBody<'a>(pub(super) &'a [u8]);

impl<'a> RequestBody<'a> {
    /// The JSON object in it. Keys that no object has are ignored, as in the Kubermatic API.
    ///
    /// # Errors
    /// It is no JSON, or no object.
    pub(super) fn json(self) -> Result<Value, ResourceError> {
        let value: Value = serde_json::from_slice(self.0)
            .map_err(|error| ResourceError::bad_request(format!("the body is no JSON: {error}")))?;
        match value.is_object() {
            true => Ok(value),
            false => Err(ResourceError::bad_request("the body is no JSON object")),
        }
    }

    /// Its text.
    ///
    /// # Errors
    /// It is no UTF-8.
    pub(super) fn text(self) -> Result<&'a str, ResourceError> {
        std::str::from_utf8(self.0).map_err(|_| ResourceError::bad_request("the body is no UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_one_object() {
        assert!(RequestBody(b"{\"a\":1,\"b\":{}}").json().is_ok());
        for bad in ["", "{", "[]", "1", "null", "{} {}"] {
            let error = RequestBody(bad.as_bytes()).json().expect_err("refused");
            assert_eq!(error.code, 400, "{bad:?}");
        }
        assert!(RequestBody(&[0xff]).text().is_err());
    }
}
