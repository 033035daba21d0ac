//! The target of a hub's route: where its requests go. A hub chooses it, so not every address is
//! one.

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

use crate::{
    cluster::endpoint_slices::may_be_a_server,
    model::{
        app::{Protocol, Upstream, UpstreamScheme},
        site::is_loopback_host,
    },
};

/// Longest target, in bytes.
const MAX_TARGET: usize = 1024;

/// The server behind a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubTarget {
    /// Its address.
    pub upstream: Upstream,
    /// Its HTTP version.
    pub protocol: Protocol,
}

/// Why a text is no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HubTargetError {
    /// It is too long, or cannot be parsed.
    #[error("the target is no URL")]
    NoUrl,
    /// Another scheme.
    #[error("the target must begin with http://, https:// or h2c://")]
    Scheme,
    /// It has more than scheme, host and port.
    #[error("the target must be scheme, host and port only: a server gets the path of the request")]
    NotOnly,
    /// A link-local address, a metadata service, or an address of ours.
    #[error("the target is an address to which no route may lead")]
    Address,
}

impl HubTarget {
    /// Parses a target. `own` are listeners of this process that no route may lead to.
    ///
    /// # Errors
    /// See [`HubTargetError`].
    pub fn parse(text: &str, own: &[SocketAddr]) -> Result<HubTarget, HubTargetError> {
        if text.len() > MAX_TARGET {
            return Err(HubTargetError::NoUrl);
        }
        let (scheme, protocol, text) = match text.split_once("://") {
            Some(("http", _)) => (UpstreamScheme::Http, Protocol::Http1, text.to_owned()),
            Some(("https", _)) => (UpstreamScheme::Https, Protocol::Http1, text.to_owned()),
            // Parsed as http, whose hosts and ports have the same grammar.
            Some(("h2c", rest)) => {
                let text = format!("http://{rest}");
                (UpstreamScheme::Http, Protocol::Http2, text)
            }
            Some(_) | None => return Err(HubTargetError::Scheme),
        };
        let url = Url::parse(&text).map_err(|_| HubTargetError::NoUrl)?;
        let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if !is_plain || !url.username().is_empty() || url.password().is_some() {
            return Err(HubTargetError::NotOnly);
        }
        let port = url.port_or_known_default().filter(|port| *port != 0);
        let port = port.ok_or(HubTargetError::NoUrl)?;
        let address = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(_)) => None,
            None => return Err(HubTargetError::NoUrl),
        };
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_matches(['[', ']']);
        // A name is checked when its address is known, which is when it is connected to.
        let is_refused = address.is_some_and(|address| !may_be_a_server(address));
        if is_refused || is_of(own, host, address, port) {
            return Err(HubTargetError::Address);
        }
        let upstream = Upstream {
            scheme,
            host: host.into(),
            port,
        };
        Ok(HubTarget { upstream, protocol })
    }
}

/// Whether it is one of these listeners, by their own address or by one of loopback.
fn is_of(own: &[SocketAddr], host: &str, address: Option<IpAddr>, port: u16) -> bool {
    let is_same = |listener: &SocketAddr| {
        listener.port() == port && (is_loopback_host(host) || address == Some(listener.ip()))
    };
    own.iter().any(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, HubTargetError> {
        let own = ["127.0.0.1:9090", "10.0.0.1:8001"].map(|text| text.parse().expect("an address"));
        HubTarget::parse(text, &own).map(|target| match target.protocol {
            Protocol::Http1 => target.upstream.to_string(),
            Protocol::Http2 => format!("h2 {}", target.upstream),
        })
    }

    #[test]
    fn a_target_is_scheme_host_and_port() {
        for (text, wanted) in [
            ("http://10.0.0.7:8888", "http://10.0.0.7:8888"),
            ("http://10.0.0.7:8888/", "http://10.0.0.7:8888"),
            ("http://127.0.0.1:8888", "http://127.0.0.1:8888"),
            ("http://[::1]:8888", "http://[::1]:8888"),
            ("http://hub:8081", "http://hub:8081"),
            ("http://hub", "http://hub"),
            ("https://lab.test", "https://lab.test"),
            ("h2c://lab.test:80", "h2 http://lab.test"),
        ] {
            assert_eq!(parse(text), Ok(wanted.to_owned()), "{text}");
        }
    }

    #[test]
    fn other_targets_are_refused() {
        for (text, error) in [
            ("", HubTargetError::Scheme),
            ("10.0.0.7:8888", HubTargetError::Scheme),
            ("unix:/run/lab.sock", HubTargetError::Scheme),
            ("file:///etc/passwd", HubTargetError::Scheme),
            ("HTTP://10.0.0.7", HubTargetError::Scheme),
            ("http://", HubTargetError::NoUrl),
            ("http://a b", HubTargetError::NoUrl),
            ("http://lab:0", HubTargetError::NoUrl),
            ("http://lab/path", HubTargetError::NotOnly),
            ("http://lab?x", HubTargetError::NotOnly),
            ("http://lab#x", HubTargetError::NotOnly),
            ("http://me@lab", HubTargetError::NotOnly),
            ("http://169.254.169.254", HubTargetError::Address),
            ("http://2852039166", HubTargetError::Address),
            ("http://0xa9fea9fe", HubTargetError::Address),
            ("http://[::ffff:169.254.169.254]", HubTargetError::Address),
            ("http://[fe80::1]", HubTargetError::Address),
            ("http://[fd00:ec2::254]", HubTargetError::Address),
            ("http://0.0.0.0:8888", HubTargetError::Address),
            ("http://127.0.0.1:9090", HubTargetError::Address),
            ("http://localhost:9090", HubTargetError::Address),
            ("http://[::1]:9090", HubTargetError::Address),
            ("http://10.0.0.1:8001", HubTargetError::Address),
            ("http://127.0.0.1:8001", HubTargetError::Address),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }
}
