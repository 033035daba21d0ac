//! On a listener that redirects to https, the Host header names that listener's own port. It is
//! rewritten to the public port, so that the rest of `incoming` knows one authority for the site.

use http::{HeaderValue, header, request::Parts};

use super::host::without_port;
use crate::model::site::Site;

/// Replaces the port of the Host header by the public one.
pub fn rewrite_host(parts: &mut Parts, site: &Site) {
    let Some(host) = parts.headers.get_mut(header::HOST) else {
        return;
    };
    let name = without_port(host.as_bytes()).to_vec();
    let origin = &site.origin;
    let authority = if origin.port == origin.default_port() {
        name.clone()
    } else {
        [&name, &b":"[..], origin.port.to_string().as_bytes()].concat()
    };
    let Ok(authority) = HeaderValue::from_bytes(&authority) else {
        return;
    };
    *host = authority;
    // An absolute target for the same name has the listener's port too. For another name it stays,
    // and is refused as a mismatch.
    let same_name = |named: &http::uri::Authority| named.host().as_bytes() == name.as_slice();
    let path = parts.uri.path_and_query().cloned();
    if let Some(path) = path.filter(|_| parts.uri.authority().is_some_and(same_name)) {
        parts.uri = path.into();
    }
}
