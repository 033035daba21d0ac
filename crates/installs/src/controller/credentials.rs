//! Credentials of a chart's source, read when they are used. Only Secrets of the home namespace
//! that have the annotation are read: a definition cannot name any other one.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::Api;
use ludgate_cluster::{
    crd::{
        chart_source::{GitCredentials, HelmCredentials, SecretKeyRef},
        definition::{ApplicationTemplate, ApplicationVersion},
    },
    deadline::{ApiCallError, with_deadline},
};
use ludgate_model::secret::Secret;

use super::{context::InstallationReconcile, stores::holds_credentials};
use crate::source::{Credentials, GitLogin, HelmLogin, HostKeys};

/// Deadline of a call.
const DEADLINE: Duration = Duration::from_secs(20);

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum CredentialsError {
    /// The Secret is absent, or lacks the annotation. The message does not say which of both.
    #[error("there is no Secret \"{0}\" with the annotation apps.kubermatic.k8c.io/secret-type")]
    NoSecret(String),
    /// The Secret has not this key.
    #[error("Secret \"{secret}\" has no key \"{key}\"")]
    NoKey { secret: String, key: String },
    /// The value is not UTF-8.
    #[error("key \"{key}\" of Secret \"{secret}\" is no text")]
    NoText { secret: String, key: String },
    /// A field is absent.
    #[error("the credentials have no {0}")]
    NoField(&'static str),
    /// The method is unknown.
    #[error("unknown method of credentials \"{0}\"")]
    UnknownMethod(String),
    /// The API did not answer.
    #[error(transparent)]
    Api(#[from] ApiCallError),
}

impl InstallationReconcile {
    /// The credentials of a version.
    ///
    /// # Errors
    /// See [`CredentialsError`]. No message has a value.
    pub(super) async fn credentials(
        &self,
        version: &ApplicationVersion,
    ) -> Result<Credentials, CredentialsError> {
        let ApplicationTemplate {
            source,
            template_credentials,
        } = &version.template;
        let of_source = source.helm.as_ref().and_then(|it| it.credentials.as_ref());
        let of_dependencies = template_credentials
            .as_ref()
            .and_then(|it| it.helm_credentials.as_ref());
        let mut credentials = Credentials::default();
        if let Some(helm) = of_source.or(of_dependencies) {
            credentials.helm = self.helm_login(helm).await?;
        }
        let Some(git) = &source.git else {
            return Ok(credentials);
        };
        if let Some(login) = &git.credentials {
            credentials.git = self.git_login(login).await?;
            if let Some(known_hosts) = self.value(login.known_hosts.as_ref()).await? {
                credentials.host_keys = HostKeys::Known(known_hosts.expose().to_owned());
            }
        }
        if git.insecure_ignore_host_key {
            credentials.host_keys = HostKeys::Unchecked;
        }
        Ok(credentials)
    }

    async fn helm_login(&self, login: &HelmCredentials) -> Result<HelmLogin, CredentialsError> {
        let file = self.value(login.registry_config_file.as_ref()).await?;
        if let Some(file) = file {
            return Ok(HelmLogin::RegistryConfig(file));
        }
        let username = self.value(login.username.as_ref()).await?;
        let password = self.value(login.password.as_ref()).await?;
        match (username, password) {
            (None, None) => Ok(HelmLogin::Anonymous),
            (Some(username), Some(password)) => Ok(HelmLogin::Password { username, password }),
            (None, Some(_)) => Err(CredentialsError::NoField("username")),
            (Some(_), None) => Err(CredentialsError::NoField("password")),
        }
    }

    async fn git_login(&self, login: &GitCredentials) -> Result<GitLogin, CredentialsError> {
        let required = |value: Option<Secret>, field: &'static str| {
            value.ok_or(CredentialsError::NoField(field))
        };
        match login.method.as_str() {
            "password" => {
                let username = self.value(login.username.as_ref()).await?;
                let password = self.value(login.password.as_ref()).await?;
                Ok(GitLogin::Password {
                    username: required(username, "username")?,
                    password: required(password, "password")?,
                })
            }
            "token" => {
                let token = self.value(login.token.as_ref()).await?;
                Ok(GitLogin::Token(required(token, "token")?))
            }
            "ssh-key" => {
                let key = self.value(login.ssh_key.as_ref()).await?;
                Ok(GitLogin::SshKey(required(key, "sshKey")?))
            }
            other => Err(CredentialsError::UnknownMethod(other.to_owned())),
        }
    }

    /// The value that a field names; `None`: the field is absent, or optional and not there.
    async fn value(
        &self,
        field: Option<&SecretKeyRef>,
    ) -> Result<Option<Secret>, CredentialsError> {
        let Some(SecretKeyRef {
            key,
            name,
            optional,
        }) = field
        else {
            return Ok(None);
        };
        let home = self.settings().home_namespace.clone();
        let api: Api<SecretObject> = Api::namespaced(self.client.clone(), &home);
        // Labels and annotations first: the value of another Secret is not even sent.
        let meta = with_deadline(DEADLINE, api.get_metadata_opt(name)).await?;
        let is_accepted = meta.as_ref().is_some_and(holds_credentials);
        let secret = match is_accepted {
            true => with_deadline(DEADLINE, api.get_opt(name)).await?,
            false => None,
        };
        // It may have been replaced in between.
        let Some(secret) = secret.filter(holds_credentials) else {
            return match optional {
                Some(true) => Ok(None),
                Some(false) | None => Err(CredentialsError::NoSecret(name.clone())),
            };
        };
        let data = secret.data.unwrap_or_default();
        let Some(value) = data.get(key) else {
            return match optional {
                Some(true) => Ok(None),
                Some(false) | None => Err(CredentialsError::NoKey {
                    secret: name.clone(),
                    key: key.clone(),
                }),
            };
        };
        match std::str::from_utf8(&value.0) {
            Ok(text) => Ok(Some(Secret::new(text))),
            Err(_) => Err(CredentialsError::NoText {
                secret: name.clone(),
                key: key.clone(),
            }),
        }
    }
}
