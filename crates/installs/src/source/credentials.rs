//! Credentials of a source, as the caller read them from Secrets.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use ludgate_model::secret::Secret;

use super::{error::SourceError, registry_config};

/// Credentials of a source. `Debug` shows no secret.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// For Helm repositories and registries: of the source, or of the dependencies of a chart from
    /// git.
    pub helm: HelmLogin,
    /// For the git server.
    pub git: GitLogin,
    /// The host keys of the git server.
    pub host_keys: HostKeys,
}

/// Credentials for Helm repositories and OCI registries.
#[derive(Clone, Debug, Default)]
pub enum HelmLogin {
    /// None.
    #[default]
    Anonymous,
    /// For one server: that of the source. Dependencies elsewhere do not get it.
    Password {
        /// User name.
        username: Secret,
        /// Password.
        password: Secret,
    },
    /// A Docker configuration (JSON) with credentials by host.
    RegistryConfig(Secret),
}

/// Credentials for a git server.
#[derive(Clone, Debug, Default)]
pub enum GitLogin {
    /// None.
    #[default]
    Anonymous,
    /// HTTP basic authentication.
    Password {
        /// User name.
        username: Secret,
        /// Password.
        password: Secret,
    },
    /// A bearer token for https.
    Token(Secret),
    /// A private key for ssh, in a form that OpenSSH reads.
    SshKey(Secret),
}

/// Which host keys of a git server are right.
#[derive(Clone, Debug, Default)]
pub enum HostKeys {
    /// Those of the process's settings.
    #[default]
    Configured,
    /// A text in the form of `known_hosts`.
    Known(String),
    /// Any. Another server could answer instead.
    Unchecked,
}

impl HelmLogin {
    /// The header for a server. `host` has the port if it is not the default.
    ///
    /// # Errors
    /// Permanent, if the Docker configuration cannot be used.
    pub(crate) fn authorization(&self, host: &str) -> Result<Option<HeaderValue>, SourceError> {
        match self {
            HelmLogin::Anonymous => Ok(None),
            HelmLogin::Password { username, password } => {
                let pair = format!("{}:{}", username.expose(), password.expose());
                Ok(Some(basic(&pair)?))
            }
            HelmLogin::RegistryConfig(json) => {
                let config = registry_config::parse(json)?;
                let pair = config.pair(host);
                pair.map(|pair| basic(pair.expose())).transpose()
            }
        }
    }

    /// Whether the credentials do not name their server.
    pub(crate) fn is_for_one_server(&self) -> bool {
        matches!(self, HelmLogin::Password { .. })
    }
}

impl GitLogin {
    /// The value of the `Authorization` header for an http remote.
    pub(crate) fn authorization(&self) -> Option<Secret> {
        match self {
            GitLogin::Password { username, password } => {
                let pair = format!("{}:{}", username.expose(), password.expose());
                Some(Secret::new(format!("Basic {}", STANDARD.encode(pair))))
            }
            GitLogin::Token(token) => Some(Secret::new(format!("Bearer {}", token.expose()))),
            GitLogin::Anonymous | GitLogin::SshKey(_) => None,
        }
    }
}

fn basic(pair: &str) -> Result<HeaderValue, SourceError> {
    let mut header = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
        .map_err(|_| SourceError::permanent("the credentials cannot be sent"))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password() -> HelmLogin {
        HelmLogin::Password {
            username: Secret::new("user"),
            password: Secret::new("pass"),
        }
    }

    #[test]
    fn a_login_becomes_a_header_that_is_not_shown() {
        let header = password()
            .authorization("a.test")
            .expect("valid")
            .expect("a header");
        assert_eq!(header, "Basic dXNlcjpwYXNz");
        assert!(header.is_sensitive());
        assert_eq!(HelmLogin::Anonymous.authorization("a.test"), Ok(None));
        let config = r#"{"auths": {"a.test": {"auth": "dXNlcjpwYXNz"}}}"#;
        let config = HelmLogin::RegistryConfig(Secret::new(config));
        assert_eq!(config.authorization("a.test").expect("valid"), Some(header));
        assert_eq!(config.authorization("b.test"), Ok(None));
        let shown = format!("{:?} {config:?}", password());
        let wanted = "Password { username: [redacted], password: [redacted] } \
                      RegistryConfig([redacted])";
        assert_eq!(shown, wanted);
    }

    #[test]
    fn git_gets_basic_for_a_password_and_bearer_for_a_token() {
        let shown = |login: GitLogin| login.authorization().map(|it| it.expose().to_owned());
        let password = GitLogin::Password {
            username: Secret::new("user"),
            password: Secret::new("pass"),
        };
        assert_eq!(shown(password).as_deref(), Some("Basic dXNlcjpwYXNz"));
        let token = GitLogin::Token(Secret::new("abc"));
        assert_eq!(shown(token).as_deref(), Some("Bearer abc"));
        assert_eq!(shown(GitLogin::SshKey(Secret::new("key"))), None);
        assert_eq!(shown(GitLogin::Anonymous), None);
    }
}
