//! Credentials that an app must not see: our cookies, tokens that we accepted, and addresses with a
//! token in them (docs/behaviour.md#headers).

use http::HeaderValue;

use super::outgoing::Outgoing;
use crate::{incoming::cookies, model::app::App};

/// Whether the app gets the client's `Authorization` header: not when we took the token in it for a
/// sign-in, unless the app asks for it (`keep_authorization`), and not in place of our own
/// credentials.
pub(super) fn passes_authorization(outgoing: &Outgoing<'_, '_>) -> bool {
    let spec = &outgoing.permit.app().spec;
    (!outgoing.authorization_is_ours || spec.keep_authorization) && spec.basic_auth.is_none()
}

/// Removes the cookies that this app must not see; every other byte and the order stay. `None`:
/// nothing is left.
pub(super) fn filter_cookies(
    line: &HeaderValue,
    outgoing: &Outgoing<'_, '_>,
) -> Option<HeaderValue> {
    let names = &outgoing.site.cookies;
    let kind = outgoing.permit.app().kind;
    let withheld =
        |pair: &cookies::Pair<'_>| names.is_withheld_from(kind, cookies::strip_blanks(pair.name));
    let bytes = line.as_bytes();
    let mut has_withheld = false;
    let mut kept = Vec::new();
    for pair in cookies::pairs(bytes) {
        if withheld(&pair) {
            has_withheld = true;
        } else if kept.is_empty() {
            kept.reserve(bytes.len());
            kept.extend_from_slice(cookies::strip_blanks(pair.raw));
        } else {
            kept.push(b';');
            kept.extend_from_slice(pair.raw);
        }
    }
    if !has_withheld {
        return Some(line.clone());
    }
    if kept.is_empty() {
        return None;
    }
    HeaderValue::try_from(kept).ok()
}

/// Whether a `Referer` has a token in its address, which the app must not see.
pub(super) fn withholds_referer(value: &HeaderValue, app: &App) -> bool {
    app.attested()
        .is_some_and(|upstream| upstream.withholds_referer(value.as_bytes()))
}
