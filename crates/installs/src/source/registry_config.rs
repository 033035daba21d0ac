//! The content of `registryConfigFile`: a Docker configuration with credentials by host.

use ludgate_model::secret::Secret;
use ludgate_ops::docker_config::{DockerConfig, DockerConfigError};

use super::error::SourceError;

/// Reads a configuration. One that names credential helpers is refused: they are programs.
///
/// # Errors
/// Permanent, without a part of the content except a host.
pub(crate) fn parse(json: &Secret) -> Result<DockerConfig, SourceError> {
    let unusable = |host: &str| {
        let what = format!("registryConfigFile has no usable credentials for {host:?}");
        SourceError::permanent(what)
    };
    let config = DockerConfig::parse(json.expose().as_bytes()).map_err(|error| match error {
        DockerConfigError::Form { line, column } => {
            let place = format!("line {line}, column {column}");
            let what = format!("registryConfigFile is no Docker configuration: {place}");
            SourceError::permanent(what)
        }
        DockerConfigError::Entry(host) => unusable(&host),
    })?;
    if let Some(key) = config.helper_key() {
        let what = format!("registryConfigFile must not have {key}: it starts programs");
        return Err(SourceError::permanent(what));
    }
    match config.hosts_without_credentials().first() {
        Some(host) => Err(unusable(host)),
        None => Ok(config),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_and_unusable_entries_are_refused_without_a_secret() {
        for (json, wanted) in [
            (
                r#"{"credsStore": "desktop"}"#,
                "registryConfigFile must not have credsStore: it starts programs",
            ),
            (
                r#"{"auths": {"a.test": {}}, "credHelpers": {"a.test": "ecr-login"}}"#,
                "registryConfigFile must not have credHelpers: it starts programs",
            ),
            (
                r#"{"auths": {"a.test": {}}}"#,
                "registryConfigFile has no usable credentials for \"a.test\"",
            ),
            (
                r#"{"auths": {"a.test": {"auth": "canary"}}}"#,
                "registryConfigFile has no usable credentials for \"a.test\"",
            ),
            (
                "canary",
                "registryConfigFile is no Docker configuration: line 1, column 1",
            ),
        ] {
            let error = parse(&Secret::new(json)).expect_err("refused");
            assert_eq!(error.message(), wanted);
            assert!(!format!("{error:?}").contains("canary"), "{json}");
        }
    }
}
