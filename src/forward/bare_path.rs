//! Learns from the redirects of an app whether it serves its path without a slash at the end (see `model::bare_path`).

use http::{HeaderValue, header, response::Parts};

use crate::authorize::Permit;

/// An app that redirects its root to the same without the slash serves that.
pub fn learn(permit: &Permit, head: &Parts) {
    let (app, destination) = (permit.app(), permit.destination());
    let is_root = destination.public_target().path().strip_suffix('/') == Some(&*app.mount);
    if !is_root || app.mount.is_empty() || app.spec.strip_prefix {
        return;
    }
    let Some(Ok(location)) = head.headers.get(header::LOCATION).map(HeaderValue::to_str) else { return };
    let path = match location.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |slash| &rest[slash..]),
        None => location,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if path == &*app.mount && app.bare_path.learn() {
        tracing::info!(app = %app.id(), "the app serves its address without a slash at the end: it is forwarded from now on");
    }
}
