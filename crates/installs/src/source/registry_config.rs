//! Credentials by host, from a Docker configuration: the content of `registryConfigFile`.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use ludgate_model::secret::Secret;
use serde::Deserialize;
use serde_json::Value;

use super::error::SourceError;

/// The key that Docker writes for its own registry.
const DOCKER_HUB_KEY: &str = "index.docker.io";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DockerConfig {
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

/// The credentials of a Docker configuration, by host.
#[derive(Debug)]
pub(crate) struct RegistryConfig(BTreeMap<String, Secret>);

impl RegistryConfig {
    /// Reads a configuration. One that names helpers is refused: they are programs.
    ///
    /// # Errors
    /// Permanent, without a part of the content.
    pub(crate) fn parse(json: &[u8]) -> Result<RegistryConfig, SourceError> {
        // The error's own text may quote a password.
        let config: DockerConfig = serde_json::from_slice(json).map_err(|error| {
            SourceError::permanent(format!(
                "registryConfigFile is no Docker configuration: line {}, column {}",
                error.line(),
                error.column()
            ))
        })?;
        for (key, value) in [
            ("credHelpers", &config.cred_helpers),
            ("credsStore", &config.creds_store),
        ] {
            if !is_unset(value) {
                let what = format!("registryConfigFile must not have {key}: it starts programs");
                return Err(SourceError::permanent(what));
            }
        }
        let mut hosts = BTreeMap::new();
        for (key, entry) in config.auths {
            let host = host_of_key(&key);
            let Some(pair) = entry.pair() else {
                let what = format!("registryConfigFile has no usable credentials for {host:?}");
                return Err(SourceError::permanent(what));
            };
            hosts.insert(host, Secret::new(pair));
        }
        Ok(RegistryConfig(hosts))
    }

    /// Username, colon and password for a host, which has its port if it is not the default.
    pub(crate) fn pair(&self, host: &str) -> Option<&Secret> {
        let host = host.to_ascii_lowercase();
        let names: &[&str] = match host.as_str() {
            "docker.io" | "registry-1.docker.io" => &[DOCKER_HUB_KEY, "docker.io"],
            other => &[other],
        };
        names.iter().find_map(|name| self.0.get(*name))
    }

    /// All pairs.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &Secret> {
        self.0.values()
    }
}

impl Entry {
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

    fn refused(json: &str) -> String {
        let error = RegistryConfig::parse(json.as_bytes()).expect_err("refused");
        format!("{error} {error:?}")
    }

    #[test]
    fn credentials_are_those_of_exactly_this_host() {
        let config = RegistryConfig::parse(
            br#"{"auths": {
                "https://index.docker.io/v1/": {"auth": "aHViOnNlY3JldA=="},
                "Registry.test": {"username": "user", "password": "a:b", "auth": "ignored"},
                "localhost:5000": {"auth": "bG9jYWw6"}
            }, "credHelpers": {}, "credsStore": ""}"#,
        )
        .expect("valid");
        let pair = |host: &str| config.pair(host).map(|pair| pair.expose().to_owned());
        assert_eq!(pair("registry-1.docker.io").as_deref(), Some("hub:secret"));
        assert_eq!(pair("registry.test").as_deref(), Some("user:a:b"));
        assert_eq!(pair("localhost:5000").as_deref(), Some("local:"));
        for other in ["localhost", "sub.registry.test", ""] {
            assert_eq!(pair(other), None, "{other}");
        }
    }

    #[test]
    fn helpers_are_refused_since_they_start_programs() {
        for (json, key) in [
            (r#"{"credsStore": "desktop"}"#, "credsStore"),
            (r#"{"credHelpers": {"a.test": "ecr-login"}}"#, "credHelpers"),
            (r#"{"auths": {}, "credHelpers": ["x"]}"#, "credHelpers"),
        ] {
            assert!(refused(json).contains(key), "{json}");
        }
    }

    #[test]
    fn errors_have_nothing_of_the_content() {
        for json in [
            r#"{"auths": {"registry.test": {"auth": "canary"}}}"#,
            r#"{"auths": {"registry.test": {"username": "canary"}}}"#,
            r#"{"auths": {"registry.test": {}}}"#,
            r#"{"auths": {"registry.test": "canary"}}"#,
            r#"{"auths": "canary"}"#,
            "canary",
            "",
        ] {
            assert!(!refused(json).contains("canary"), "{json}");
        }
    }
}
