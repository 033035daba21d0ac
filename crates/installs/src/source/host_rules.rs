//! Which hosts and addresses sources may lead to.

use std::{collections::BTreeMap, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use ludgate_ops::public_address::is_public;

use super::error::SourceError;

/// Token servers of registries that are not on the registry's own host.
const KNOWN_REALMS: [(&str, &str); 2] = [
    ("registry-1.docker.io", "auth.docker.io"),
    ("registry.gitlab.com", "gitlab.com"),
];

/// Which hosts may be called. By default all hosts with public addresses, and only with TLS.
#[derive(Clone, Debug, Default)]
pub struct HostRules {
    /// If there are any, a host must match one of them.
    pub allowed_hosts: Vec<HostPattern>,
    /// Hosts that are refused, also if they are allowed above.
    pub denied_hosts: Vec<HostPattern>,
    /// Networks that are allowed although they are not public: those of internal registries.
    pub allowed_networks: Vec<IpNet>,
    /// Networks that are refused although they are public.
    pub denied_networks: Vec<IpNet>,
    /// Whether sources may use http. The password of such a source is readable on its way.
    pub plain_http: bool,
    /// Token servers by registry, both with their port if it is not the default. They get the
    /// registry's credentials.
    pub token_servers: BTreeMap<String, Vec<String>>,
}

impl HostRules {
    /// Whether a host may be called, as far as its name tells.
    ///
    /// # Errors
    /// Permanent, with the host's name.
    pub(crate) fn check_host(&self, host: &str) -> Result<(), SourceError> {
        let matches = |patterns: &[HostPattern]| patterns.iter().any(|it| it.matches(host));
        let is_allowed = self.allowed_hosts.is_empty() || matches(&self.allowed_hosts);
        if !is_allowed || matches(&self.denied_hosts) {
            let what = format!("the host {host:?} is not allowed for sources");
            return Err(SourceError::permanent(what));
        }
        Ok(())
    }

    /// Whether a connection to an address may be opened.
    pub(crate) fn permits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let contains = |networks: &[IpNet]| networks.iter().any(|it| it.contains(&address));
        if contains(&self.denied_networks) {
            return false;
        }
        contains(&self.allowed_networks) || is_public(address)
    }

    /// Whether a registry's token server is configured or well known. Both have their port, if it
    /// is not the default.
    pub(crate) fn lists_token_server(&self, registry: &str, server: &str) -> bool {
        let configured = self.token_servers.get(registry);
        configured.is_some_and(|servers| servers.iter().any(|it| it == server))
            || KNOWN_REALMS.contains(&(registry, server))
    }
}

/// A host name, or `*.` and a domain for all names below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    name: String,
    is_wildcard: bool,
}

/// The text is no host name, and not `*.` and one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host name; allowed: \"charts.example.com\", \"*.example.com\"")]
pub struct InvalidHostPattern(String);

impl FromStr for HostPattern {
    type Err = InvalidHostPattern;

    fn from_str(text: &str) -> Result<HostPattern, InvalidHostPattern> {
        let (name, is_wildcard) = match text.strip_prefix("*.") {
            Some(domain) => (domain, true),
            None => (text, false),
        };
        let is_part = |part: &str| {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            !part.is_empty() && part.chars().all(is_allowed)
        };
        let is_address = !is_wildcard && name.parse::<IpAddr>().is_ok();
        if !is_address && !name.split('.').all(is_part) {
            return Err(InvalidHostPattern(text.to_owned()));
        }
        Ok(HostPattern {
            name: name.to_ascii_lowercase(),
            is_wildcard,
        })
    }
}

impl HostPattern {
    /// Whether this is the pattern of a host.
    pub(crate) fn matches(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        match host.strip_suffix(&self.name) {
            Some("") => !self.is_wildcard,
            Some(rest) => self.is_wildcard && rest.ends_with('.'),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().expect("a pattern")
    }

    #[test]
    fn a_pattern_is_a_name_or_all_names_below_one() {
        for (text, host, wanted) in [
            ("charts.test", "charts.test", true),
            ("charts.test", "Charts.Test.", true),
            ("charts.test", "a.charts.test", false),
            ("charts.test", "xcharts.test", false),
            ("*.charts.test", "a.charts.test", true),
            ("*.charts.test", "a.b.charts.test", true),
            ("*.charts.test", "charts.test", false),
            ("*.charts.test", "xcharts.test", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("::1", "::1", true),
        ] {
            assert_eq!(pattern(text).matches(host), wanted, "{text} {host}");
        }
        for text in ["", "*", "*.", "a..b", "https://a.test", "a.test:443", "a*"] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_denied_host_is_refused_also_if_it_is_allowed() {
        let rules = HostRules {
            allowed_hosts: vec![pattern("*.test")],
            denied_hosts: vec![pattern("bad.test")],
            ..HostRules::default()
        };
        assert!(rules.check_host("good.test").is_ok());
        for host in ["bad.test", "good.example"] {
            let error = rules.check_host(host).expect_err("refused");
            assert!(error.message().contains(host), "{error}");
        }
        assert!(HostRules::default().check_host("any.example").is_ok());
    }

    #[test]
    fn listed_networks_count_before_the_default() {
        let network = |text: &str| text.parse::<IpNet>().expect("a network");
        let rules = HostRules {
            allowed_networks: vec![network("10.1.0.0/16"), network("127.0.0.0/8")],
            denied_networks: vec![network("10.1.2.0/24"), network("1.1.1.0/24")],
            ..HostRules::default()
        };
        for (address, wanted) in [
            ("10.1.1.1", true),
            ("::ffff:10.1.1.1", true),
            ("10.1.2.1", false),
            ("10.2.0.1", false),
            ("127.0.0.1", true),
            ("169.254.169.254", false),
            ("1.1.1.1", false),
            ("8.8.8.8", true),
            ("::ffff:8.8.8.8", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:192.168.0.1", false),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(rules.permits(address), wanted, "{address}");
        }
    }

    #[test]
    fn token_servers_are_listed_by_registry() {
        let servers = vec!["auth.charts.test:8443".to_owned()];
        let rules = HostRules {
            token_servers: BTreeMap::from([("registry.charts.test".to_owned(), servers)]),
            ..HostRules::default()
        };
        for (registry, server, wanted) in [
            ("registry.charts.test", "auth.charts.test:8443", true),
            ("registry.charts.test", "auth.charts.test", false),
            ("other.test", "auth.charts.test:8443", false),
            ("registry-1.docker.io", "auth.docker.io", true),
            ("registry.charts.test", "auth.docker.io", false),
        ] {
            assert_eq!(rules.lists_token_server(registry, server), wanted);
        }
    }
}
