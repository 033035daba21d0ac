//! The head of a request that another proxy has received and asks about
//! (docs/behaviour.md#other-proxies).
//!
//! Proxies describe it in one of two ways: by `X-Forwarded-Method`, `-Proto`, `-Host` and `-Uri`,
//! as nginx, Traefik and Caddy do, or by method and `Host` of the auth request itself, with the
//! target behind the path of the endpoint, as Envoy does. An auth request that mixes the two is
//! refused, since a client may have written one of them. Only those of trusted proxies are read.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header, request::Parts,
    uri::PathAndQuery,
};

use super::request::IncomingRequest;
use crate::model::{
    header_values::{Occurrence, occurrence, single},
    site::Site,
};

const X_FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// How a proxy describes the request that it asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Description {
    /// By headers.
    Headers,
    /// By the path behind that of the endpoint.
    Path,
}

impl Description {
    /// How this auth request describes the asked request.
    pub fn of_auth_request(auth_request: &IncomingRequest<'_>) -> Description {
        match target_behind(auth_request) {
            Some("") | None => Description::Headers,
            Some(_) => Description::Path,
        }
    }

    /// The head of the asked request, with the other headers of the auth request. It was not
    /// checked yet. `None` if it is missing, incomplete or described twice.
    pub fn read(self, auth_request: &IncomingRequest<'_>) -> Option<Parts> {
        let headers = auth_request.headers();
        let described = match self {
            Description::Headers => by_headers(headers, auth_request.site()),
            Description::Path => by_path(auth_request),
        };
        let (method, host, target) = described?;
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = method;
        parts.uri = Uri::from(target);
        parts.headers = headers.clone();
        parts.headers.insert(header::HOST, host);
        // They frame the body of the auth request, which is not that of the asked request.
        for name in [
            header::CONTENT_LENGTH,
            header::TRANSFER_ENCODING,
            header::EXPECT,
        ] {
            parts.headers.remove(name);
        }
        Some(parts)
    }
}

type Described = (Method, HeaderValue, PathAndQuery);

fn by_headers(headers: &HeaderMap, site: &Site) -> Option<Described> {
    let method = single(headers, &X_FORWARDED_METHOD)?;
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let proto = single(headers, &X_FORWARDED_PROTO)?;
    let host = single(headers, &X_FORWARDED_HOST)?.clone();
    let target = parse_target(single(headers, &X_FORWARDED_URI)?.to_str().ok()?)?;
    is_scheme(proto.as_bytes(), site).then_some((method, host, target))
}

fn by_path(auth_request: &IncomingRequest<'_>) -> Option<Described> {
    let headers = auth_request.headers();
    let is_doubled = [X_FORWARDED_METHOD, X_FORWARDED_HOST, X_FORWARDED_URI]
        .iter()
        .any(|name| headers.contains_key(name));
    let is_ours = match occurrence(headers, &X_FORWARDED_PROTO) {
        Occurrence::Absent => true,
        Occurrence::Once(proto) => is_scheme(proto, auth_request.site()),
        Occurrence::Repeated => false,
    };
    if is_doubled || !is_ours {
        return None;
    }
    let host = single(headers, &header::HOST)?.clone();
    let target = parse_target(target_behind(auth_request)?)?;
    Some((auth_request.arrival.method.clone(), host, target))
}

/// The target behind the path of the endpoint, with its query; empty: there is none.
fn target_behind<'r>(auth_request: &'r IncomingRequest<'_>) -> Option<&'r str> {
    let arrival = &auth_request.arrival;
    let path = arrival.target.path();
    let below = auth_request
        .site()
        .below_forward_auth(&arrival.vhost, path)?;
    if below.is_empty() {
        // The query is that of the auth request.
        return Some(below);
    }
    arrival.target.as_str().get(path.len() - below.len()..)
}

/// A path with its query. A fragment would be cut off, and read differently by the proxy.
fn parse_target(text: &str) -> Option<PathAndQuery> {
    let is_target = text.starts_with('/') && !text.contains('#');
    is_target
        .then(|| PathAndQuery::try_from(text).ok())
        .flatten()
}

/// Whether it is the scheme of our origins. Traefik names that of WebSockets differently.
fn is_scheme(proto: &[u8], site: &Site) -> bool {
    let names = if site.origin.secure {
        [&b"https"[..], b"wss"]
    } else {
        [&b"http"[..], b"ws"]
    };
    names.contains(&proto)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        arrival::Arrival,
        client::Client,
        cookie_names::CookieNames,
        site::WebOrigin,
        vhost::{HostLabel, VirtualHost},
    };

    fn site() -> Site {
        let origin = WebOrigin::new(true, "gw.test", 443);
        let mut site = Site::with_default_paths(origin, CookieNames::new(true, "c", &[]));
        site.apps_domain = Some("svc.test".into());
        site
    }

    /// Method, host and target of the asked request.
    fn described(
        vhost: VirtualHost,
        target: &str,
        lines: &[(&'static str, &str)],
    ) -> Option<String> {
        let site = site();
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(
                *name,
                HeaderValue::from_bytes(value.as_bytes()).expect("a value"),
            );
        }
        let target = PathAndQuery::try_from(target).expect("a target");
        let arrival = Arrival::navigation(vhost, target);
        let client = Client::at(std::net::Ipv4Addr::LOCALHOST.into());
        let id = HeaderValue::from_static("1");
        let auth_request = IncomingRequest::new(arrival, &headers, &site, id, client);
        let parts = Description::of_auth_request(&auth_request).read(&auth_request)?;
        assert!(!parts.headers.contains_key(header::CONTENT_LENGTH));
        let host = parts.headers[header::HOST]
            .to_str()
            .expect("text")
            .to_owned();
        Some(format!("{} {host} {}", parts.method, parts.uri))
    }

    const WHOLE: [(&str, &str); 5] = [
        ("host", "gw.test"),
        ("x-forwarded-method", "POST"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "web.svc.test"),
        ("x-forwarded-uri", "/a%2Fb//c?d=/x"),
    ];

    #[test]
    fn headers_describe_a_request_when_each_is_there_once() {
        let by =
            |lines: &[(&'static str, &str)]| described(VirtualHost::Site, "/oauth2/auth", lines);
        let wanted = Some("POST web.svc.test /a%2Fb//c?d=/x".to_owned());
        assert_eq!(by(&WHOLE), wanted);
        assert_eq!(
            by(&[&WHOLE[..], &[("content-length", "3")]].concat()),
            wanted
        );
        for left_out in 1..WHOLE.len() {
            let mut lines = WHOLE.to_vec();
            let line = lines.remove(left_out);
            assert_eq!(by(&lines), None, "without {line:?}");
            let doubled = [&WHOLE[..], &[line]].concat();
            assert_eq!(by(&doubled), None, "twice {line:?}");
        }
        for (name, value) in [
            ("x-forwarded-uri", ""),
            ("x-forwarded-uri", "x"),
            ("x-forwarded-uri", "https://gw.test/x"),
            ("x-forwarded-uri", "/x#y"),
            ("x-forwarded-uri", "/x\u{e9}"),
            ("x-forwarded-uri", "/x y"),
            ("x-forwarded-method", ""),
            ("x-forwarded-method", "GET POST"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-proto", "https,http"),
            ("x-forwarded-proto", "javascript"),
        ] {
            let lines = WHOLE.map(|line| if line.0 == name { (name, value) } else { line });
            assert_eq!(by(&lines), None, "{name}: {value}");
        }
        let websocket = WHOLE.map(|line| match line.0 {
            "x-forwarded-proto" => (line.0, "wss"),
            _ => line,
        });
        assert_eq!(by(&websocket), wanted);
    }

    #[test]
    fn the_path_describes_a_request_when_nothing_else_does() {
        let label = HostLabel::new(b"web").expect("a label");
        let host = VirtualHost::Host(label);
        let by = |vhost, target: &str, more: &[(&'static str, &str)]| {
            described(vhost, target, &[&[("host", "h.test")][..], more].concat())
        };
        for (vhost, target, wanted) in [
            (
                VirtualHost::Site,
                "/oauth2/auth/a%2Fb//c?d=/x",
                "/a%2Fb//c?d=/x",
            ),
            (VirtualHost::Site, "/oauth2/auth/", "/"),
            (VirtualHost::Site, "/oauth2/auth//x", "//x"),
            (VirtualHost::Site, "/.ludgate/auth/?x", "/?x"),
            (
                host,
                "/.ludgate/auth/x?allowed_groups=a",
                "/x?allowed_groups=a",
            ),
        ] {
            let wanted = format!("GET h.test {wanted}");
            assert_eq!(by(vhost, target, &[]), Some(wanted.clone()), "{target}");
            let proto = [("x-forwarded-proto", "https")];
            assert_eq!(by(vhost, target, &proto), Some(wanted), "{target}");
            for more in [
                ("x-forwarded-uri", "/y"),
                ("x-forwarded-host", "h.test"),
                ("x-forwarded-method", "GET"),
                ("x-forwarded-proto", "http"),
            ] {
                assert_eq!(by(vhost, target, &[more]), None, "{target} {more:?}");
            }
        }
        for (vhost, target) in [
            (VirtualHost::Site, "/oauth2/auth"),
            (VirtualHost::Site, "/oauth2/authx"),
            (VirtualHost::Site, "/.ludgate/auth?x"),
            (host, "/oauth2/auth/x"),
        ] {
            assert_eq!(by(vhost, target, &[]), None, "{target}");
        }
    }
}
