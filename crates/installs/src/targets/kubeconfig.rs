//! The kubeconfig of another cluster, from a Secret.
//!
//! Its author is not trusted with this process: no entry may start a program, read a file of this
//! machine, turn verification off or lead through a proxy.

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use ludgate_model::secret::Secret;
use serde_json::{Map, Value, json};
use url::Url;

/// The longest text, in bytes.
const LONGEST: usize = 256 * 1024;
/// Deadline for a connection.
const CONNECT: Duration = Duration::from_secs(4);

/// A cluster and credentials for it.
#[derive(Clone)]
pub struct TargetKubeconfig {
    /// The URL of the API server.
    pub server: String,
    /// Certificates of its CA, as PEM in base64; `None`: those of the system.
    ca: Option<String>,
    credentials: TargetCredentials,
}

#[derive(Clone)]
enum TargetCredentials {
    Token(Secret),
    /// Both as PEM in base64.
    Certificate {
        certificate: String,
        key: Secret,
    },
}

impl fmt::Debug for TargetKubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetKubeconfig")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Why a kubeconfig is not used. The text is for the status of the target, and has no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetRefused {
    /// It is no YAML of a kubeconfig.
    #[error("the kubeconfig is no YAML of a mapping, or is longer than 256 KiB")]
    Unreadable,
    /// A key that is never accepted.
    #[error("{path}: {reason}")]
    Key {
        /// Where it stands.
        path: String,
        /// Why it is refused.
        reason: &'static str,
    },
    /// It does not say which cluster or user is meant.
    #[error("{0}")]
    Ambiguous(&'static str),
    /// A value is absent or malformed.
    #[error("{path} is missing or malformed; expected {expected}")]
    Value {
        /// Where it should stand.
        path: String,
        /// What is expected.
        expected: &'static str,
    },
}

/// What is said of keys of a cluster and of a user that are known and refused.
const REFUSED: [(&str, &str); 15] = [
    ("exec", STARTS_PROGRAM),
    ("auth-provider", STARTS_PROGRAM),
    ("certificate-authority", NAMES_FILE),
    ("client-certificate", NAMES_FILE),
    ("client-key", NAMES_FILE),
    ("tokenFile", NAMES_FILE),
    ("insecure-skip-tls-verify", "the server must be verified"),
    ("proxy-url", "a proxy is not accepted"),
    (
        "tls-server-name",
        "the certificate must have the name of the URL",
    ),
    ("username", BASIC),
    ("password", BASIC),
    ("as", IMPERSONATES),
    ("as-uid", IMPERSONATES),
    ("as-groups", IMPERSONATES),
    ("as-user-extra", IMPERSONATES),
];
const STARTS_PROGRAM: &str = "credentials of a program are not accepted; use a token";
const NAMES_FILE: &str = "files are not accepted; use the key with `-data`";
const BASIC: &str = "passwords are not accepted; use a token";
const IMPERSONATES: &str = "impersonation is not accepted";

impl TargetKubeconfig {
    /// Reads the text of a kubeconfig.
    ///
    /// # Errors
    /// See [`TargetRefused`].
    pub fn parse(text: &str) -> Result<TargetKubeconfig, TargetRefused> {
        if text.len() > LONGEST {
            return Err(TargetRefused::Unreadable);
        }
        let Ok(Value::Object(file)) = serde_saphyr::from_str::<Value>(text) else {
            return Err(TargetRefused::Unreadable);
        };
        let clusters = entries(&file, "clusters", "cluster")?;
        let users = entries(&file, "users", "user")?;
        let contexts = entries(&file, "contexts", "context")?;
        // Also entries that are not used: a Secret with them was made for something else.
        for entry in &clusters {
            check_keys(entry, &["server", "certificate-authority-data"])?;
        }
        let accepted = ["token", "client-certificate-data", "client-key-data"];
        for entry in &users {
            check_keys(entry, &accepted)?;
        }
        let context = current(&file, &contexts)?;
        let cluster = referenced(context, "cluster", &clusters)?;
        let user = referenced(context, "user", &users)?;
        Ok(TargetKubeconfig {
            server: server(cluster)?,
            ca: base64_text(cluster, "certificate-authority-data")?,
            credentials: credentials(user)?,
        })
    }

    /// The configuration of a client for the cluster, without a call to it. Its reads end after
    /// `silence` without data.
    ///
    /// # Errors
    /// The CA or the credentials cannot be read.
    pub async fn config(&self, silence: Duration) -> Result<Config, TargetConfigError> {
        let kubeconfig: Kubeconfig =
            serde_json::from_value(self.to_value()).map_err(|_| TargetConfigError::Rebuilt)?;
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(silence);
        // Callers retry themselves.
        config.default_retry = false;
        Ok(config)
    }

    /// A kubeconfig with the accepted values and nothing else.
    fn to_value(&self) -> Value {
        let mut cluster = json!({ "server": self.server });
        if let Some(ca) = &self.ca {
            cluster["certificate-authority-data"] = ca.as_str().into();
        }
        let user = match &self.credentials {
            TargetCredentials::Token(token) => json!({ "token": token.expose() }),
            TargetCredentials::Certificate { certificate, key } => json!({
                "client-certificate-data": certificate,
                "client-key-data": key.expose(),
            }),
        };
        json!({
            "current-context": "target",
            "clusters": [{ "name": "target", "cluster": cluster }],
            "users": [{ "name": "target", "user": user }],
            "contexts": [{
                "name": "target",
                "context": { "cluster": "target", "user": "target" },
            }],
        })
    }
}

/// Why an accepted kubeconfig gives no configuration.
#[derive(Debug, thiserror::Error)]
pub enum TargetConfigError {
    /// It could not be written again.
    #[error("the kubeconfig cannot be used")]
    Rebuilt,
    /// A certificate or key is unreadable.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
}

/// A named entry of a list.
struct Entry<'a> {
    name: &'a str,
    path: String,
    content: &'a Map<String, Value>,
}

/// The entries of a list. The content of each is under `key`.
fn entries<'a>(
    file: &'a Map<String, Value>,
    list: &str,
    key: &str,
) -> Result<Vec<Entry<'a>>, TargetRefused> {
    let malformed = |path: String| TargetRefused::Value {
        path,
        expected: "a list of named entries",
    };
    let Some(Value::Array(items)) = file.get(list) else {
        return Err(malformed(list.to_owned()));
    };
    let mut entries = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let path = format!("{list}[{index}].{key}");
        match (item["name"].as_str(), item[key].as_object()) {
            (Some(name), Some(content)) => entries.push(Entry {
                name,
                path,
                content,
            }),
            (None, _) | (_, None) => return Err(malformed(path)),
        }
    }
    Ok(entries)
}

fn check_keys(entry: &Entry<'_>, accepted: &[&str]) -> Result<(), TargetRefused> {
    for (key, value) in entry.content {
        let is_harmless = match key.as_str() {
            "extensions" => true,
            "insecure-skip-tls-verify" => value == false,
            other => accepted.contains(&other),
        };
        if !is_harmless && !value.is_null() {
            let reason = REFUSED.iter().find(|(refused, _)| refused == key);
            return Err(TargetRefused::Key {
                path: format!("{}.{key}", entry.path),
                reason: reason.map_or("this key is not accepted", |(_, reason)| *reason),
            });
        }
    }
    Ok(())
}

/// The context that is meant.
fn current<'a, 'e>(
    file: &Map<String, Value>,
    contexts: &'e [Entry<'a>],
) -> Result<&'e Entry<'a>, TargetRefused> {
    let name = file.get("current-context").and_then(Value::as_str);
    match (name.filter(|name| !name.is_empty()), contexts) {
        (Some(name), _) => only(contexts, name).ok_or(TargetRefused::Ambiguous(
            "current-context names no context, or several",
        )),
        (None, [context]) => Ok(context),
        (None, _) => Err(TargetRefused::Ambiguous(
            "the kubeconfig has no current-context, and not exactly one context",
        )),
    }
}

/// The cluster or user that a context names.
fn referenced<'a, 'e>(
    context: &Entry<'_>,
    key: &str,
    entries: &'e [Entry<'a>],
) -> Result<&'e Entry<'a>, TargetRefused> {
    let name = context.content.get(key).and_then(Value::as_str);
    let found = name.and_then(|name| only(entries, name));
    found.ok_or_else(|| TargetRefused::Value {
        path: format!("{}.{key}", context.path),
        expected: "the name of exactly one entry",
    })
}

/// The entry of this name, if there is just one.
fn only<'a, 'e>(entries: &'e [Entry<'a>], name: &str) -> Option<&'e Entry<'a>> {
    let mut named = entries.iter().filter(|entry| entry.name == name);
    let first = named.next()?;
    named.next().is_none().then_some(first)
}

fn server(cluster: &Entry<'_>) -> Result<String, TargetRefused> {
    let text = cluster.content.get("server").and_then(Value::as_str);
    let url = text.and_then(|text| Url::parse(text).ok());
    let url = url.filter(|url| {
        let has_user = !url.username().is_empty() || url.password().is_some();
        let has_more = url.query().is_some() || url.fragment().is_some();
        url.scheme() == "https" && url.has_host() && !has_user && !has_more
    });
    match url {
        Some(url) => Ok(url.into()),
        None => Err(TargetRefused::Value {
            path: format!("{}.server", cluster.path),
            expected: "an https URL without a user",
        }),
    }
}

fn credentials(user: &Entry<'_>) -> Result<TargetCredentials, TargetRefused> {
    let token = user.content.get("token").and_then(Value::as_str);
    let token = token.map(str::trim).filter(|token| !token.is_empty());
    let certificate = base64_text(user, "client-certificate-data")?;
    let key = base64_text(user, "client-key-data")?;
    match (token, certificate, key) {
        (Some(token), None, None) => Ok(TargetCredentials::Token(Secret::new(token))),
        (None, Some(certificate), Some(key)) => Ok(TargetCredentials::Certificate {
            certificate,
            key: Secret::new(key),
        }),
        (_, _, _) => Err(TargetRefused::Value {
            path: user.path.clone(),
            expected: "either token, or client-certificate-data and client-key-data",
        }),
    }
}

/// A value in base64, as it is written. Line ends of folded YAML are removed.
fn base64_text(entry: &Entry<'_>, key: &str) -> Result<Option<String>, TargetRefused> {
    let malformed = || TargetRefused::Value {
        path: format!("{}.{key}", entry.path),
        expected: "PEM in base64",
    };
    match entry.content.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => {
            let text: String = text.split_whitespace().collect();
            let decoded = STANDARD.decode(&text).map_err(|_| malformed())?;
            match decoded.windows(11).any(|part| part == b"-----BEGIN ") {
                true => Ok(Some(text)),
                false => Err(malformed()),
            }
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(malformed())
        }
    }
}

#[cfg(test)]
mod tests;
