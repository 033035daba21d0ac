//! Requests whose browser is first told something and then comes again: that a token has become a session, or
//! that the address has another tenant.

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

/// The address has another tenant than the one this browser knows.
pub fn another_tenant(
    parts: &Parts,
    arrival: &Arrival,
    site: &Site,
    line: &HeaderValue,
    record: &mut Record,
) -> Response<Answer> {
    let refusal = Refusal { reason: Reason::OtherTenant, app: None };
    record.reason = refusal.reason.as_str();
    if tenant::can_come_back(arrival) {
        record.decision = "redirect";
        let again = site.url(&arrival.place, arrival.target.as_str());
        let mut response = respond::redirect(StatusCode::SEE_OTHER, &again);
        tenant::forget(&mut response, &parts.headers, arrival, site, line);
        return response;
    }
    record.decision = "deny";
    refused(&refusal, arrival, site, None, record)
}

impl DataThread {
    /// A person came with a token in the address, and may enter: to the same address without it, with a
    /// session in its place. Somebody who had a session here keeps it.
    pub(super) fn without_token(
        &self,
        passing: &Passing<'_>,
        consulted: &Consulted,
        tenant: &Acquaintance,
        record: &mut Record,
    ) -> Response<Answer> {
        let Passing { parts, arrival, permit, site, .. } = passing;
        record.decision = "redirect";
        record.reason = "token_in_address";
        let minted = consulted.live.as_ref().and_then(|live| self.mint(live, permit, arrival, site));
        let again = site.url(&arrival.place, arrival.target.as_str());
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
