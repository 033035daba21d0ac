//! The responses of the API.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;

use crate::ops::admin::{self, Reply};

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Reply {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// A response with a text for operators.
pub(super) fn plain(status: StatusCode, text: impl Into<String>) -> Reply {
    let mut text = text.into();
    text.push('\n');
    admin::text(status, text)
}
