//! Headers in which a proxy names the person, from listed peers only.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use ludgate_model::{
    access::GroupName,
    header_values::{list, single},
    secret::Secret,
};
use percent_encoding::percent_decode;

use crate::error::LabError;

/// The headers, and the peers from which they are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedHeaderSettings {
    /// Addresses of proxies; none: such headers are refused.
    pub peers: Vec<IpNet>,
    /// The name for sign-in.
    pub user: HeaderName,
    /// The person's token, for the lab.
    pub token: HeaderName,
    /// The names of the person's groups, separated by commas.
    pub groups: HeaderName,
}

impl Default for TrustedHeaderSettings {
    fn default() -> TrustedHeaderSettings {
        TrustedHeaderSettings {
            peers: Vec::new(),
            user: HeaderName::from_static("x-auth-request-user"),
            token: HeaderName::from_static("x-auth-request-token"),
            groups: HeaderName::from_static("x-auth-request-groups"),
        }
    }
}

/// What the headers of a request say.
#[derive(Debug)]
pub(super) enum Proxied {
    /// A person.
    Person {
        username: String,
        token: Option<Secret>,
        groups: Vec<GroupName>,
    },
    /// They name no person.
    Nothing {
        /// Whether the peer is a listed proxy.
        is_listed: bool,
    },
}

impl TrustedHeaderSettings {
    /// Reads the headers.
    ///
    /// # Errors
    /// [`LabError::InvalidToken`] if another peer sends them, or if they are ambiguous.
    pub(super) fn read(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Proxied, LabError> {
        // A listener for IPv6 reports clients of IPv4 as mapped addresses.
        let peer = peer.to_canonical();
        let is_listed = self.peers.iter().any(|network| network.contains(&peer));
        let is_named = headers.contains_key(&self.user) || headers.contains_key(&self.token);
        match (is_named, is_listed) {
            (false, is_listed) => Ok(Proxied::Nothing { is_listed }),
            (true, false) => {
                tracing::warn!(%peer, "headers of a person from a peer that is not in labs.trusted_peers");
                Err(LabError::InvalidToken)
            }
            (true, true) => self.person(headers),
        }
    }

    fn person(&self, headers: &HeaderMap) -> Result<Proxied, LabError> {
        let text = |name| single(headers, name).and_then(|value| value.to_str().ok());
        let username = text(&self.user).filter(|name| !name.is_empty());
        let token = match headers.contains_key(&self.token) {
            false => None,
            true => Some(Secret::new(
                text(&self.token).ok_or(LabError::InvalidToken)?,
            )),
        };
        Ok(Proxied::Person {
            username: username.ok_or(LabError::InvalidToken)?.to_owned(),
            token,
            groups: list(headers, &self.groups).filter_map(group).collect(),
        })
    }
}

/// A group of the list. The gateway writes commas and percent signs of names as escapes.
fn group(written: &[u8]) -> Option<GroupName> {
    GroupName::new(&percent_decode(written).decode_utf8().ok()?)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn settings() -> TrustedHeaderSettings {
        TrustedHeaderSettings {
            peers: vec!["10.0.0.0/8".parse().unwrap()],
            ..TrustedHeaderSettings::default()
        }
    }

    fn read(peer: &str, headers: &[(&'static str, &'static str)]) -> Result<Proxied, LabError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        settings().read(&map, peer.parse().unwrap())
    }

    #[test]
    fn a_listed_proxy_names_a_person() {
        for peer in ["10.1.2.3", "::ffff:10.1.2.3"] {
            let headers = [
                ("x-auth-request-user", "rachel"),
                ("x-auth-request-token", "t"),
                ("x-auth-request-groups", "one, a%2Cb"),
            ];
            let Ok(Proxied::Person {
                username,
                token,
                groups,
            }) = read(peer, &headers)
            else {
                panic!("expected a person")
            };
            assert_eq!(username, "rachel");
            assert!(token.unwrap().matches(b"t"));
            let groups: Vec<&str> = groups.iter().map(GroupName::as_str).collect();
            assert_eq!(groups, ["one", "a,b"]);
        }
    }

    #[test]
    fn headers_of_another_peer_are_refused() {
        for header in ["x-auth-request-user", "x-auth-request-token"] {
            let read = read("192.0.2.1", &[(header, "rachel")]);
            assert_eq!(read.unwrap_err(), LabError::InvalidToken);
        }
        let nothing = read("192.0.2.1", &[]).unwrap();
        assert!(matches!(nothing, Proxied::Nothing { is_listed: false }));
        let nothing = read("10.0.0.1", &[]).unwrap();
        assert!(matches!(nothing, Proxied::Nothing { is_listed: true }));
    }

    #[test]
    fn ambiguous_headers_are_refused() {
        let user = "x-auth-request-user";
        let token = "x-auth-request-token";
        for headers in [
            &[(user, "a"), (user, "b")] as &[_],
            &[(user, "")],
            &[(token, "t")],
            &[(user, "a"), (token, "t"), (token, "u")],
        ] {
            assert!(read("10.0.0.1", headers).is_err(), "{headers:?}");
        }
    }
}
