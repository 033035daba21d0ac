//! The address of a site, as a person writes it.

use std::fmt;

use ludgate_model::site::is_loopback_host;
use url::Url;

/// The origin of a site: https, or http on this machine, since every call carries a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteUrl(String);

/// Why a text is no address of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiteUrlError {
    /// No URL with a host.
    #[error("write the site's URL, such as https://hub.example.com")]
    NoUrl,
    /// It has a path, a query or a name of a user.
    #[error("write only scheme, host and port of the site, such as https://hub.example.com")]
    NotOrigin,
    /// http to another machine.
    #[error("the site must be https: a token must not cross a network in clear text")]
    Insecure,
}

impl SiteUrl {
    /// Reads what a person wrote.
    ///
    /// # Errors
    /// See [`SiteUrlError`].
    pub fn parse(text: &str) -> Result<SiteUrl, SiteUrlError> {
        let url = Url::parse(text.trim()).map_err(|_| SiteUrlError::NoUrl)?;
        let host = url.host_str().ok_or(SiteUrlError::NoUrl)?;
        match url.scheme() {
            "https" => {}
            "http" if is_loopback_host(host) => {}
            "http" => return Err(SiteUrlError::Insecure),
            _ => return Err(SiteUrlError::NoUrl),
        }
        let has_more = url.path() != "/" || url.query().is_some() || url.fragment().is_some();
        if has_more || !url.username().is_empty() || url.password().is_some() {
            return Err(SiteUrlError::NotOrigin);
        }
        Ok(SiteUrl(url.origin().ascii_serialization()))
    }

    /// The origin, without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SiteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_an_origin_that_may_carry_a_token() {
        for (text, wanted) in [
            ("https://hub.example.com", Ok("https://hub.example.com")),
            (
                " https://Hub.example.com:443/ ",
                Ok("https://hub.example.com"),
            ),
            ("http://127.0.0.1:8080", Ok("http://127.0.0.1:8080")),
            ("http://[::1]:8080/", Ok("http://[::1]:8080")),
            ("http://localhost:8080", Ok("http://localhost:8080")),
            ("http://hub.example.com", Err(SiteUrlError::Insecure)),
            ("hub.example.com", Err(SiteUrlError::NoUrl)),
            ("localhost:8080", Err(SiteUrlError::NoUrl)),
            ("ftp://hub.example.com", Err(SiteUrlError::NoUrl)),
            (
                "https://hub.example.com/apps/",
                Err(SiteUrlError::NotOrigin),
            ),
            (
                "https://me:pw@hub.example.com",
                Err(SiteUrlError::NotOrigin),
            ),
            ("https://hub.example.com/?x", Err(SiteUrlError::NotOrigin)),
        ] {
            let parsed = SiteUrl::parse(text);
            let parsed = parsed.as_ref().map(SiteUrl::as_str).map_err(|it| *it);
            assert_eq!(parsed, wanted, "{text}");
        }
    }
}
