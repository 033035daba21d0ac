//! The URL of a template, as a person writes it.

use url::{Host, Url};

use crate::error::OperationError;

/// Longest URL, in bytes.
const MAX_URL: usize = 2048;

/// Where a template is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TemplateSource {
    /// The host name.
    pub(super) host: String,
    /// The port.
    pub(super) port: u16,
    /// The path and the query.
    pub(super) path: String,
}

impl TemplateSource {
    /// Reads a URL. That of a page of GitHub becomes that of the file it shows.
    ///
    /// # Errors
    /// [`OperationError::Invalid`] says what is wrong.
    pub(super) fn parse(written: &str) -> Result<TemplateSource, OperationError> {
        let wrong = |what: &str| OperationError::Invalid(what.to_owned());
        if written.is_empty() {
            // PrimeHub's text.
            return Err(wrong("URL is required"));
        }
        if written.len() > MAX_URL {
            return Err(wrong("url: is too long"));
        }
        let url = Url::parse(written).map_err(|_| wrong("url: is no URL"))?;
        if url.scheme() != "https" {
            return Err(wrong("url: must begin with https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("url: must have no user name and no password"));
        }
        let (Some(Host::Domain(host)), Some(port)) = (url.host(), url.port_or_known_default())
        else {
            return Err(wrong("url: must have a host name, not an address"));
        };
        if let Some(path) = raw_path(&url, host) {
            return Ok(TemplateSource {
                host: "raw.githubusercontent.com".to_owned(),
                port,
                path,
            });
        }
        let query = url.query().map(|query| format!("?{query}"));
        Ok(TemplateSource {
            host: host.to_owned(),
            port,
            path: format!("{}{}", url.path(), query.unwrap_or_default()),
        })
    }
}

/// The path of the file that a page of GitHub shows (`/<owner>/<repository>/blob/<branch>/<file>`).
fn raw_path(url: &Url, host: &str) -> Option<String> {
    if host != "github.com" || url.port().is_some() {
        return None;
    }
    let (project, file) = url.path().split_once("/blob/")?;
    let is_project = project.split('/').filter(|part| !part.is_empty()).count() == 2;
    (is_project && file.contains('/')).then(|| format!("{project}/{file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_github_becomes_the_file_that_it_shows() {
        let raw = "raw.githubusercontent.com";
        for (written, host, port, path) in [
            (
                "https://github.com/o/r/blob/main/app-templates/mlflow.yaml",
                raw,
                443,
                "/o/r/main/app-templates/mlflow.yaml",
            ),
            (
                "https://GitHub.com/o/r/blob/v1.0/a%20b.yaml?raw=true#L3",
                raw,
                443,
                "/o/r/v1.0/a%20b.yaml",
            ),
            (
                "https://github.com/o/r/blob/main/x/blob/y.yaml",
                raw,
                443,
                "/o/r/main/x/blob/y.yaml",
            ),
            (
                "https://github.com/o/r/raw/main/a.yaml",
                "github.com",
                443,
                "/o/r/raw/main/a.yaml",
            ),
            (
                "https://github.com/o/blob/main/a.yaml",
                "github.com",
                443,
                "/o/blob/main/a.yaml",
            ),
            (
                "https://github.com:8443/o/r/blob/main/a.yaml",
                "github.com",
                8443,
                "/o/r/blob/main/a.yaml",
            ),
            (
                "https://github.com.example.com/o/r/blob/main/a.yaml",
                "github.com.example.com",
                443,
                "/o/r/blob/main/a.yaml",
            ),
            (
                "https://example.com:443/a/../b.yaml?c=d#e",
                "example.com",
                443,
                "/b.yaml?c=d",
            ),
            ("https://example.com", "example.com", 443, "/"),
        ] {
            let source = TemplateSource::parse(written).expect("valid");
            let wanted = TemplateSource {
                host: host.to_owned(),
                port,
                path: path.to_owned(),
            };
            assert_eq!(source, wanted, "{written}");
        }
    }

    #[test]
    fn only_https_with_a_host_name_is_a_source() {
        let long = format!("https://example.com/{}", "a".repeat(MAX_URL));
        let address = "url: must have a host name, not an address";
        for (written, wanted) in [
            ("", "URL is required"),
            (long.as_str(), "url: is too long"),
            ("mlflow.yaml", "url: is no URL"),
            ("https://", "url: is no URL"),
            ("http://example.com/a", "url: must begin with https://"),
            ("file:///etc/passwd", "url: must begin with https://"),
            ("data:text/yaml,a", "url: must begin with https://"),
            (
                "https://user@example.com/a",
                "url: must have no user name and no password",
            ),
            (
                "https://:secret@example.com/a",
                "url: must have no user name and no password",
            ),
            ("https://127.0.0.1/a", address),
            ("https://2130706433/a", address),
            ("https://0x7f.1/a", address),
            ("https://169.254.169.254/latest", address),
            ("https://[::1]/a", address),
            ("https://[::ffff:10.0.0.1]/a", address),
        ] {
            let error = TemplateSource::parse(written).expect_err("refused");
            assert_eq!(error.to_string(), wanted, "{written:.60}");
        }
    }
}
