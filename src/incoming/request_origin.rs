//! Where a request was started: at our own origin, or at another
//! (docs/behaviour.md#credentials).

use http::{HeaderMap, HeaderName, header};

use super::header_presence::HeaderPresence;
use crate::model::{
    arrival::{Origin, Provenance, RequestClass},
    header_values::{Occurrence, occurrence},
    site::Site,
    vhost::VirtualHost,
};

pub(super) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The three Sec-Fetch headers; a doubled one is nothing a browser sends and counts as unknown.
#[derive(Clone, Copy, Debug)]
pub struct FetchMetadata<'h> {
    pub(super) site: Occurrence<'h>,
    pub(super) mode: Occurrence<'h>,
    pub(super) dest: Occurrence<'h>,
}

impl<'h> FetchMetadata<'h> {
    /// Reads the headers.
    pub fn read(headers: &'h HeaderMap, names: HeaderPresence) -> FetchMetadata<'h> {
        if !names.fetch {
            return FetchMetadata {
                site: Occurrence::Absent,
                mode: Occurrence::Absent,
                dest: Occurrence::Absent,
            };
        }
        FetchMetadata {
            site: occurrence(headers, &SEC_FETCH_SITE),
            mode: occurrence(headers, &SEC_FETCH_MODE),
            dest: occurrence(headers, &SEC_FETCH_DEST),
        }
    }

    pub(super) fn is_absent(&self) -> bool {
        [self.site, self.mode, self.dest] == [Occurrence::Absent; 3]
    }
}

/// What the Origin header says about where the request was started.
pub fn origin(headers: &HeaderMap, vhost: &VirtualHost, site: &Site) -> Origin {
    match occurrence(headers, &header::ORIGIN) {
        Occurrence::Absent => Origin::Absent,
        Occurrence::Once(value) if site.is_origin(vhost, value) => Origin::Own,
        Occurrence::Once(_) | Occurrence::Repeated => Origin::Foreign,
    }
}

/// Whether cookies count. `same-site` counts as cross-site: the neighbours are strangers' apps.
pub fn provenance(class: RequestClass, fetch: &FetchMetadata<'_>, origin: Origin) -> Provenance {
    let is_navigation = class == RequestClass::Navigation;
    match (fetch.site, origin) {
        // The browser's own word, which no page can forge. `Origin: null` beside it is what a form
        // sends from a page that asks for no referrer.
        (Occurrence::Once(b"same-origin" | b"none"), _) => Provenance::Own,
        (Occurrence::Absent, Origin::Own | Origin::Absent) if fetch.is_absent() => Provenance::Own,
        (Occurrence::Absent | Occurrence::Once(_) | Occurrence::Repeated, _)
            if is_navigation && !fetch.is_absent() =>
        {
            Provenance::Own
        }
        (Occurrence::Absent | Occurrence::Once(_) | Occurrence::Repeated, _) => Provenance::Foreign,
    }
}
