//! From bytes that a parser accepted to one validated [`IncomingRequest`], or a reason to refuse
//! them.
//!
//! Invariant: ambiguous input is refused, never repaired. Later stages read what is parsed here;
//! the header map itself is for `forward` alone, which copies it.

pub mod cookies;
pub mod form;
pub mod forwarded;
pub mod framing;
pub mod header_presence;
pub mod host;
pub mod http2;
mod malformed;
pub mod path;
pub mod path_prefix;
pub mod public_port;
pub mod request;
pub mod request_class;
mod request_origin;

use http::{HeaderMap, Method, header, request::Parts, uri::PathAndQuery};

use crate::model::{
    arrival::{Arrival, Framing, Origin, RequestClass},
    grpc::GrpcCall,
    header_values::{Occurrence, list, occurrence, single},
    site::Site,
};
use header_presence::HeaderPresence;
pub use malformed::Malformed;
pub use request::IncomingRequest;

/// Longest method, in bytes. The grammar has no limit, but apps need no longer ones.
const MAX_METHOD: usize = 32;
/// Longest request target, in bytes.
const MAX_TARGET: usize = 8 * 1024;

/// Whether one of the gateways on its way was this one (RFC 9110 section 7.6.3).
fn passed_here(headers: &HeaderMap, site: &Site) -> bool {
    list(headers, &header::VIA).any(|hop| hop.eq_ignore_ascii_case(site.via.as_bytes()))
}

/// Parses a request head; `ends`: no body follows it.
///
/// # Errors
/// The first reason to refuse it; nothing of it may then be forwarded.
pub fn parse(parts: &Parts, ends: bool, site: &Site) -> Result<Arrival, Malformed> {
    let method = parts.method.clone();
    if method == Method::CONNECT || method == Method::TRACE || method.as_str().len() > MAX_METHOD {
        return Err(Malformed::Method);
    }
    let vhost = host::check(parts, site)?;
    let target = parts.uri.path_and_query().ok_or(Malformed::Target)?;
    if target.as_str().len() > MAX_TARGET {
        return Err(Malformed::TooLong);
    }
    path::check(target.as_str())?;
    let headers = &parts.headers;
    let names = HeaderPresence::from_headers(headers);
    let framing = if names.framing {
        framing::read(headers, parts.version, ends)?
    } else {
        framing::implicit(parts.version, ends)
    };
    if names.authorization && occurrence(headers, &header::AUTHORIZATION) == Occurrence::Repeated {
        return Err(Malformed::Authorization);
    }
    if names.via && passed_here(headers, site) {
        return Err(Malformed::Loop);
    }
    let origin = if names.origin {
        request_origin::origin(headers, &vhost, site)
    } else {
        Origin::Absent
    };
    let fetch = request_origin::FetchMetadata::read(headers, names);
    let class = request_class::classify(parts, names, &fetch, framing)?;
    let provenance = request_origin::provenance(class, &fetch, origin);
    // gRPC calls are refused with status 200, which a proxy that asks takes for a permission.
    let is_auth_request = || site.below_forward_auth(&vhost, target.path()).is_some();
    let may_be_call = names.content_type && class == RequestClass::Program && !is_auth_request();
    let sends_form = origin == Origin::Own && request_class::sends_form(parts, &fetch);
    let unmarked = without_mark(target).filter(|_| sends_form && site.signs_in);
    Ok(Arrival {
        method,
        vhost,
        resends_form: unmarked.is_some(),
        target: unmarked.unwrap_or_else(|| target.clone()),
        grpc: may_be_call
            .then(|| GrpcCall::from_headers(headers))
            .flatten(),
        class,
        provenance,
        is_preflight: names.origin && is_preflight(parts, framing),
        sends_form,
        origin,
        framing,
        address_token: None,
    })
}

/// Whether a browser asks if a page of another origin may send a request: `OPTIONS` without a body,
/// with `Origin` and `Access-Control-Request-Method`, each once.
fn is_preflight(parts: &Parts, framing: Framing) -> bool {
    let has = |name| single(&parts.headers, &name).is_some();
    parts.method == Method::OPTIONS
        && matches!(framing, Framing::None | Framing::Length(0))
        && has(header::ORIGIN)
        && has(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The end of the query by which our page marks a form that it sends again. The form goes to its
/// own address, so that the app's cookies come along and relative links in the answer hold.
pub const RESEND_MARK: &str = "ludgate-resume";

/// The target without the mark; `None` where there is none.
fn without_mark(target: &PathAndQuery) -> Option<PathAndQuery> {
    let text = target.as_str().strip_suffix(RESEND_MARK)?;
    PathAndQuery::try_from(text.strip_suffix(['?', '&'])?).ok()
}
