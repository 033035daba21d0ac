//! One request as every stage reads it: parsed once, cookies scanned at most once.

use std::cell::OnceCell;

use http::{HeaderMap, HeaderValue, header};

use super::{
    cookies::{self, Pair, Presented},
    malformed::Malformed,
    request_class::prefers_html,
    request_origin::SEC_FETCH_SITE,
};
use crate::model::{
    arrival::{Arrival, RequestClass},
    client::Client,
    header_values::{Occurrence, occurrence, single},
    site::Site,
};

/// A request head that was parsed, and what its stages need beside it.
pub struct IncomingRequest<'h> {
    /// The validated head.
    pub arrival: Arrival,
    /// The request id: in the log, on pages and in the app's headers.
    pub id: HeaderValue,
    /// The client, as a trusted proxy names it or as it connected.
    pub client: Client,
    headers: &'h HeaderMap,
    site: &'h Site,
    /// Scanned when first needed: a recognised session needs no scan. Boxed because requests are
    /// moved.
    cookies: OnceCell<Result<Box<Presented<'h>>, Malformed>>,
}

impl<'h> IncomingRequest<'h> {
    /// Puts together what was parsed; `headers` are those of the same head.
    pub fn new(
        arrival: Arrival,
        headers: &'h HeaderMap,
        site: &'h Site,
        id: HeaderValue,
        client: Client,
    ) -> IncomingRequest<'h> {
        IncomingRequest {
            arrival,
            id,
            client,
            headers,
            site,
            cookies: OnceCell::new(),
        }
    }

    /// The request id as text, for the log.
    pub fn id_text(&self) -> &str {
        self.id.to_str().unwrap_or_default()
    }

    /// The site that the request arrived at.
    pub fn site(&self) -> &'h Site {
        self.site
    }

    /// Our cookies on this request.
    ///
    /// # Errors
    /// [`Malformed::Cookies`]: too many, or one of ours is far too long.
    pub fn cookies(&self) -> Result<&Presented<'h>, Malformed> {
        let scan =
            || cookies::scan(self.headers, &self.site.cookies, &self.arrival.vhost).map(Box::new);
        match self.cookies.get_or_init(scan) {
            Ok(presented) => Ok(presented),
            Err(malformed) => Err(*malformed),
        }
    }

    /// Our cookies, or none where there are too many: for endpoints that work without any.
    pub fn cookies_or_none(&self) -> Presented<'h> {
        self.cookies().cloned().unwrap_or_default()
    }

    /// All cookies of the request, those of apps included.
    pub fn cookie_pairs(&self) -> impl Iterator<Item = Pair<'h>> + use<'h> {
        let lines = self.headers.get_all(header::COOKIE).iter();
        lines.flat_map(|line| cookies::pairs(line.as_bytes()))
    }

    /// The Cookie header, where it is a single line.
    pub fn cookie_line(&self) -> Option<&'h [u8]> {
        single(self.headers, &header::COOKIE).map(HeaderValue::as_bytes)
    }

    /// The Authorization header; `parse` refuses a second one.
    pub fn authorization(&self) -> Option<&'h HeaderValue> {
        self.headers.get(header::AUTHORIZATION)
    }

    /// Whether the body is a plain url-encoded form.
    pub fn is_url_encoded(&self) -> bool {
        let Some(kind) = single(self.headers, &header::CONTENT_TYPE) else {
            return false;
        };
        let kind = kind.to_str().unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
            && !self.headers.contains_key(header::CONTENT_ENCODING)
    }

    /// Whether errors are rendered as a page instead of problem+json.
    pub fn wants_html(&self) -> bool {
        match self.arrival.class {
            RequestClass::Navigation | RequestClass::Frame => true,
            RequestClass::WebSocket | RequestClass::Program => prefers_html(self.headers),
        }
    }

    /// Whether a browser sent it, as its Sec-Fetch headers say.
    pub fn has_fetch_metadata(&self) -> bool {
        self.headers.contains_key("sec-fetch-mode")
    }

    /// Whether a page of another origin led the browser here, as its Sec-Fetch headers say.
    pub fn is_from_another_origin(&self) -> bool {
        match occurrence(self.headers, &SEC_FETCH_SITE) {
            Occurrence::Absent | Occurrence::Once(b"same-origin" | b"none") => false,
            Occurrence::Once(_) | Occurrence::Repeated => true,
        }
    }

    /// The header map, for `forward` to copy.
    pub fn headers(&self) -> &'h HeaderMap {
        self.headers
    }
}
