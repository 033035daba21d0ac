//! Servers and settings of all tests.

pub(crate) mod charts;
pub(crate) mod command;
pub(crate) mod git_repository;
pub(crate) mod git_server;
pub(crate) mod helm_repository;
pub(crate) mod http_server;
pub(crate) mod registry;
pub(crate) mod ssh_server;

use std::{path::Path, time::Duration};

use ludgate_installs::source::{
    ChartSource, Credentials, DownloadedChart, GitLogin, HelmLogin, SourceError, SourceErrorClass,
    SourceSettings, download,
};
use ludgate_model::secret::Secret;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Settings that permit servers on loopback, also without TLS.
pub(crate) fn settings() -> SourceSettings {
    // A test may be the first that needs TLS.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut settings = SourceSettings::default();
    settings.hosts.plain_http = true;
    settings.hosts.allowed_networks = vec!["127.0.0.0/8".parse().expect("a network")];
    settings.limits.deadline = Duration::from_secs(60);
    settings
}

/// A download that has ended, with its folder.
pub(crate) struct Finished {
    pub(crate) folder: TempDir,
    pub(crate) result: Result<DownloadedChart, SourceError>,
}

impl Finished {
    pub(crate) fn chart(&self) -> &DownloadedChart {
        self.result.as_ref().expect("a chart")
    }

    /// The class and the text of the error. Nothing stays in the folder then.
    pub(crate) fn error(&self) -> (SourceErrorClass, &str) {
        let error = self.result.as_ref().expect_err("an error");
        assert_eq!(names_in(self.folder.path()), [""; 0], "{error}");
        (error.class(), error.message())
    }

    /// The text of an error that no other attempt can repair.
    pub(crate) fn refusal(&self) -> &str {
        let (class, message) = self.error();
        assert_eq!(class, SourceErrorClass::Permanent, "{message}");
        message
    }
}

/// The names in a folder.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// Downloads a chart into a folder of its own.
pub(crate) async fn fetch(
    source: &ChartSource,
    credentials: &Credentials,
    settings: &SourceSettings,
) -> Finished {
    let folder = tempfile::tempdir().expect("a folder");
    let cancel = CancellationToken::new();
    let result = download(source, credentials, settings, folder.path(), &cancel).await;
    Finished { folder, result }
}

/// A chart of a Helm repository.
pub(crate) fn from_repository(url: &str, chart: &str, version: &str) -> ChartSource {
    ChartSource::Repository {
        url: url.to_owned(),
        chart: chart.to_owned(),
        version: version.to_owned(),
        insecure: false,
    }
}

/// A chart of a registry without TLS.
pub(crate) fn from_registry(url: &str, chart: &str, version: &str) -> ChartSource {
    ChartSource::Oci {
        url: url.to_owned(),
        chart: chart.to_owned(),
        version: version.to_owned(),
        insecure: false,
        plain_http: true,
    }
}

/// The user and password that the servers here accept.
pub(crate) const USER: &str = "username";
pub(crate) const PASSWORD: &str = "canary-password";
/// The same in base64, as `Basic` has it.
pub(crate) const BASIC: &str = "Basic dXNlcm5hbWU6Y2FuYXJ5LXBhc3N3b3Jk";

/// These for Helm repositories.
pub(crate) fn helm_password() -> Credentials {
    Credentials {
        helm: HelmLogin::Password {
            username: Secret::new(USER),
            password: Secret::new(PASSWORD),
        },
        ..Credentials::default()
    }
}

/// These in a Docker configuration, for one host.
pub(crate) fn registry_config(host: &str) -> Credentials {
    let pair = BASIC.trim_start_matches("Basic ");
    let json = format!(r#"{{"auths": {{"{host}": {{"auth": "{pair}"}}}}}}"#);
    Credentials {
        helm: HelmLogin::RegistryConfig(Secret::new(json)),
        ..Credentials::default()
    }
}

/// These for git.
pub(crate) fn git_password() -> Credentials {
    Credentials {
        git: GitLogin::Password {
            username: Secret::new(USER),
            password: Secret::new(PASSWORD),
        },
        ..Credentials::default()
    }
}
