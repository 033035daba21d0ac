//! Remotes of git.

use url::{Host, Url};

use crate::source::{error::SourceError, host_rules::HostRules, http::has_user};

/// Longest remote, in bytes.
const MAX_REMOTE: usize = 2048;

/// A remote that git may be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GitRemote {
    /// As git gets it.
    pub(super) text: String,
    pub(super) transport: Transport,
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// How a remote is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Https,
    Http,
    Ssh,
}

impl Transport {
    /// git's word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Transport::Https => "https",
            Transport::Http => "http",
            Transport::Ssh => "ssh",
        }
    }
}

impl GitRemote {
    /// Reads `https://`, `ssh://`, `user@host:path`, and `http://` if the rules allow it.
    ///
    /// # Errors
    /// Permanent. Other transports start programs or read files of this machine.
    pub(super) fn parse(text: &str, rules: &HostRules) -> Result<GitRemote, SourceError> {
        // `ext::` and all other helpers.
        if let Some((helper, _)) = text.split_once("::")
            && !helper.is_empty()
            && helper.chars().all(|c| c.is_ascii_alphanumeric())
        {
            return Err(not_allowed(helper));
        }
        let is_allowed = |c: char| c.is_ascii_graphic() || (!c.is_ascii() && !c.is_control());
        if text.is_empty() || text.len() > MAX_REMOTE || !text.chars().all(is_allowed) {
            return Err(invalid(
                "is empty, too long, or has spaces or control characters",
            ));
        }
        if text.starts_with('-') {
            return Err(invalid("must not begin with \"-\""));
        }
        match text.split_once("://") {
            Some((scheme, _)) => GitRemote::from_url(scheme, text, rules),
            None => GitRemote::from_scp(text),
        }
    }

    fn from_url(scheme: &str, text: &str, rules: &HostRules) -> Result<GitRemote, SourceError> {
        let transport = match scheme {
            "https" => Transport::Https,
            "http" if rules.plain_http => Transport::Http,
            "ssh" => Transport::Ssh,
            other => return Err(not_allowed(other)),
        };
        let url = Url::parse(text).map_err(|_| invalid("is no URL"))?;
        let is_user_allowed = match transport {
            Transport::Ssh => url.password().is_none() && is_user(url.username()),
            Transport::Https | Transport::Http => !has_user(&url),
        };
        if !is_user_allowed {
            return Err(invalid("must have no password, and a user only with ssh"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("must have no query and no fragment"));
        }
        let host = match url.host() {
            Some(Host::Domain(host)) if is_host(host) => host.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(Host::Domain(_)) | None => return Err(invalid("has no valid host")),
        };
        let port = match transport {
            Transport::Ssh => url.port().unwrap_or(22),
            Transport::Https | Transport::Http => url.port_or_known_default().unwrap_or_default(),
        };
        Ok(GitRemote {
            text: url.to_string(),
            transport,
            host,
            port,
        })
    }

    /// The short form of ssh. Its path is relative to the user's home, and so it stays as it is.
    fn from_scp(text: &str) -> Result<GitRemote, SourceError> {
        let parsed = text.split_once(':').and_then(|(before, path)| {
            let (user, host) = before.split_once('@')?;
            let is_path = !path.is_empty() && !path.starts_with('-');
            (is_path && !user.is_empty() && is_user(user) && is_host(host)).then_some(host)
        });
        let host = parsed.ok_or_else(|| {
            invalid("must begin with https:// or ssh://, or have the form user@host:path")
        })?;
        Ok(GitRemote {
            text: text.to_owned(),
            transport: Transport::Ssh,
            host: host.to_owned(),
            port: 22,
        })
    }
}

fn invalid(why: &str) -> SourceError {
    SourceError::permanent(format!("the git remote {why}"))
}

fn not_allowed(transport: &str) -> SourceError {
    let shown: String = transport.chars().take(20).collect();
    SourceError::permanent(format!("transport '{shown}' not allowed"))
}

/// The name becomes an argument of ssh, also through a shell.
fn is_user(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !text.starts_with('-') && text.chars().all(is_allowed)
}

fn is_host(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, plain_http: bool) -> Result<GitRemote, String> {
        let rules = HostRules {
            plain_http,
            ..HostRules::default()
        };
        GitRemote::parse(text, &rules).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn https_and_ssh_are_remotes() {
        for (text, transport, host, port) in [
            ("https://a.test/o/r.git", Transport::Https, "a.test", 443),
            ("https://a.test:8443/r", Transport::Https, "a.test", 8443),
            ("http://127.0.0.1:80/r", Transport::Http, "127.0.0.1", 80),
            ("https://[::1]/r", Transport::Https, "::1", 443),
            ("ssh://git@a.test/o/r.git", Transport::Ssh, "a.test", 22),
            ("ssh://a.test:2222/r", Transport::Ssh, "a.test", 2222),
            ("ssh://git@[::1]:2222/r", Transport::Ssh, "::1", 2222),
            ("git@a.test:o/r.git", Transport::Ssh, "a.test", 22),
            ("git@a.test:/srv/r.git", Transport::Ssh, "a.test", 22),
        ] {
            let remote = parsed(text, true).expect("a remote");
            let found = (remote.transport, remote.host.as_str(), remote.port);
            assert_eq!(found, (transport, host, port), "{text}");
        }
    }

    #[test]
    fn other_transports_are_not_allowed() {
        for (text, transport) in [
            ("file:///srv/r", "file"),
            ("git://a.test/r", "git"),
            ("ftp://a.test/r", "ftp"),
            ("http://a.test/r", "http"),
            ("ext::sh -c x", "ext"),
            ("fd::17", "fd"),
            ("HTTPS://a.test/r", "HTTPS"),
            ("git+ssh://a.test/r", "git+ssh"),
        ] {
            let error = parsed(text, false).expect_err("refused");
            assert_eq!(error, format!("transport '{transport}' not allowed"));
        }
    }

    #[test]
    fn remotes_with_tricks_are_refused() {
        let long = format!("https://a.test/{}", "a".repeat(MAX_REMOTE));
        for text in [
            "",
            "/srv/r",
            "./r",
            "r",
            "a.test:r",
            "--upload-pack=x",
            "-oProxyCommand=x@a.test:r",
            "https://user@a.test/r",
            "https://user:pass@a.test/r",
            "https://a.test/r?x",
            "https://a.test/r#x",
            "https://a.test/r\n",
            "https://a test/r",
            "https://",
            "ssh://git:pass@a.test/r",
            "ssh://-oProxyCommand=x/r",
            "ssh://git@-oProxyCommand=x/r",
            "ssh://-x@a.test/r",
            "ssh://a$(x)@a.test/r",
            "ssh://git@a'b.test/r",
            "git@-a.test:r",
            "-git@a.test:r",
            "git@a.test:-r",
            "git@a.test:",
            "git@[::1]:r",
            "a b@a.test:r",
            &long,
        ] {
            assert!(parsed(text, true).is_err(), "{text}");
        }
    }
}
