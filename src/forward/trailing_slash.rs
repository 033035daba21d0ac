//! Learns from the redirects of an app whether it serves its path without a slash at the end (see
//! `model::trailing_slash`).

use http::{HeaderMap, HeaderValue, header};

use super::outgoing::Outgoing;
use crate::model::app::PathRewrite;

/// An app that redirects its root to the same without the slash serves that.
pub(super) fn learn(outgoing: &Outgoing<'_, '_>, headers: &HeaderMap) {
    let (app, destination) = (outgoing.permit.app(), outgoing.permit.destination());
    let target = destination.public_target();
    // A query may control the target of the redirect, and a third party can link to any query.
    let is_root = target.path().strip_suffix('/') == Some(&*app.mount) && target.query().is_none();
    if !is_root || app.mount.is_empty() || app.spec.path_rewrite != PathRewrite::Keep {
        return;
    }
    let Some(Ok(location)) = headers.get(header::LOCATION).map(HeaderValue::to_str) else {
        return;
    };
    let origin = outgoing.origin();
    let path = location.strip_prefix(&*origin.text).unwrap_or(location);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if path == &*app.mount && app.trailing_slash.mark_omitted() {
        tracing::info!(app = %app.id(), "the app redirects to its path without a trailing slash; from now on requests without the slash are forwarded");
    }
}
