//! Where a request was started: at our own origin, or at another
//! (docs/behaviour.md#credentials).

use http::{HeaderMap, HeaderName, header};

use super::header_presence::HeaderPresence;
use crate::model::{
    arrival::{Origin, Provenance, RequestClass},
    site::Site,
    vhost::VirtualHost,
};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The three Sec-Fetch headers; a doubled one is nothing a browser sends and counts as unknown.
#[derive(Clone, Copy, Debug)]
pub struct FetchMetadata<'h> {
    pub(super) site: Sent<'h>,
    pub(super) mode: Sent<'h>,
    pub(super) dest: Sent<'h>,
}

/// How often a header was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent<'h> {
    No,
    Once(&'h [u8]),
    Often,
}

impl<'h> FetchMetadata<'h> {
    /// Reads the headers.
    pub fn read(headers: &'h HeaderMap, names: HeaderPresence) -> FetchMetadata<'h> {
        if !names.fetch {
            return FetchMetadata {
                site: Sent::No,
                mode: Sent::No,
                dest: Sent::No,
            };
        }
        let sent = |name: HeaderName| {
            let mut values = headers.get_all(name).iter();
            match (values.next(), values.next()) {
                (None, _) => Sent::No,
                (Some(value), None) => Sent::Once(value.as_bytes()),
                (Some(_), Some(_)) => Sent::Often,
            }
        };
        FetchMetadata {
            site: sent(SEC_FETCH_SITE),
            mode: sent(SEC_FETCH_MODE),
            dest: sent(SEC_FETCH_DEST),
        }
    }

    pub(super) fn is_absent(&self) -> bool {
        (self.site, self.mode, self.dest) == (Sent::No, Sent::No, Sent::No)
    }
}

/// What the Origin header says about where the request was started.
pub fn origin(headers: &HeaderMap, vhost: &VirtualHost, site: &Site) -> Origin {
    let mut values = headers.get_all(header::ORIGIN).iter();
    match (values.next(), values.next()) {
        (None, _) => Origin::Absent,
        (Some(value), None) if site.is_origin(vhost, value.as_bytes()) => Origin::Own,
        (Some(_), _) => Origin::Foreign,
    }
}

/// Whether cookies count. `same-site` counts as cross-site: the neighbours are strangers' apps.
pub fn provenance(class: RequestClass, fetch: &FetchMetadata<'_>, origin: Origin) -> Provenance {
    let is_navigation = class == RequestClass::Navigation;
    match (fetch.site, origin) {
        // The browser's own word, which no page can forge. `Origin: null` beside it is what a form
        // sends from a page that asks for no referrer.
        (Sent::Once(b"same-origin" | b"none"), _) => Provenance::Own,
        (Sent::No, Origin::Own | Origin::Absent) if fetch.is_absent() => Provenance::Own,
        (Sent::No | Sent::Once(_) | Sent::Often, _) if is_navigation && !fetch.is_absent() => {
            Provenance::Own
        }
        (Sent::No | Sent::Once(_) | Sent::Often, _) => Provenance::Foreign,
    }
}
