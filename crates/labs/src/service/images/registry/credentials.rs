//! Credentials for registries, from a file in the form of a pull secret: `.dockerconfigjson`.

use std::{fs::File, io::Read, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use ludgate_ops::docker_config::{DockerConfig, DockerConfigError};

/// Largest file, in bytes. A Secret of Kubernetes cannot be larger.
const MAX_FILE: u64 = 1 << 20;

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

impl From<DockerConfigError> for CredentialsProblem {
    fn from(error: DockerConfigError) -> CredentialsProblem {
        match error {
            DockerConfigError::Form { line, column } => CredentialsProblem::Form(line, column),
            DockerConfigError::Entry(host) => CredentialsProblem::Entry(host),
        }
    }
}

/// The credentials of a file, by host.
#[derive(Debug, Default)]
pub(super) struct RegistryCredentials(DockerConfig);

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
        // Docker's credential helpers are not asked: hosts whose entries are empty get no header.
        Ok(RegistryCredentials(DockerConfig::parse(&text)?))
    }

    /// The header for a host, with its port if that is not the default; `None`: there are no
    /// credentials for it.
    pub(super) fn basic(&self, host: &str) -> Option<HeaderValue> {
        let pair = self.0.pair(host)?;
        let text = format!("Basic {}", STANDARD.encode(pair.expose()));
        let mut header = HeaderValue::try_from(text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn loaded(text: &str) -> Result<RegistryCredentials, CredentialsProblem> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        RegistryCredentials::load(file.path())
    }

    #[test]
    fn a_host_gets_its_own_header_and_an_empty_entry_is_none() {
        let credentials = loaded(
            r#"{"auths": {
                "registry.test": {"username": "user", "password": "a:b"},
                "elsewhere.test": {}
            }, "credsStore": "x"}"#,
        )
        .unwrap();
        let header = credentials.basic("registry.test").unwrap();
        assert!(header.is_sensitive());
        assert_eq!(header, "Basic dXNlcjphOmI=");
        for other in ["sub.registry.test", "elsewhere.test"] {
            assert_eq!(credentials.basic(other), None, "{other}");
        }
    }

    #[test]
    fn a_file_without_usable_credentials_is_an_error_without_its_content() {
        for (text, wanted) in [
            (
                r#"{"auths": {"registry.test": {"username": "canary"}}}"#,
                "the credentials of registry.test are not as expected",
            ),
            (
                "canary",
                "the file with the registry's credentials is not as expected: line 1, column 1",
            ),
            (
                &*" ".repeat(MAX_FILE as usize + 1),
                "the file with the registry's credentials is larger than 1 MiB",
            ),
        ] {
            let problem = loaded(text).unwrap_err();
            assert_eq!(problem.to_string(), wanted);
            assert!(!format!("{problem:?}").contains("canary"));
        }
    }
}
