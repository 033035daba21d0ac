//! Whether a request head is accepted, or redirected before anything is looked up.

use http::{StatusCode, request::Parts};

use super::{
    decision::{Decision, Redirect},
    labels::RedirectReason,
};
use crate::{
    incoming::{self, Malformed, host, request_class::prefers_html},
    model::{arrival::Arrival, site::Site},
};

/// Facts about a client's connection that its requests are checked against.
#[derive(Clone, Copy, Debug)]
pub struct Ingress {
    /// The listener redirects everything to https.
    pub redirects: bool,
    /// The certificate of the connection is valid for the host of the request.
    pub certificate_fits: bool,
}

/// The accepted head; `ends`: no body follows it.
///
/// # Errors
/// A refusal of a malformed head, a 421 where the connection's certificate is for another host, or
/// a redirect.
pub fn head(parts: &Parts, ends: bool, site: &Site, ingress: Ingress) -> Result<Arrival, Decision> {
    let arrival = match incoming::parse(parts, ends, site) {
        Ok(arrival) if ingress.certificate_fits => arrival,
        Ok(_) => return Err(Malformed::Misdirected.into()),
        Err(Malformed::UnknownHost) if is_alias_navigation(parts, site) => {
            return Err(to_site(parts, site));
        }
        Err(malformed) => return Err(malformed.into()),
    };
    if ingress.redirects {
        return Err(Decision::Redirect(Redirect {
            status: StatusCode::PERMANENT_REDIRECT,
            location: site.url(&arrival.vhost, arrival.target.as_str()),
            reason: RedirectReason::ToHttps,
        }));
    }
    Ok(arrival)
}

fn is_alias_navigation(parts: &Parts, site: &Site) -> bool {
    prefers_html(&parts.headers) && host::is_alias(parts, site)
}

fn to_site(parts: &Parts, site: &Site) -> Decision {
    let target = parts.uri.path_and_query();
    let target = target.map_or("/", |target| target.as_str());
    Decision::Redirect(Redirect {
        status: StatusCode::TEMPORARY_REDIRECT,
        location: format!("{}{target}", site.origin),
        reason: RedirectReason::Alias,
    })
}
