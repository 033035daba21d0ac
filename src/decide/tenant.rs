//! Addresses whose tenant may change: a port of the range, and a registered name. What a browser
//! stored for the last tenant must not reach the next one.
//!
//! A cookie of ours names the tenant that the browser knows. If it names another one, the answer
//! clears the browser's storage once and redirects to the same address.

use std::time::Duration;

use http::{HeaderValue, Method};

use crate::{
    incoming::{
        IncomingRequest,
        cookies::{Candidates, strip_blanks},
    },
    model::{
        app::App,
        arrival::{Arrival, RequestClass},
        vhost::VirtualHost,
    },
    route::host::{HostTarget, parse_label},
    session::cookie,
};

/// Bytes of expired cookies in one answer, over all paths: browsers limit the size of a head.
const MAX_EXPIRED: usize = 48 * 1024;
/// The tenant cookie must outlive what it protects: 400 days, the longest that browsers allow.
const REMEMBERED: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// Path segments for which cookies are expired.
const MAX_DEPTH: usize = 16;

/// The tenant of an address as the browser knows it.
#[derive(Debug, PartialEq, Eq)]
pub enum TenantCookie {
    /// The tenant cannot change, or the browser knows it.
    Unchanged,
    /// The browser knows none yet: the cookie that names it goes with the answer.
    First(HeaderValue),
    /// The browser knows another one; the cookie names the new one.
    Changed(HeaderValue),
}

impl TenantCookie {
    /// Compares what the browser presents with the app that is at its address now.
    pub fn compare(request: &IncomingRequest<'_>, app: &App) -> TenantCookie {
        let Some(current) = &app.tenant_hash else {
            return TenantCookie::Unchanged;
        };
        let vhost = &request.arrival.vhost;
        let may_change = match vhost {
            VirtualHost::Site => false,
            VirtualHost::Port(_) => true,
            VirtualHost::Host(label) => matches!(parse_label(label), HostTarget::Name(_)),
        };
        if !may_change {
            return TenantCookie::Unchanged;
        }
        let presented = request.cookies().ok().map(|cookies| &cookies.tenant);
        let is_known = |known: &Candidates<'_>| known.iter().any(|hash| hash == current.as_bytes());
        if presented.is_some_and(is_known) {
            return TenantCookie::Unchanged;
        }
        let site = request.site();
        let name = site.cookies.tenant_at(vhost);
        match cookie::remember(&name, current, REMEMBERED, site.origin.secure) {
            Some(line) if presented.is_none_or(Candidates::is_empty) => TenantCookie::First(line),
            Some(line) => TenantCookie::Changed(line),
            None => TenantCookie::Unchanged,
        }
    }

    /// The cookie to set on the answer of an app that the browser meets for the first time.
    pub fn first(&self) -> Option<&HeaderValue> {
        match self {
            TenantCookie::First(line) => Some(line),
            TenantCookie::Unchanged | TenantCookie::Changed(_) => None,
        }
    }

    /// The cookie that names the new tenant to a browser that knows another one.
    pub fn into_changed(self) -> Option<HeaderValue> {
        match self {
            TenantCookie::Changed(line) => Some(line),
            TenantCookie::Unchanged | TenantCookie::First(_) => None,
        }
    }
}

/// Whether the request can be sent again unchanged, after the browser forgot the last tenant.
pub fn can_be_repeated(arrival: &Arrival) -> bool {
    let reads = arrival.method == Method::GET || arrival.method == Method::HEAD;
    reads && arrival.class != RequestClass::WebSocket
}

/// Lines that expire every cookie of the request that is not ours for another address, at `/` and
/// at every path above the request's: a browser does not say at which path a cookie was set.
pub fn expire_cookies(request: &IncomingRequest<'_>) -> Vec<HeaderValue> {
    let site = request.site();
    let own = site.cookies.app_at(&request.arrival.vhost);
    let mut names: Vec<&[u8]> = Vec::new();
    for pair in request.cookie_pairs() {
        let name = strip_blanks(pair.name);
        let ours = site.cookies.is_ours(name) && name != own.as_bytes();
        if !name.is_empty() && !ours && !names.contains(&name) {
            names.push(name);
        }
    }
    let paths = above(request.arrival.target.path());
    let secure = if site.origin.secure { "; Secure" } else { "" };
    let lines = names.iter().flat_map(|name| {
        paths.iter().filter_map(move |path| {
            let attributes = format!("=; Path={path}; Max-Age=0{secure}");
            HeaderValue::from_bytes(&[name, attributes.as_bytes()].concat()).ok()
        })
    });
    let mut bytes = 0;
    let fits = |line: &HeaderValue| {
        bytes += line.len() + "set-cookie: \r\n".len();
        bytes <= MAX_EXPIRED
    };
    lines.take_while(fits).collect()
}

/// `/`, and each path above and at this one, with and without a slash at its end.
fn above(path: &str) -> Vec<String> {
    let mut paths = vec!["/".to_owned()];
    let inner = path
        .match_indices('/')
        .map(|(at, _)| at)
        .filter(|at| *at > 0)
        .take(MAX_DEPTH);
    for at in inner {
        paths.push(path[..at].to_owned());
        paths.push(path[..=at].to_owned());
    }
    if !path.ends_with('/') {
        paths.push(path.to_owned());
    }
    // A semicolon would end the attribute.
    paths.retain(|path| !path.contains(';'));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_looked_for_at_every_path_above() {
        assert_eq!(above("/"), ["/"]);
        assert_eq!(above("/a"), ["/", "/a"]);
        assert_eq!(above("/a/b/"), ["/", "/a", "/a/", "/a/b", "/a/b/"]);
        assert_eq!(above("/a;x/b"), ["/"]);
    }
}
