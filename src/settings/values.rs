//! Values that several tables have: origins, upstreams, and files next to the configuration.

use std::{collections::BTreeMap, fs, os::unix::net::SocketAddr, path::Path, sync::Arc};

use openidconnect::IssuerUrl;
use url::Url;

use super::section::ConfigSection;
use crate::{
    model::{
        app::{Isolation, Upstream, UpstreamScheme},
        secret::Secret,
        site::{WebOrigin, is_loopback_host},
    },
    ops::tls_client,
};

/// Default address of the API's listener.
pub const API_ADDRESS: &str = "127.0.0.1:8082";
/// Default address of the listener of labs.
pub const LABS_ADDRESS: &str = "127.0.0.1:8083";
/// Maximum of claims that a session keeps.
pub(crate) const MAX_CLAIMS: usize = 16;

/// Parses an origin: scheme, host and port only.
pub fn origin(text: &str) -> Result<WebOrigin, String> {
    WebOrigin::parse(text).map_err(|error| error.to_string())
}

/// Parses the URL of an issuer, which is compared byte by byte.
pub(super) fn issuer(text: &str) -> Result<IssuerUrl, String> {
    let issuer =
        IssuerUrl::new(text.to_owned()).map_err(|error| format!("{text:?} is no URL: {error}"))?;
    let url = issuer.url();
    if !is_encrypted_or_local(url) {
        return Err("must be https (http is accepted on loopback only)".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have no query and no fragment".into());
    }
    Ok(issuer)
}

/// Whether secrets may be sent to a URL: https, or http on loopback.
fn is_encrypted_or_local(url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => url.host_str().is_some_and(is_loopback_host),
        _ => false,
    }
}

/// Parses a URL to which a token may be sent, and whose answer is believed.
pub(super) fn confidential_url(text: &str) -> Result<Url, String> {
    // The text is not quoted: it may have a user with a password.
    let url = Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    if has_user || !is_encrypted_or_local(&url) {
        return Err(
            "must be an https address (http is accepted on loopback only), without a user".into(),
        );
    }
    Ok(url)
}

/// Parses an upstream: http or https, host and port only; or the path of a unix socket.
///
/// # Errors
/// The problem, as text for a [`ConfigError`](super::ConfigError).
pub fn upstream(text: &str) -> Result<Upstream, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return socket(path).map(|path| Upstream::unix(Path::new(path)));
    }
    let url = Url::parse(text).map_err(|error| format!("{text:?} is no URL: {error}"))?;
    let scheme = match url.scheme() {
        "http" => UpstreamScheme::Http,
        "https" => UpstreamScheme::Https,
        _ => return Err("must begin with http://, https:// or unix:/".into()),
    };
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err("must not have a path: an app gets the path of the request".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user or password".into());
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or_default();
    if port == 0 {
        return Err("must have a port other than 0".into());
    }
    Ok(Upstream {
        scheme,
        host: host.into(),
        port,
    })
}

/// Parses the path of a unix socket. Suffixes and escapes, as other programs have them, are errors.
fn socket(path: &str) -> Result<&str, String> {
    let Some(below) = path.strip_prefix('/') else {
        return Err("must be unix: and an absolute path".into());
    };
    if below.starts_with('/') {
        return Err("must be unix: and a path with one slash before it: no host, no //".into());
    }
    if path.contains(|c: char| matches!(c, '?' | '#' | '%' | ':' | '\\') || c.is_control()) {
        return Err(
            "must not hold anything but the socket's path: an app gets the path of the request"
                .into(),
        );
    }
    if below.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err(
            "must be the plain path of a socket: no empty names, no . and no .. in it".into(),
        );
    }
    // `sun_path` has 108 bytes with the final zero (unix(7)), on some systems fewer.
    match SocketAddr::from_pathname(path) {
        Ok(_) => Ok(path),
        Err(_) => Err("is longer than the path of a socket can be".into()),
    }
}

/// Parses the key `isolation`.
pub fn isolation(section: &ConfigSection<'_>) -> Isolation {
    match section.text("isolation").as_deref() {
        None | Some("both") => Isolation::Both,
        Some("path") => Isolation::Path,
        Some("host") => Isolation::Host,
        Some(other) => {
            let suggestion = Some("isolation = \"both\", \"path\" or \"host\"".to_owned());
            section.wrong(
                "isolation",
                format!("{other:?} is no isolation"),
                suggestion,
            );
            Isolation::Both
        }
    }
}

/// The secret in a file, without surrounding white space.
pub fn secret_file(
    section: &ConfigSection<'_>,
    name: &'static str,
    folder: &Path,
) -> Option<Secret> {
    let file = section.text(name)?;
    match fs::read_to_string(folder.join(&file)) {
        Ok(content) if content.trim().is_empty() => {
            section.wrong(name, format!("{file} is empty"), None);
            None
        }
        Ok(content) => Some(Secret::new(content.trim())),
        Err(error) => {
            section.wrong(name, format!("{file} cannot be read: {error}"), None);
            None
        }
    }
}

/// The content of a CA file, checked to hold a certificate.
pub fn ca_file(
    section: &ConfigSection<'_>,
    name: &'static str,
    folder: &Path,
) -> Option<Arc<[u8]>> {
    let file = section.text(name)?;
    match fs::read(folder.join(&file)) {
        Ok(content) if tls_client::client_config(Some(&content)).is_ok() => Some(content.into()),
        Ok(_) => {
            section.wrong(name, format!("{file} holds no PEM certificate"), None);
            None
        }
        Err(error) => {
            section.wrong(name, format!("{file} cannot be read: {error}"), None);
            None
        }
    }
}

/// Sets of labels, each written as `name=value,name=value`.
pub fn labels_of_all(
    section: &ConfigSection<'_>,
    key: &'static str,
    written: &[String],
) -> Option<Vec<BTreeMap<String, String>>> {
    let read = |text: &String| {
        let read = labels(text);
        if read.is_none() {
            let example = Some("\"app.kubernetes.io/name=ludgate\"".to_owned());
            section.wrong(key, format!("{text:?} is no label"), example);
        }
        read
    };
    written.iter().map(read).collect()
}

/// Labels, written as `name=value,name=value`.
pub fn labels(text: &str) -> Option<BTreeMap<String, String>> {
    let label = |part: &str| {
        let (name, value) = part.split_once('=')?;
        (!name.is_empty() && !value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    };
    text.split(',').map(label).collect()
}
