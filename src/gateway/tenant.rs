//! Addresses whose tenant may change: a port of the range, and a registered name
//! (docs/behaviour.md#hosts). What a browser keeps of the last tenant must not reach the next one,
//! nor its scripts run under the next one's name.
//!
//! A cookie of ours tells which tenant the browser knows. When it names another, the browser is
//! told once to forget what it has, and comes back.

use std::time::Duration;

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderName, HeaderValue, Method, Response, header};

use super::answer::Answer;
use crate::{
    incoming::cookies::{self, strip_blanks},
    model::{
        app::App,
        arrival::{Arrival, RequestClass},
        site::Site,
        vhost::VirtualHost,
    },
    route::host::{HostTarget, parse_label},
    session::cookie,
};

/// Bytes of expired cookies in one answer, over all paths: browsers bound a head.
const MAX_EXPIRED: usize = 48 * 1024;
/// What a browser keeps outlives its windows, so what tells whose it is must too: 400 days, the
/// most there is.
const REMEMBERED: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// Path segments for which cookies are expired.
const MAX_DEPTH: usize = 16;

/// What a browser knows of an address.
#[derive(Debug, PartialEq, Eq)]
pub enum Acquaintance {
    /// The tenant cannot change, or is the one it knows.
    Same,
    /// None yet: it is told with the answer.
    New(HeaderValue),
    /// Another one than now.
    Other(HeaderValue),
}

impl Acquaintance {
    /// What tells the browser whom it has met.
    pub fn introduction(self) -> Option<HeaderValue> {
        match self {
            Acquaintance::New(line) => Some(line),
            Acquaintance::Same | Acquaintance::Other(_) => None,
        }
    }
}

/// What the browser knows of this address.
pub fn acquaintance(
    headers: &http::HeaderMap,
    vhost: &VirtualHost,
    app: &App,
    site: &Site,
) -> Acquaintance {
    let may_change = match vhost {
        VirtualHost::Site => false,
        VirtualHost::Port(_) => true,
        VirtualHost::Host(label) => matches!(parse_label(label), HostTarget::Name(_)),
    };
    let Some(gateway) = app.container().filter(|_| may_change) else {
        return Acquaintance::Same;
    };
    let hash = digest::digest(&digest::SHA256, gateway.container.as_str().as_bytes());
    let current = URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]);
    let presented = cookies::scan(headers, &site.cookies, vhost)
        .unwrap_or_default()
        .tenant;
    if presented.iter().any(|known| known == current.as_bytes()) {
        return Acquaintance::Same;
    }
    let name = site.cookies.tenant_at(vhost);
    match cookie::remember(&name, &current, REMEMBERED, site.origin.secure) {
        Some(line) if presented.is_empty() => Acquaintance::New(line),
        Some(line) => Acquaintance::Other(line),
        None => Acquaintance::Same,
    }
}

/// Whether the request can be sent back to itself, so that the browser forgets first.
pub fn can_come_back(arrival: &Arrival) -> bool {
    let reads = arrival.method == Method::GET || arrival.method == Method::HEAD;
    reads && arrival.class != RequestClass::WebSocket
}

/// Has the browser forget what the last tenant left, and know the new one.
pub fn forget(
    response: &mut Response<Answer>,
    headers: &http::HeaderMap,
    arrival: &Arrival,
    site: &Site,
    line: &HeaderValue,
) {
    let clear = HeaderName::from_static("clear-site-data");
    response
        .headers_mut()
        .insert(clear, HeaderValue::from_static("\"cache\", \"storage\""));
    for line in expired(headers, arrival, site) {
        response.headers_mut().append(header::SET_COOKIE, line);
    }
    response
        .headers_mut()
        .append(header::SET_COOKIE, line.clone());
}

/// Every cookie of the request that is not ours for another address, at `/` and at every path above
/// the request's: a browser does not say at which of them it was set.
fn expired(headers: &http::HeaderMap, arrival: &Arrival, site: &Site) -> Vec<HeaderValue> {
    let own = site.cookies.app_at(&arrival.vhost);
    let mut names: Vec<&[u8]> = Vec::new();
    for line in headers.get_all(header::COOKIE) {
        for pair in cookies::pairs(line.as_bytes()) {
            let name = strip_blanks(pair.name);
            let ours = site.cookies.is_ours(name) && name != own.as_bytes();
            if !name.is_empty() && !ours && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let paths = above(arrival.target.path());
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
