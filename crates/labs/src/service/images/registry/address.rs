//! Where a registry is, and which other servers belong to it.

use ludgate_model::site::is_loopback_host;
use url::{Host, Url};

use super::error::RegistryError;

/// Docker's own registry has its API elsewhere.
const DOCKER_HUB_API: &str = "registry-1.docker.io";

/// The API of one image.
#[derive(Clone, Debug)]
pub(super) struct RegistryAddress {
    /// Host as configured, with its port if that is not the default. Credentials are of this name.
    pub(super) host: String,
    /// The image's path, as the API has it.
    pub(super) repository: String,
    root: Url,
}

impl RegistryAddress {
    /// By https, and by http on loopback.
    pub(super) fn new(registry: &str, repository: &str) -> Result<RegistryAddress, RegistryError> {
        let (api, repository) = match registry {
            "docker.io" | "index.docker.io" if repository.contains('/') => {
                (DOCKER_HUB_API, repository.to_owned())
            }
            "docker.io" | "index.docker.io" => (DOCKER_HUB_API, format!("library/{repository}")),
            other => (other, repository.to_owned()),
        };
        let invalid = || RegistryError::Address(registry.to_owned());
        let parse = |scheme: &str| Url::parse(&format!("{scheme}://{api}")).map_err(|_| invalid());
        let mut root = parse("https")?;
        if root.host_str().is_some_and(is_loopback_host) {
            root = parse("http")?;
        }
        let is_plain = root.path() == "/" && root.query().is_none() && root.fragment().is_none();
        if !is_plain || has_user(&root) {
            return Err(invalid());
        }
        Ok(RegistryAddress {
            host: registry.to_owned(),
            repository,
            root,
        })
    }

    /// A path of the image.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.root.clone();
        url.set_path(&format!("/v2/{}/{path}", self.repository));
        url
    }

    /// The next page, if it is on this server.
    pub(super) fn next_page(&self, page: &Url, link: &str) -> Result<Url, RegistryError> {
        let next = page
            .join(link)
            .map_err(|_| RegistryError::Answer("the link to the next page is invalid"))?;
        if next.origin() != self.root.origin() || has_user(&next) {
            return Err(RegistryError::Answer("the next page is on another server"));
        }
        if next == *page {
            return Err(RegistryError::Answer("the next page is the same"));
        }
        Ok(next)
    }

    /// The server that gives tokens. By http only on loopback, if the registry is there too.
    pub(super) fn realm(&self, text: &str) -> Result<Url, RegistryError> {
        let refused = || RegistryError::Realm(text.chars().take(200).collect());
        let realm = Url::parse(text).map_err(|_| refused())?;
        let is_secure = match realm.scheme() {
            "https" => realm.host_str().is_some(),
            "http" => {
                self.root.scheme() == "http" && realm.host_str().is_some_and(is_loopback_host)
            }
            _ => false,
        };
        match is_secure && !has_user(&realm) {
            true => Ok(realm),
            false => Err(refused()),
        }
    }

    /// Whether the registry's credentials may be sent to a server: to its own host, and to hosts
    /// below the same registrable domain.
    pub(super) fn is_same_owner(&self, other: &Url) -> bool {
        match (self.root.host(), other.host()) {
            (Some(Host::Domain(own)), Some(Host::Domain(other))) => {
                own == other || registrable(own).is_some_and(|it| Some(it) == registrable(other))
            }
            (Some(own), Some(other)) => own == other,
            (_, _) => false,
        }
    }
}

/// The domain that was registered below a public suffix. Names within a cluster have none: they
/// belong to many owners.
fn registrable(host: &str) -> Option<&str> {
    let domain = psl::domain(host.as_bytes())?;
    match domain.suffix().is_known() {
        true => std::str::from_utf8(domain.as_bytes()).ok(),
        false => None,
    }
}

fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// The target of the relation `next` in a `Link` header (RFC 8288).
pub(super) fn next_link(header: &str) -> Option<&str> {
    let mut rest = header;
    loop {
        let (_, target) = rest.split_once('<')?;
        let (target, behind) = target.split_once('>')?;
        let parameters = behind.split('<').next().unwrap_or_default();
        if parameters.split(';').any(is_next) {
            return Some(target);
        }
        rest = behind;
    }
}

fn is_next(parameter: &str) -> bool {
    parameter.split_once('=').is_some_and(|(name, value)| {
        let value = value.trim_matches([' ', '\t', ',', '"']);
        name.trim().eq_ignore_ascii_case("rel")
            && value
                .split_ascii_whitespace()
                .any(|word| word.eq_ignore_ascii_case("next"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(registry: &str) -> RegistryAddress {
        RegistryAddress::new(registry, "library/sketchbook").unwrap()
    }

    #[test]
    fn registries_are_called_by_https_and_by_http_on_loopback_only() {
        let url = |registry: &str, repository: &str| {
            let address = RegistryAddress::new(registry, repository);
            address.unwrap().url("tags/list").to_string()
        };
        for (registry, repository, expected) in [
            (
                "registry.test",
                "a/b",
                "https://registry.test/v2/a/b/tags/list",
            ),
            ("10.0.0.1:5000", "a", "https://10.0.0.1:5000/v2/a/tags/list"),
            (
                "localhost:5000",
                "a",
                "http://localhost:5000/v2/a/tags/list",
            ),
            ("[::1]:5000", "a", "http://[::1]:5000/v2/a/tags/list"),
            (
                "docker.io",
                "a",
                "https://registry-1.docker.io/v2/library/a/tags/list",
            ),
            (
                "docker.io",
                "a/b",
                "https://registry-1.docker.io/v2/a/b/tags/list",
            ),
        ] {
            assert_eq!(url(registry, repository), expected);
        }
        for invalid in [
            "",
            "a b",
            "user@registry.test",
            "registry.test/a",
            "registry.test?a",
        ] {
            assert!(RegistryAddress::new(invalid, "a").is_err(), "{invalid}");
        }
    }

    #[test]
    fn the_next_page_is_on_the_same_server() {
        let address = address("registry.test");
        let page = address.url("tags/list");
        let next = |link: &str| address.next_page(&page, link).map(|url| url.to_string());
        let expected = "https://registry.test/v2/library/sketchbook/tags/list?last=a";
        for link in [
            expected,
            "/v2/library/sketchbook/tags/list?last=a",
            "?last=a",
        ] {
            assert_eq!(next(link).unwrap(), expected);
        }
        for link in [
            "https://other.test/v2/",
            "//other.test/v2/",
            "http://registry.test/v2/",
            "https://registry.test:444/v2/",
            "https://user@registry.test/v2/",
            "",
        ] {
            assert!(next(link).is_err(), "{link}");
        }
    }

    #[test]
    fn the_relation_of_a_link_is_read() {
        assert_eq!(
            next_link("</v2/a?n=1,2>; rel=\"next\""),
            Some("/v2/a?n=1,2")
        );
        assert_eq!(
            next_link("<a>; rel=prev, <b>; title=x; REL=\"up next\""),
            Some("b")
        );
        assert_eq!(next_link("<a>; rel=\"prev\", <b>"), None);
        assert_eq!(next_link("a; rel=next"), None);
        assert_eq!(next_link("<a; rel=next"), None);
    }

    #[test]
    fn credentials_go_to_hosts_of_the_same_owner_only() {
        let may = |registry: &str, realm: &str| {
            let address = address(registry);
            address.is_same_owner(&address.realm(realm).unwrap())
        };
        for (registry, realm, expected) in [
            ("docker.io", "https://auth.docker.io/token", true),
            ("registry.gitlab.com", "https://gitlab.com/jwt/auth", true),
            (
                "registry.example.co.uk",
                "https://auth.example.co.uk/",
                true,
            ),
            ("registry.example.co.uk", "https://auth.other.co.uk/", false),
            ("one.github.io", "https://two.github.io/", false),
            (
                "registry.a.svc.cluster.local",
                "https://auth.b.svc.cluster.local/",
                false,
            ),
            ("registry.test", "https://registry.test:8443/", true),
            ("10.0.0.1", "https://10.0.0.1/token", true),
            ("10.0.0.1", "https://20.0.0.1/token", false),
            ("docker.io", "https://docker.io.evil.test/", false),
            ("127.0.0.1:1", "http://127.0.0.1:2/", true),
        ] {
            assert_eq!(may(registry, realm), expected, "{registry} {realm}");
        }
    }

    #[test]
    fn a_realm_is_reached_by_https() {
        for realm in [
            "http://registry.test/token",
            "http://127.0.0.1/token",
            "https://user:password@registry.test/",
            "file:///etc/passwd",
            "/token",
            "",
        ] {
            assert!(address("registry.test").realm(realm).is_err(), "{realm}");
        }
        assert!(
            address("localhost:1")
                .realm("http://registry.test/")
                .is_err()
        );
    }
}
