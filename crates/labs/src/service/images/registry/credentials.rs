//! Credentials for registries, from a file in the form of a pull secret: `.dockerconfigjson`.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use ludgate_model::secret::Secret;
use serde::Deserialize;

/// Largest file, in bytes. A Secret of Kubernetes cannot be larger.
const MAX_FILE: u64 = 1 << 20;
/// The key that Docker writes for its own registry.
const DOCKER_HUB_KEY: &str = "index.docker.io";

/// Why a file has no usable credentials. The messages have nothing of its content.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsProblem {
    /// It cannot be read.
    #[error("the file with the registry's credentials cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// It is too large.
    #[error("the file with the registry's credentials is larger than 1 MiB")]
    TooLarge,
    /// It is no JSON of this form.
    #[error("the file with the registry's credentials is not as expected: line {0}, column {1}")]
    Form(usize, usize),
    /// The credentials of a host are incomplete.
    #[error("the credentials of {0} are not as expected")]
    Entry(String),
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    /// Username, colon and password in base64.
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

/// The credentials of a file, by host.
#[derive(Debug, Default)]
pub(super) struct RegistryCredentials(BTreeMap<String, Secret>);

impl RegistryCredentials {
    /// Reads a file. Blocks.
    pub(super) fn load(path: &Path) -> Result<RegistryCredentials, CredentialsProblem> {
        let mut text = Vec::new();
        File::open(path)?
            .take(MAX_FILE + 1)
            .read_to_end(&mut text)?;
        if text.len() as u64 > MAX_FILE {
            return Err(CredentialsProblem::TooLarge);
        }
        RegistryCredentials::parse(&text)
    }

    fn parse(text: &[u8]) -> Result<RegistryCredentials, CredentialsProblem> {
        // The error's own text may quote a password.
        let config: DockerConfig = serde_json::from_slice(text)
            .map_err(|error| CredentialsProblem::Form(error.line(), error.column()))?;
        let mut hosts = BTreeMap::new();
        for (key, entry) in config.auths {
            // Where a helper of Docker keeps them, the file has an empty entry.
            if entry.is_empty() {
                continue;
            }
            let host = host_of_key(&key);
            let Some(pair) = entry.pair() else {
                return Err(CredentialsProblem::Entry(host));
            };
            hosts.insert(host, Secret::new(pair));
        }
        Ok(RegistryCredentials(hosts))
    }

    /// The header for a host, with its port if that is not the default; `None`: there are no
    /// credentials for it.
    pub(super) fn basic(&self, host: &str) -> Option<HeaderValue> {
        let host = host.to_ascii_lowercase();
        let names: &[&str] = match host.as_str() {
            "docker.io" | "registry-1.docker.io" => &[DOCKER_HUB_KEY, "docker.io"],
            other => &[other],
        };
        let pair = names.iter().find_map(|name| self.0.get(*name))?;
        let text = format!("Basic {}", STANDARD.encode(pair.expose()));
        let mut header = HeaderValue::try_from(text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.auth.is_none() && self.username.is_none() && self.password.is_none()
    }

    /// Username, colon and password.
    fn pair(&self) -> Option<String> {
        if let (Some(username), Some(password)) = (&self.username, &self.password) {
            return Some(format!("{username}:{password}"));
        }
        let pair = STANDARD.decode(self.auth.as_ref()?.trim()).ok()?;
        let pair = String::from_utf8(pair).ok()?;
        pair.contains(':').then_some(pair)
    }
}

/// Keys are hosts, or URLs with them: `https://index.docker.io/v1/`.
fn host_of_key(key: &str) -> String {
    let bare = key.split_once("://").map_or(key, |(_, rest)| rest);
    let host = bare.split('/').next().unwrap_or_default();
    host.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> RegistryCredentials {
        RegistryCredentials::parse(text.as_bytes()).unwrap()
    }

    fn pair(credentials: &RegistryCredentials, host: &str) -> Option<String> {
        let header = credentials.basic(host)?;
        assert!(header.is_sensitive());
        let text = header.to_str().unwrap().strip_prefix("Basic ").unwrap();
        Some(String::from_utf8(STANDARD.decode(text).unwrap()).unwrap())
    }

    #[test]
    fn credentials_are_those_of_exactly_this_host() {
        let credentials = parsed(
            r#"{"auths": {
                "https://index.docker.io/v1/": {"auth": "aHViOnNlY3JldA=="},
                "Registry.test": {"username": "user", "password": "a:b", "auth": "ignored"},
                "localhost:5000": {"auth": "bG9jYWw6"},
                "elsewhere.test": {}
            }, "credsStore": "x"}"#,
        );
        assert_eq!(pair(&credentials, "docker.io").unwrap(), "hub:secret");
        assert_eq!(pair(&credentials, "registry.test").unwrap(), "user:a:b");
        assert_eq!(pair(&credentials, "localhost:5000").unwrap(), "local:");
        for other in ["localhost", "sub.registry.test", "elsewhere.test", ""] {
            assert_eq!(pair(&credentials, other), None, "{other}");
        }
    }

    #[test]
    fn errors_and_debug_output_have_no_secrets() {
        let problem = |text: &str| {
            let problem = RegistryCredentials::parse(text.as_bytes()).unwrap_err();
            format!("{problem} {problem:?}")
        };
        for text in [
            r#"{"auths": {"registry.test": {"auth": "canary"}}}"#,
            r#"{"auths": {"registry.test": {"username": "canary"}}}"#,
            r#"{"auths": {"registry.test": "canary"}}"#,
            r#"{"auths": "canary"}"#,
            "canary",
        ] {
            let shown = problem(text);
            assert!(!shown.contains("canary"), "{shown}");
        }
        let credentials = parsed(r#"{"auths": {"a": {"username": "u", "password": "canary"}}}"#);
        assert!(!format!("{credentials:?}").contains("canary"));
    }
}
