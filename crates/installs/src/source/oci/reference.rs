//! Where a chart is in a registry.

use url::Url;

use crate::source::{
    error::SourceError,
    http::{has_user, host_of},
};

/// Docker's own registry has its API elsewhere.
const DOCKER_HUB: [&str; 2] = ["docker.io", "index.docker.io"];
const DOCKER_HUB_API: &str = "registry-1.docker.io";
/// Longest name of a repository, in bytes.
const MAX_REPOSITORY: usize = 255;

/// A repository of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OciReference {
    /// Scheme and host of the API.
    pub(super) root: Url,
    /// The host, with its port if that is not the default. Credentials are of this name.
    pub(super) host: String,
    /// The path of the chart.
    pub(super) repository: String,
}

impl OciReference {
    /// The repository of a chart below an `oci://` URL.
    pub(super) fn parse(
        url: &str,
        chart: &str,
        plain_http: bool,
    ) -> Result<OciReference, SourceError> {
        let invalid = |why: &str| SourceError::permanent(format!("the registry's URL {why}"));
        let rest = url
            .strip_prefix("oci://")
            .ok_or_else(|| invalid("must begin with oci://"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = match DOCKER_HUB.contains(&host) {
            true => DOCKER_HUB_API,
            false => host,
        };
        let scheme = match plain_http {
            true => "http",
            false => "https",
        };
        let root = Url::parse(&format!("{scheme}://{host}")).map_err(|_| invalid("has no host"))?;
        if has_user(&root) {
            return Err(invalid("must have no user and no password"));
        }
        let path = path.trim_matches('/');
        let repository = match path {
            "" => chart.to_owned(),
            path => format!("{path}/{chart}"),
        };
        let is_valid =
            repository.len() <= MAX_REPOSITORY && repository.split('/').all(is_component);
        if !is_valid || root.path() != "/" || root.query().is_some() || root.fragment().is_some() {
            let what = format!("has no valid repository: {repository:?}");
            return Err(invalid(&what));
        }
        Ok(OciReference {
            host: host_of(&root),
            root,
            repository,
        })
    }

    /// The URL of a path of this repository.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.root.clone();
        url.set_path(&format!("/v2/{}/{path}", self.repository));
        url
    }

    /// The next page of a list, which must be on this server.
    pub(super) fn next_page(&self, page: &Url, link: &str) -> Result<Url, SourceError> {
        let invalid = || SourceError::permanent("the registry's next page is on another server");
        let next = page.join(link).map_err(|_| invalid())?;
        match next.origin() == self.root.origin() && !has_user(&next) {
            true => Ok(next),
            false => Err(invalid()),
        }
    }
}

/// A part of a repository's name, in the grammar of the specification.
fn is_component(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_allowed = |c: char| is_letter(c) || "._-".contains(c);
    text.starts_with(is_letter) && text.ends_with(is_letter) && text.chars().all(is_allowed)
}

/// The target of the relation `next` in a `Link` header (RFC 8288).
pub(super) fn next_link(header: &str) -> Option<&str> {
    let (_, target) = header.split_once('<')?;
    let (target, behind) = target.split_once('>')?;
    let is_next = |parameter: &str| {
        let bare = parameter
            .trim()
            .to_ascii_lowercase()
            .replace(['"', ' '], "");
        bare == "rel=next"
    };
    behind.split(';').any(is_next).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_and_a_chart_become_a_repository() {
        for (url, chart, plain, wanted) in [
            (
                "oci://r.test/a/b",
                "c",
                false,
                "https://r.test/v2/a/b/c/tags/list r.test",
            ),
            (
                "oci://r.test",
                "c",
                false,
                "https://r.test/v2/c/tags/list r.test",
            ),
            (
                "oci://R.test/",
                "c",
                false,
                "https://r.test/v2/c/tags/list r.test",
            ),
            (
                "oci://r.test:5000/a/",
                "c",
                false,
                "https://r.test:5000/v2/a/c/tags/list r.test:5000",
            ),
            (
                "oci://[::1]:5000/a",
                "c",
                true,
                "http://[::1]:5000/v2/a/c/tags/list [::1]:5000",
            ),
            (
                "oci://docker.io/a",
                "c",
                false,
                "https://registry-1.docker.io/v2/a/c/tags/list registry-1.docker.io",
            ),
        ] {
            let reference = OciReference::parse(url, chart, plain).expect("valid");
            let found = format!("{} {}", reference.url("tags/list"), reference.host);
            assert_eq!(found, wanted, "{url}");
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for (url, chart) in [
            ("https://r.test/a", "c"),
            ("oci://", "c"),
            ("oci:///a", "c"),
            ("oci://u:p@r.test/a", "c"),
            ("oci://r.test/a/../b", "c"),
            ("oci://r.test/a//b", "c"),
            ("oci://r.test/A", "c"),
            ("oci://r.test/a?b", "c"),
            ("oci://r.test?x/a", "c"),
            ("oci://r.test/a", ""),
            ("oci://r.test/a", "c:latest"),
            ("oci://r.test/a", "../c"),
            ("oci://r.test/a", "c%2f"),
        ] {
            assert!(
                OciReference::parse(url, chart, false).is_err(),
                "{url} {chart}"
            );
        }
    }

    #[test]
    fn the_next_page_is_on_the_same_server() {
        let reference = OciReference::parse("oci://r.test/a", "c", false).expect("valid");
        let page = reference.url("tags/list");
        for (link, wanted) in [
            (
                "<?last=x>; rel=\"next\"",
                Some("https://r.test/v2/a/c/tags/list?last=x"),
            ),
            ("</v2/x>; title=y; REL=next", Some("https://r.test/v2/x")),
            ("<https://other.test/>; rel=next", None),
            ("<http://r.test/>; rel=next", None),
            ("<https://u@r.test/>; rel=next", None),
            ("<x>; rel=prev", None),
            ("x; rel=next", None),
        ] {
            let next = next_link(link).and_then(|link| reference.next_page(&page, link).ok());
            assert_eq!(next.as_ref().map(Url::as_str), wanted, "{link}");
        }
    }
}
