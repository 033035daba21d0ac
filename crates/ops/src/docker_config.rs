//! Credentials of registries by host, as Docker and pull Secrets store them: `config.json` and
//! `.dockerconfigjson`.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use ludgate_model::secret::Secret;
use serde::Deserialize;
use serde_json::Value;

/// The key that Docker writes for its own registry.
const DOCKER_HUB_KEY: &str = "index.docker.io";

/// Why a configuration cannot be used. The text has nothing of its content except a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DockerConfigError {
    /// It is no JSON of this form.
    #[error("no Docker configuration: line {line}, column {column}")]
    Form {
        /// The line, from 1.
        line: usize,
        /// The column, from 1; 0 at the start of a line.
        column: usize,
    },
    /// The credentials of this host are incomplete.
    #[error("no usable credentials for {0:?}")]
    Entry(String),
}

/// The credentials of a Docker configuration.
#[derive(Debug, Default)]
pub struct DockerConfig {
    /// Username, colon and password by host.
    pairs: BTreeMap<String, Secret>,
    hosts_without_credentials: Vec<String>,
    helper_key: Option<&'static str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigFile {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default)]
    cred_helpers: Value,
    #[serde(default)]
    creds_store: Value,
}

#[derive(Deserialize)]
struct Entry {
    /// Username, colon and password in base64.
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

impl DockerConfig {
    /// Reads a configuration.
    ///
    /// # Errors
    /// See [`DockerConfigError`].
    pub fn parse(json: &[u8]) -> Result<DockerConfig, DockerConfigError> {
        // The error's own text may quote a password.
        let file: ConfigFile =
            serde_json::from_slice(json).map_err(|error| DockerConfigError::Form {
                line: error.line(),
                column: error.column(),
            })?;
        let mut config = DockerConfig {
            helper_key: file.helper_key(),
            ..DockerConfig::default()
        };
        for (key, entry) in file.auths {
            let host = host_of_key(&key);
            if entry.is_empty() {
                config.hosts_without_credentials.push(host);
                continue;
            }
            let Some(pair) = entry.pair() else {
                return Err(DockerConfigError::Entry(host));
            };
            config.pairs.insert(host, Secret::new(pair));
        }
        Ok(config)
    }

    /// Username, colon and password for a host, which has its port if it is not the default.
    pub fn pair(&self, host: &str) -> Option<&Secret> {
        let host = host.to_ascii_lowercase();
        let names: &[&str] = match host.as_str() {
            "docker.io" | "registry-1.docker.io" => &[DOCKER_HUB_KEY, "docker.io"],
            other => &[other],
        };
        names.iter().find_map(|name| self.pairs.get(*name))
    }

    /// The pairs of all hosts.
    pub fn pairs(&self) -> impl Iterator<Item = &Secret> {
        self.pairs.values()
    }

    /// The hosts whose entries are empty: Docker writes such entries when a credential helper has
    /// the credentials.
    pub fn hosts_without_credentials(&self) -> &[String] {
        &self.hosts_without_credentials
    }

    /// The key that names credential helpers, which are programs.
    pub fn helper_key(&self) -> Option<&'static str> {
        self.helper_key
    }
}

impl ConfigFile {
    fn helper_key(&self) -> Option<&'static str> {
        match (is_unset(&self.cred_helpers), is_unset(&self.creds_store)) {
            (false, _) => Some("credHelpers"),
            (true, false) => Some("credsStore"),
            (true, true) => None,
        }
    }
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.auth.is_none() && self.username.is_none() && self.password.is_none()
    }

    fn pair(&self) -> Option<String> {
        if let (Some(username), Some(password)) = (&self.username, &self.password) {
            return Some(format!("{username}:{password}"));
        }
        let pair = STANDARD.decode(self.auth.as_ref()?.trim()).ok()?;
        let pair = String::from_utf8(pair).ok()?;
        pair.contains(':').then_some(pair)
    }
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
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

    fn parsed(json: &str) -> DockerConfig {
        DockerConfig::parse(json.as_bytes()).expect("valid")
    }

    #[test]
    fn credentials_are_those_of_exactly_this_host() {
        let config = parsed(
            r#"{"auths": {
                "https://index.docker.io/v1/": {"auth": "aHViOnNlY3JldA=="},
                "Registry.test": {"username": "user", "password": "a:b", "auth": "ignored"},
                "localhost:5000": {"auth": "bG9jYWw6"},
                "elsewhere.test": {}
            }, "credHelpers": {}, "credsStore": ""}"#,
        );
        let pair = |host: &str| config.pair(host).map(|pair| pair.expose().to_owned());
        for hub in ["docker.io", "registry-1.docker.io", "index.docker.io"] {
            assert_eq!(pair(hub).as_deref(), Some("hub:secret"), "{hub}");
        }
        assert_eq!(pair("registry.test").as_deref(), Some("user:a:b"));
        assert_eq!(pair("localhost:5000").as_deref(), Some("local:"));
        for other in ["localhost", "sub.registry.test", "elsewhere.test", ""] {
            assert_eq!(pair(other), None, "{other}");
        }
        assert_eq!(config.hosts_without_credentials(), ["elsewhere.test"]);
        assert_eq!(config.helper_key(), None);
    }

    #[test]
    fn the_key_of_credential_helpers_is_found() {
        for (json, key) in [
            (r#"{"credsStore": "desktop"}"#, "credsStore"),
            (r#"{"credHelpers": {"a.test": "ecr-login"}}"#, "credHelpers"),
            (r#"{"auths": {}, "credHelpers": ["x"]}"#, "credHelpers"),
        ] {
            assert_eq!(parsed(json).helper_key(), Some(key), "{json}");
        }
    }

    #[test]
    fn errors_and_debug_output_have_no_secrets() {
        for json in [
            r#"{"auths": {"registry.test": {"auth": "canary"}}}"#,
            r#"{"auths": {"registry.test": {"username": "canary"}}}"#,
            r#"{"auths": {"registry.test": "canary"}}"#,
            r#"{"auths": "canary"}"#,
            "canary",
            "",
        ] {
            let error = DockerConfig::parse(json.as_bytes()).expect_err("refused");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("canary"), "{shown}");
        }
        let config = parsed(r#"{"auths": {"a": {"username": "u", "password": "canary"}}}"#);
        assert!(!format!("{config:?}").contains("canary"));
    }
}
