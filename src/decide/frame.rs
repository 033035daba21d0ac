//! Frames between origins of the site: `apps.frame_ancestors` (docs/behaviour.md#credentials).
//! Pure.

use http::{HeaderName, header};

use crate::{
    incoming::IncomingRequest,
    model::{
        app::App,
        arrival::{Provenance, RequestClass},
        header_values::single,
    },
};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Lets session cookies count in a frame that a page of a listed origin opens.
///
/// No page can write another origin into `Referer`. A page of a third origin may frame the listed
/// page; then the policy of the response keeps the browser from showing it.
pub fn accept_frame(request: &mut IncomingRequest<'_>, app: &App) {
    let Some(ancestors) = &app.spec.frame_ancestors else {
        return;
    };
    if request.arrival.class != RequestClass::Frame {
        return;
    }
    let headers = request.headers();
    // In a frame of another site, browsers send no SameSite cookies.
    let is_same_site = single(headers, &SEC_FETCH_SITE).is_some_and(|site| site == "same-site");
    let referer = single(headers, &header::REFERER);
    if is_same_site && referer.is_some_and(|referer| ancestors.contain_referer(referer.as_bytes()))
    {
        request.arrival.provenance = Provenance::Own;
    }
}
