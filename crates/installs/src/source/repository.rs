//! Charts from Helm repositories: an index and archives, by http or https.

mod index;

use tokio::task::spawn_blocking;
use url::Url;

use self::index::{IndexEntry, RepositoryIndex};
use super::{
    checksum::sha256_hex,
    credentials::HelmLogin,
    error::SourceError,
    http::{Authorization, GetRequest, HttpSource, has_user, host_of},
    version::WantedVersion,
};

/// A Helm repository.
#[derive(Debug)]
pub(crate) struct HelmRepository<'s> {
    http: &'s HttpSource<'s>,
    url: Url,
    authorization: Option<Authorization>,
}

impl<'s> HelmRepository<'s> {
    /// The repository at a URL. Only its own server gets the credentials.
    ///
    /// # Errors
    /// Permanent, if the URL or the credentials cannot be used.
    pub(crate) fn new(
        http: &'s HttpSource<'s>,
        url: &str,
        login: &HelmLogin,
    ) -> Result<HelmRepository<'s>, SourceError> {
        let invalid = |why: &str| SourceError::permanent(format!("the repository's URL {why}"));
        let url = Url::parse(url).map_err(|_| invalid("is no URL"))?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(invalid("must begin with https:// or http://"));
        }
        if has_user(&url) {
            return Err(invalid("must have no user and no password"));
        }
        let header = login.authorization(&host_of(&url))?;
        let authorization = header.map(|header| Authorization {
            origin: url.origin(),
            header,
        });
        Ok(HelmRepository {
            http,
            url,
            authorization,
        })
    }

    /// The archive of a chart. Its digest is that of the index, if the index has one.
    ///
    /// # Errors
    /// Permanent if there is no such chart or version, or the digest differs.
    pub(crate) async fn fetch(
        &self,
        chart: &str,
        wanted: &WantedVersion,
    ) -> Result<Vec<u8>, SourceError> {
        let entry = self.find(chart, wanted).await?;
        let url = archive_url(&self.url, &entry)?;
        let limit = self.http.settings.limits.packed_bytes;
        let archive = self.get(url, limit).await?;
        check_digest(&archive, &entry.digest)?;
        Ok(archive)
    }

    async fn find(&self, chart: &str, wanted: &WantedVersion) -> Result<IndexEntry, SourceError> {
        let limit = self.http.settings.limits.index_bytes;
        let text = self.get(index_url(&self.url), limit).await?;
        let (chart, wanted) = (chart.to_owned(), wanted.clone());
        // A large index must not delay other tasks.
        let found = spawn_blocking(move || RepositoryIndex::parse(&text)?.find(&chart, &wanted));
        let found = found.await;
        found.map_err(|error| SourceError::local("cannot read the index", error))?
    }

    async fn get(&self, url: Url, max_bytes: usize) -> Result<Vec<u8>, SourceError> {
        let request = GetRequest {
            url: url.clone(),
            accept: "*/*",
            authorization: self.authorization.as_ref(),
            max_bytes,
        };
        let answer = self.http.get(request).await?;
        Ok(answer.successful(&url)?.body)
    }
}

/// The URL of the index: a file in the folder that the repository's URL names.
fn index_url(repository: &Url) -> Url {
    let mut url = repository.clone();
    url.set_path(&format!(
        "{}/index.yaml",
        repository.path().trim_end_matches('/')
    ));
    url.set_fragment(None);
    url
}

/// The URL of an archive, which may be relative to the repository. A relative one keeps the query
/// of the repository, which may have a signature.
fn archive_url(repository: &Url, entry: &IndexEntry) -> Result<Url, SourceError> {
    let invalid =
        |why: &str| SourceError::permanent(format!("the index's URL of {} {why}", entry.version));
    let text = entry.urls.first().ok_or_else(|| invalid("is missing"))?;
    let mut base = repository.clone();
    base.set_path(&format!("{}/", repository.path().trim_end_matches('/')));
    let mut url = base.join(text).map_err(|_| invalid("is no URL"))?;
    if has_user(&url) {
        return Err(invalid("must have no user and no password"));
    }
    if Url::parse(text).is_err() && url.origin() == repository.origin() && url.query().is_none() {
        url.set_query(repository.query());
    }
    Ok(url)
}

/// The digest of an index is a SHA-256; older ones have none.
fn check_digest(archive: &[u8], digest: &str) -> Result<(), SourceError> {
    let wanted = digest.strip_prefix("sha256:").unwrap_or(digest);
    let found = sha256_hex(archive);
    if wanted.is_empty() || wanted.eq_ignore_ascii_case(&found) {
        return Ok(());
    }
    Err(SourceError::permanent(
        "the chart's archive has another digest than the repository's index says",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    fn entry(url: &str) -> IndexEntry {
        IndexEntry {
            version: "1.0.0".to_owned(),
            urls: vec![url.to_owned()],
            digest: String::new(),
        }
    }

    #[test]
    fn the_index_is_in_the_folder() {
        for (repository, wanted) in [
            ("https://a.test", "https://a.test/index.yaml"),
            ("https://a.test/b", "https://a.test/b/index.yaml"),
            ("https://a.test/b/?c=d#e", "https://a.test/b/index.yaml?c=d"),
        ] {
            assert_eq!(index_url(&url(repository)).as_str(), wanted);
        }
    }

    #[test]
    fn urls_of_archives_are_resolved() {
        for (repository, text, wanted) in [
            ("https://a.test/b", "c.tgz", Some("https://a.test/b/c.tgz")),
            (
                "https://a.test/b/",
                "d/c.tgz",
                Some("https://a.test/b/d/c.tgz"),
            ),
            (
                "https://a.test/b?k=v",
                "c.tgz",
                Some("https://a.test/b/c.tgz?k=v"),
            ),
            (
                "https://a.test/b?k=v",
                "c.tgz?x",
                Some("https://a.test/b/c.tgz?x"),
            ),
            ("https://a.test/b", "/c.tgz", Some("https://a.test/c.tgz")),
            (
                "https://a.test?k=v",
                "https://b.test/c.tgz",
                Some("https://b.test/c.tgz"),
            ),
            (
                "https://a.test?k=v",
                "//b.test/c.tgz",
                Some("https://b.test/c.tgz"),
            ),
            ("https://a.test", "https://u:p@b.test/c.tgz", None),
            ("https://a.test", "https://", None),
        ] {
            let found = archive_url(&url(repository), &entry(text));
            assert_eq!(
                found.as_ref().ok().map(Url::as_str),
                wanted,
                "{repository} {text}"
            );
        }
        let none = IndexEntry {
            urls: Vec::new(),
            ..entry("")
        };
        assert!(archive_url(&url("https://a.test"), &none).is_err());
    }

    #[test]
    fn a_digest_that_is_there_must_be_right() {
        let right = sha256_hex(b"chart");
        for digest in [
            "",
            &right,
            &right.to_uppercase(),
            &format!("sha256:{right}"),
        ] {
            assert_eq!(check_digest(b"chart", digest), Ok(()), "{digest}");
        }
        for digest in ["0", &sha256_hex(b"other"), "sha512:00"] {
            assert!(check_digest(b"chart", digest).is_err(), "{digest}");
        }
    }
}
