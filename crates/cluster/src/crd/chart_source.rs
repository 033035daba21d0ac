//! Where a chart comes from, and the Secrets with its credentials.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::is_false;

/// Pattern of the address of a chart repository.
pub const REPOSITORY_URL_PATTERN: &str = "^(http|https|oci)://.+";
/// Pattern of a commit: its whole SHA-1.
pub const COMMIT_PATTERN: &str = "^[a-f0-9]{40}$";
/// Ways to authenticate at a git server.
pub const GIT_METHODS: [&str; 3] = ["password", "token", "ssh-key"];

/// A key of a Secret.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct SecretKeyRef {
    /// The key with the value.
    pub key: String,
    /// The name of the Secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Whether the Secret or the key may be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// Exactly one source.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ApplicationSource {
    /// A repository of charts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmSource>,
    /// A folder of a git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,
}

/// A chart of a repository.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmSource {
    /// The repository, with the scheme `http`, `https` or `oci`.
    #[schemars(extend("pattern" = REPOSITORY_URL_PATTERN))]
    pub url: String,
    /// The name of the chart.
    #[schemars(extend("minLength" = 1))]
    pub chart_name: String,
    /// The version of the chart.
    #[schemars(extend("minLength" = 1))]
    pub chart_version: String,
    /// Whether the certificate of the repository is accepted without a check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,
    /// Whether an `oci` repository speaks HTTP without TLS.
    #[serde(default, rename = "plainHTTP", skip_serializing_if = "Option::is_none")]
    pub plain_http: Option<bool>,
    /// What the repository asks for; without it requests are anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<HelmCredentials>,
}

/// A user with a password, or a file of a registry client.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmCredentials {
    /// The user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<SecretKeyRef>,
    /// The password of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretKeyRef>,
    /// A file in the form of Docker's `config.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_config_file: Option<SecretKeyRef>,
}

/// A folder of a git repository.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GitSource {
    /// The repository: `https://…`, `ssh://…` or `user@host:path`.
    #[schemars(extend("minLength" = 1))]
    pub remote: String,
    /// A branch, a tag, or a commit of a branch.
    #[serde(rename = "ref")]
    pub reference: GitReference,
    /// The folder of the chart; without it the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What the server asks for; without it requests are anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<GitCredentials>,
    /// Accepts every host key of an SSH server. An attacker in the network can then replace the
    /// chart, so this is for tests.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure_ignore_host_key: bool,
}

/// What to fetch.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct GitReference {
    /// The newest commit of this branch, unless a commit is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// A commit of the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = COMMIT_PATTERN))]
    pub commit: Option<String>,
    /// A tag, without a branch or a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// The credentials of a git server. The method says which fields are needed.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GitCredentials {
    /// `password`, `token` or `ssh-key`.
    #[schemars(extend("enum" = GIT_METHODS))]
    pub method: String,
    /// The user, for `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<SecretKeyRef>,
    /// The password, for `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretKeyRef>,
    /// The token, for `token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretKeyRef>,
    /// The private key, for `ssh-key`.
    #[serde(default, rename = "sshKey", skip_serializing_if = "Option::is_none")]
    pub ssh_key: Option<SecretKeyRef>,
    /// The keys of the server in the form of OpenSSH's `known_hosts`; without it the list of the
    /// installation of Ludgate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<SecretKeyRef>,
}
