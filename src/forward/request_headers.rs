//! The headers of a request as an app gets them (docs/behaviour.md#headers).
//!
//! What the client's `Connection` nominates and every spelling of what we set is never taken over.
//! Cookies and bodies aside, all other values pass byte for byte, in order.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{
    header_action::{HeaderAction, action, is_set_by, nominated, overrides_target},
    outgoing::Outgoing,
    strip_credentials,
};
use crate::{
    model::{
        app::Protocol,
        arrival::{Arrival, Framing, RequestClass},
    },
    peer::X_FORWARDED_FOR,
};

/// `X-Request-Id`: ours on every request, a trusted peer's kept.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const X_FORWARDED_ACCESS_TOKEN: HeaderName = HeaderName::from_static("x-forwarded-access-token");

/// Builds the headers for the app in `out`, which is empty.
pub(super) fn build(outgoing: &Outgoing<'_, '_>, mut out: HeaderMap) -> HeaderMap {
    let app = outgoing.permit.app();
    let incoming = outgoing.request.headers();
    // Only fields that would be forwarded: a client cannot remove Host, Cookie or what we set.
    let nominated: Vec<HeaderName> = nominated(incoming).collect();
    let host = match (&app.upstream_host, app.spec.rewrite_host) {
        (Some(host), true) => Some(host),
        (Some(_) | None, _) => incoming.get(header::HOST),
    };
    outgoing.cached.copy_to(&mut out, &outgoing.facts(), host);
    if let Some(token) = &outgoing.access_token {
        out.insert(X_FORWARDED_ACCESS_TOKEN, token.clone());
    }
    // The rule of a path was chosen by the request line, and a preflight is one by its method: no
    // field may replace them.
    let depends_on_target = outgoing.permit.depends_on_target();
    let gets_notice = outgoing.gets_notice();
    for (name, value) in incoming {
        match action(name.as_str()) {
            HeaderAction::Reserved | HeaderAction::HopByHop => {}
            HeaderAction::Cookie => {
                if let Some(value) = strip_credentials::filter_cookies(value, outgoing) {
                    out.append(header::COOKIE, value);
                }
            }
            HeaderAction::Authorization => {
                if strip_credentials::passes_authorization(outgoing) {
                    out.append(header::AUTHORIZATION, value.clone());
                }
            }
            // A page that was opened with a token in its address sends that address with
            // everything it loads.
            HeaderAction::Forward
                if *name == header::REFERER && strip_credentials::withholds_referer(value, app) => {
            }
            HeaderAction::Forward if depends_on_target && overrides_target(name.as_str()) => {}
            HeaderAction::Forward if is_set_by(&app.spec, name.as_str()) => {}
            HeaderAction::Forward if gets_notice && *name == header::ACCEPT_ENCODING => {}
            HeaderAction::Forward => {
                if !nominated.contains(name) {
                    let rewritten = with_upstream_origin(name, value, outgoing);
                    out.append(name, rewritten.unwrap_or_else(|| value.clone()));
                }
            }
        }
    }
    if gets_notice {
        // A compressed page would have to be decompressed first.
        let identity = HeaderValue::from_static("identity");
        out.insert(header::ACCEPT_ENCODING, identity);
    }
    if outgoing.request.arrival.grpc.is_some() && app.spec.protocol == Protocol::Http2 {
        // gRPC servers require it, and it is the only value that HTTP/2 allows (RFC 9113 section
        // 8.2.2).
        out.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    out.append(header::VIA, outgoing.site.via.clone());
    if let Some(chain) = outgoing.peer.continued_chain(incoming) {
        out.insert(X_FORWARDED_FOR, chain);
    }
    out.insert(X_REQUEST_ID, outgoing.request.id.clone());
    set_framing(&mut out, &outgoing.request.arrival);
    out
}

/// `Origin` or `Referer` with the origin that the app knows itself by in place of the one that the
/// browser sees: with `rewrite_host` an app compares them with a Host that the gateway wrote.
/// `None`: the field stays, as one with a foreign origin does.
fn with_upstream_origin(
    name: &HeaderName,
    value: &HeaderValue,
    outgoing: &Outgoing<'_, '_>,
) -> Option<HeaderValue> {
    let app = outgoing.permit.app();
    if !app.spec.rewrite_host || (*name != header::ORIGIN && *name != header::REFERER) {
        return None;
    }
    let public = outgoing.origin();
    let rest = value.as_bytes().strip_prefix(public.text.as_bytes())?;
    let (prefix, path) = match rest {
        [] => ("", rest),
        [b'/', ..] if *name == header::REFERER => {
            let below = rest.strip_prefix(app.mount.as_bytes());
            match (below, app.spec.path_rewrite.prefix()) {
                (Some(below @ ([] | [b'/', ..])), Some(prefix)) => (prefix, below),
                (Some(_) | None, _) => ("", rest),
            }
        }
        _ => return None,
    };
    let origin = app.upstream_origin.as_bytes();
    HeaderValue::try_from([origin, prefix.as_bytes(), path].concat()).ok()
}

/// Sets exactly one framing, independent of the client's. For every method: hyper would drop the
/// body of a GET without one.
fn set_framing(out: &mut HeaderMap, arrival: &Arrival) {
    match arrival.framing {
        Framing::None => {}
        Framing::Length(length) => {
            out.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        Framing::Chunked => {
            out.insert(
                header::TRANSFER_ENCODING,
                HeaderValue::from_static("chunked"),
            );
        }
    }
    if arrival.class == RequestClass::WebSocket {
        out.remove(header::CONTENT_LENGTH);
        out.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        out.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    }
}
