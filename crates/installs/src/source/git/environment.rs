//! The environment of git: nothing is inherited, and credentials are nowhere else.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use tokio::fs;

use super::{
    path_text::path_text,
    remote::{GitRemote, Transport},
    request::GitRequest,
    ssh,
};
use crate::source::{
    credentials::GitLogin,
    error::SourceError,
    resolve::resolve,
    settings::{GitSettings, SourceSettings},
};

/// What all git processes of one download have.
pub(super) struct GitEnvironment {
    /// The bare repository.
    pub(super) repository: PathBuf,
    pub(super) variables: Vec<(String, String)>,
    pub(super) settings: GitSettings,
    /// Largest file that a process may write, in bytes.
    pub(super) file_bytes: u64,
}

/// The variables have credentials, so only their names are shown.
impl fmt::Debug for GitEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .variables
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        f.debug_struct("GitEnvironment")
            .field("repository", &self.repository)
            .field("variables", &names)
            .finish_non_exhaustive()
    }
}

impl GitEnvironment {
    /// Writes the files that git needs into a folder, and names them.
    ///
    /// # Errors
    /// When the host is refused, the credentials do not fit the transport, or a file cannot be
    /// written.
    pub(super) async fn new(
        remote: &GitRemote,
        request: GitRequest<'_>,
        folder: &Path,
    ) -> Result<GitEnvironment, SourceError> {
        let settings = request.settings;
        let addresses = resolve(&remote.host, remote.port, &settings.hosts).await?;
        let mut variables = base_variables(remote, settings, folder)?;
        let mut config = base_config(settings);
        match remote.transport {
            Transport::Ssh => {
                let files = ssh::write_files(remote, request, folder).await?;
                let command = ssh::command(remote, &files, first_address(&addresses)?)?;
                variables.push(variable("GIT_SSH_VARIANT", "ssh"));
                variables.push(variable("GIT_SSH_COMMAND", command));
            }
            Transport::Https | Transport::Http => {
                config.extend(http_config(remote, &addresses, &request.credentials.git)?);
                if let Some(ca) = &settings.ca {
                    let path = folder.join("ca.pem");
                    let written = fs::write(&path, ca).await;
                    written.map_err(|error| SourceError::local("cannot write a file", error))?;
                    config.push(variable("http.sslCAInfo", path_text(&path)?));
                }
            }
        }
        variables.extend(config_variables(config));
        Ok(GitEnvironment {
            repository: folder.join("repository"),
            variables,
            settings: settings.git.clone(),
            file_bytes: settings.limits.repository_bytes,
        })
    }
}

fn variable(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn first_address(addresses: &[SocketAddr]) -> Result<IpAddr, SourceError> {
    let first = addresses.first().map(SocketAddr::ip);
    first.ok_or_else(|| SourceError::transient("the host has no address"))
}

fn base_variables(
    remote: &GitRemote,
    settings: &SourceSettings,
    folder: &Path,
) -> Result<Vec<(String, String)>, SourceError> {
    Ok(vec![
        variable("PATH", settings.git.path.as_str()),
        variable("HOME", path_text(&folder.join("home"))?),
        variable("LC_ALL", "C"),
        variable("GIT_CONFIG_NOSYSTEM", "1"),
        variable("GIT_CONFIG_GLOBAL", "/dev/null"),
        variable("GIT_TERMINAL_PROMPT", "0"),
        variable("GIT_ASKPASS", "/bin/false"),
        variable("GIT_ALLOW_PROTOCOL", remote.transport.name()),
        variable("GIT_NO_REPLACE_OBJECTS", "1"),
        variable("GIT_LITERAL_PATHSPECS", "1"),
    ])
}

fn base_config(settings: &SourceSettings) -> Vec<(String, String)> {
    vec![
        variable("http.followRedirects", "false"),
        variable("http.lowSpeedLimit", "1000"),
        variable("http.lowSpeedTime", settings.git.stall_seconds.to_string()),
        variable("core.hooksPath", "/dev/null"),
        variable("core.fsmonitor", "false"),
        variable("transfer.fsckObjects", "true"),
        variable("credential.helper", ""),
        variable("gc.auto", "0"),
        variable("maintenance.auto", "false"),
        variable("fetch.recurseSubmodules", "false"),
        // Everything stays in one pack, whose size has a limit.
        variable("fetch.unpackLimit", "1"),
    ]
}

fn http_config(
    remote: &GitRemote,
    addresses: &[SocketAddr],
    login: &GitLogin,
) -> Result<Vec<(String, String)>, SourceError> {
    let mut config = Vec::new();
    // git resolves no name again, so that it cannot lead elsewhere meanwhile.
    if remote.host.parse::<IpAddr>().is_err() {
        let addresses: Vec<String> = addresses.iter().map(address_in_url).collect();
        let pinned = format!("{}:{}:{}", remote.host, remote.port, addresses.join(","));
        config.push(variable("http.curloptResolve", pinned));
    }
    if matches!(login, GitLogin::SshKey(_)) {
        return Err(SourceError::permanent("an SSH key is for ssh remotes only"));
    }
    if let Some(header) = login.authorization() {
        if header.expose().chars().any(char::is_control) {
            return Err(SourceError::permanent("the credentials cannot be sent"));
        }
        let name = format!("http.{}.extraHeader", remote.text);
        let value = format!("Authorization: {}", header.expose());
        config.push(variable(&name, value));
    }
    Ok(config)
}

fn address_in_url(address: &SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// The form in which git reads configuration from its environment.
fn config_variables(config: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut variables = vec![variable("GIT_CONFIG_COUNT", config.len().to_string())];
    for (index, (key, value)) in config.into_iter().enumerate() {
        variables.push(variable(&format!("GIT_CONFIG_KEY_{index}"), key));
        variables.push(variable(&format!("GIT_CONFIG_VALUE_{index}"), value));
    }
    variables
}

#[cfg(test)]
mod tests {
    use ludgate_model::secret::Secret;

    use super::*;
    use crate::source::{chart_source::GitRevision, credentials::Credentials};

    fn settings() -> SourceSettings {
        let mut settings = SourceSettings::default();
        settings.hosts.plain_http = true;
        settings.hosts.allowed_networks = vec!["127.0.0.0/8".parse().expect("a network")];
        settings
    }

    async fn environment(
        remote: &str,
        git: GitLogin,
        settings: &SourceSettings,
    ) -> Result<GitEnvironment, SourceError> {
        let folder = tempfile::tempdir().expect("a folder");
        let credentials = Credentials {
            git,
            ..Credentials::default()
        };
        let request = GitRequest {
            remote,
            revision: &GitRevision::Branch("main".to_owned()),
            credentials: &credentials,
            settings,
        };
        let parsed = GitRemote::parse(remote, &settings.hosts).expect("a remote");
        GitEnvironment::new(&parsed, request, folder.path()).await
    }

    fn value<'v>(environment: &'v GitEnvironment, name: &str) -> Option<&'v str> {
        let mut variables = environment.variables.iter();
        variables
            .find(|(it, _)| it == name)
            .map(|(_, value)| value.as_str())
    }

    #[tokio::test]
    async fn a_password_is_in_one_variable_and_not_shown() {
        let login = GitLogin::Password {
            username: Secret::new("user"),
            password: Secret::new("pass"),
        };
        let remote = "http://127.0.0.1:8080/r.git";
        let environment = environment(remote, login, &settings())
            .await
            .expect("valid");
        let header = "Authorization: Basic dXNlcjpwYXNz";
        let with_header = environment
            .variables
            .iter()
            .filter(|(_, value)| value == header);
        let names: Vec<&str> = with_header.map(|(name, _)| name.as_str()).collect();
        let [name] = names.as_slice() else {
            panic!("{names:?}");
        };
        let key = value(&environment, &name.replace("VALUE", "KEY"));
        assert_eq!(key, Some("http.http://127.0.0.1:8080/r.git.extraHeader"));
        assert_eq!(value(&environment, "GIT_ALLOW_PROTOCOL"), Some("http"));
        let shown = format!("{environment:?}");
        assert!(
            shown.contains("GIT_ASKPASS") && !shown.contains("dXNl"),
            "{shown}"
        );
    }

    #[tokio::test]
    async fn every_configured_key_has_a_value() {
        let remote = "https://127.0.0.1/r.git";
        let environment = environment(remote, GitLogin::Anonymous, &settings()).await;
        let environment = environment.expect("valid");
        let count = value(&environment, "GIT_CONFIG_COUNT").expect("a count");
        let count: usize = count.parse().expect("a number");
        let mut keys = Vec::new();
        for index in 0..count {
            let key = value(&environment, &format!("GIT_CONFIG_KEY_{index}"));
            keys.push(key.expect("a key"));
            assert!(value(&environment, &format!("GIT_CONFIG_VALUE_{index}")).is_some());
        }
        assert_eq!(
            value(&environment, &format!("GIT_CONFIG_KEY_{count}")),
            None
        );
        for wanted in [
            "transfer.fsckObjects",
            "http.followRedirects",
            "core.hooksPath",
        ] {
            assert!(keys.contains(&wanted), "{wanted}");
        }
    }

    #[test]
    fn a_name_is_pinned_to_its_checked_addresses() {
        let hosts = settings().hosts;
        let remote = GitRemote::parse("https://a.test:8443/r", &hosts).expect("a remote");
        let addresses = ["1.2.3.4:8443", "[2001:4860::1]:8443"];
        let addresses: [SocketAddr; 2] = addresses.map(|it| it.parse().expect("an address"));
        let config = http_config(&remote, &addresses, &GitLogin::Anonymous).expect("valid");
        let wanted = variable("http.curloptResolve", "a.test:8443:1.2.3.4,[2001:4860::1]");
        assert_eq!(config, [wanted]);
    }

    #[tokio::test]
    async fn hosts_and_credentials_that_do_not_fit_are_refused() {
        let key = || GitLogin::SshKey(Secret::new("key"));
        let token = |text: &str| GitLogin::Token(Secret::new(text));
        for (remote, login, wanted) in [
            (
                "https://10.0.0.1/r",
                GitLogin::Anonymous,
                "not allowed for sources",
            ),
            ("https://127.0.0.1/r", key(), "for ssh remotes only"),
            ("https://127.0.0.1/r", token("a\r\nX: y"), "cannot be sent"),
            (
                "ssh://git@127.0.0.1/r",
                GitLogin::Anonymous,
                "needs an SSH key",
            ),
            ("ssh://git@127.0.0.1/r", token("a"), "needs an SSH key"),
            ("ssh://git@127.0.0.1/r", key(), "no known host keys"),
        ] {
            let error = environment(remote, login, &settings())
                .await
                .expect_err("refused");
            assert!(error.message().contains(wanted), "{remote}: {error}");
        }
    }
}
