//! Tokens of registries: which server may give one, and how it is read.

use http::HeaderValue;
use ludgate_ops::auth_challenge::AuthChallenge;
use serde::Deserialize;
use url::Url;

use crate::source::{
    error::SourceError,
    host_rules::HostRules,
    http::{has_user, host_of},
};

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

/// The URL to ask for a token that may only pull this repository. The server must be the registry's
/// own, or on the list for this registry, since it gets the registry's credentials.
///
/// # Errors
/// Permanent, with the realm's host.
pub(super) fn token_url(
    registry: &Url,
    repository: &str,
    challenge: &AuthChallenge,
    rules: &HostRules,
) -> Result<Url, SourceError> {
    let realm = challenge.parameters.get("realm").map_or("", String::as_str);
    let mut url = Url::parse(realm)
        .map_err(|_| SourceError::permanent("the registry names no token server"))?;
    let (own, server) = (host_of(registry), host_of(&url));
    let is_allowed = match url.scheme() {
        "https" => server == own || rules.lists_token_server(&own, &server),
        // Only where the registry itself is called without TLS.
        "http" => url.origin() == registry.origin(),
        _ => false,
    };
    if !is_allowed || has_user(&url) {
        return Err(SourceError::permanent(format!(
            "the registry's tokens are given by {server:?}, which is not a token server of {own:?}"
        )));
    }
    if let Some(service) = challenge.parameters.get("service") {
        url.query_pairs_mut().append_pair("service", service);
    }
    let scope = format!("repository:{repository}:pull");
    url.query_pairs_mut().append_pair("scope", &scope);
    Ok(url)
}

/// The header with the token of an answer.
///
/// # Errors
/// Permanent, without a part of the answer.
pub(super) fn parse(answer: &[u8]) -> Result<HeaderValue, SourceError> {
    let invalid = || SourceError::permanent("the registry's token server gave no token");
    // The error's own text may quote the token.
    let answer: TokenAnswer = serde_json::from_slice(answer).map_err(|_| invalid())?;
    let token = answer.token.or(answer.access_token);
    let token = token
        .filter(|token| !token.is_empty())
        .ok_or_else(invalid)?;
    let mut header = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| invalid())?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use ludgate_ops::auth_challenge;

    use super::*;

    fn asked(registry: &str, header: &str) -> Result<String, SourceError> {
        let rules = HostRules {
            token_servers: [("r.test".to_owned(), vec!["auth.test:8443".to_owned()])].into(),
            ..HostRules::default()
        };
        let challenge = auth_challenge::parse(header).remove(0);
        let registry = Url::parse(registry).expect("a URL");
        token_url(&registry, "a/b", &challenge, &rules).map(|url| url.to_string())
    }

    #[test]
    fn tokens_are_asked_for_at_listed_servers_by_https() {
        for (registry, realm, wanted) in [
            ("https://r.test", "https://r.test/token", true),
            ("https://r.test", "https://auth.test:8443/", true),
            ("https://r.test", "https://auth.test/", false),
            ("https://r.test", "https://r.test:8443/", false),
            ("https://r.test", "https://sub.r.test/", false),
            ("https://r.test", "https://evil.test/?r.test", false),
            ("https://r.test", "https://u:p@r.test/", false),
            ("https://r.test", "http://r.test/token", false),
            ("http://127.0.0.1:5000", "http://127.0.0.1:5000/token", true),
            (
                "http://127.0.0.1:5000",
                "http://127.0.0.1:5001/token",
                false,
            ),
            ("https://r.test", "file:///etc/passwd", false),
            ("https://r.test", "token", false),
            (
                "https://registry-1.docker.io",
                "https://auth.docker.io/token",
                true,
            ),
            ("https://r.test", "https://auth.docker.io/token", false),
        ] {
            let found = asked(
                registry,
                &format!("Bearer realm=\"{realm}\",scope=\"x:push\""),
            );
            assert_eq!(found.is_ok(), wanted, "{registry} {realm}");
        }
        assert!(asked("https://r.test", "Bearer service=x").is_err());
    }

    #[test]
    fn a_token_is_for_pulling_this_repository_only() {
        let header = "Bearer realm=\"https://r.test/token?a=b\",service=\"c d\",scope=\"x:push\"";
        let wanted = "https://r.test/token?a=b&service=c+d&scope=repository%3Aa%2Fb%3Apull";
        assert_eq!(asked("https://r.test", header).as_deref(), Ok(wanted));
    }

    #[test]
    fn a_token_is_not_shown() {
        for answer in [
            r#"{"token": "canary"}"#,
            r#"{"access_token": "canary", "expires_in": 1}"#,
        ] {
            let header = parse(answer.as_bytes()).expect("a token");
            assert_eq!(header, "Bearer canary");
            assert!(!format!("{header:?}").contains("canary"));
        }
        for answer in [
            "",
            "{}",
            r#"{"token": ""}"#,
            r#"{"token": "canary\n"}"#,
            "\"canary\"",
        ] {
            let error = parse(answer.as_bytes()).expect_err("refused");
            assert!(!error.message().contains("canary"), "{error}");
        }
    }
}
