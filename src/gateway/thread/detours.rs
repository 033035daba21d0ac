//! Requests whose browser is first told something and then comes again: that a token has become a
//! session, that the address has another tenant, or that all this is to be had with https.

use http::{HeaderValue, Response, StatusCode, header, request::Parts};

use super::{DataThread, Passing, refused};
use crate::{
    gateway::{
        access_log::Record,
        answer::Answer,
        consult::Consulted,
        decision::{Reason, Refusal},
        respond,
        tenant::{self, Acquaintance},
    },
    model::{arrival::Arrival, site::Site},
};

/// A request for the site's name at whatever port this listener has, as one for the port that
/// people use.
pub fn at_public_port(parts: &mut Parts, site: &Site) {
    let Some(host) = parts.headers.get_mut(header::HOST) else {
        return;
    };
    let whole = host.as_bytes();
    let name = match whole.iter().rposition(|byte| *byte == b':') {
        Some(colon) if !whole.ends_with(b"]") => whole.get(..colon).unwrap_or_default(),
        Some(_) | None => whole,
    };
    let (origin, name_of) = (&site.origin, name.to_vec());
    let authority = match origin.port == origin.default_port() {
        true => name.to_vec(),
        false => [name, b":", origin.port.to_string().as_bytes()].concat(),
    };
    if let Ok(authority) = HeaderValue::from_bytes(&authority) {
        *host = authority;
        // What it says beside is of the same port, or refused for being another host.
        let path = parts.uri.path_and_query().cloned();
        if let Some(path) = path.filter(|_| {
            parts
                .uri
                .authority()
                .is_some_and(|named| named.host().as_bytes() == name_of.as_slice())
        }) {
            parts.uri = path.into();
        }
    }
}

/// To the same address with https; of the request nothing else is looked at, and nothing is set.
pub fn to_https(arrival: &Arrival, site: &Site, record: &mut Record) -> Response<Answer> {
    (record.decision, record.reason) = ("redirect", "to_https");
    respond::redirect(
        StatusCode::PERMANENT_REDIRECT,
        &site.url(&arrival.vhost, arrival.target.as_str()),
    )
}

/// The address has another tenant than the one this browser knows.
pub fn another_tenant(
    parts: &Parts,
    arrival: &Arrival,
    site: &Site,
    line: &HeaderValue,
    record: &mut Record,
) -> Response<Answer> {
    let refusal = Refusal {
        reason: Reason::OtherTenant,
        app: None,
    };
    record.reason = refusal.reason.as_str();
    if tenant::can_come_back(arrival) {
        record.decision = "redirect";
        let again = site.url(&arrival.vhost, arrival.target.as_str());
        let mut response = respond::redirect(StatusCode::SEE_OTHER, &again);
        tenant::forget(&mut response, &parts.headers, arrival, site, line);
        return response;
    }
    record.decision = "deny";
    refused(&refusal, arrival, site, None, record)
}

impl DataThread {
    /// A person came with a token in the address, and may enter: to the same address without it,
    /// with a session in its place. Somebody who had a session here keeps it.
    pub(super) async fn without_token(
        &self,
        passing: &Passing<'_>,
        consulted: &Consulted,
        tenant: &Acquaintance,
        record: &mut Record,
    ) -> Response<Answer> {
        let Passing {
            parts,
            arrival,
            permit,
            site,
            ..
        } = passing;
        record.decision = "redirect";
        record.reason = "token_in_address";
        let minted = match &consulted.live {
            Some(live) => self.mint(live, permit, arrival, site).await,
            None => None,
        };
        let again = site.url(&arrival.vhost, arrival.target.as_str());
        let mut response = respond::redirect(StatusCode::SEE_OTHER, &again);
        if let Acquaintance::Other(line) = tenant {
            tenant::forget(&mut response, &parts.headers, arrival, site, line);
        }
        if let Some((_, line)) = minted {
            // After what expires the last tenant's session, which has the same name.
            response.headers_mut().append(header::SET_COOKIE, line);
        }
        response
    }
}
