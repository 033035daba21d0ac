//! The client of a registry: tags and digests of one image, by the API of the OCI distribution
//! specification.
//!
//! A registry is not trusted with more than its own credentials: answers are bounded, redirects
//! are not followed, and pages and tokens come from servers that belong to it.

mod address;
mod credentials;
mod error;
mod token;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use aws_lc_rs::digest::{SHA256, digest};
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, LINK, USER_AGENT, WWW_AUTHENTICATE},
};
use ludgate_ops::{
    auth_challenge::{self, AuthChallenge},
    http_client::{CallCounter, CallLimits, HttpClient},
};
use serde::Deserialize;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::{
    config::{ImageSource, ImagesConfig},
    images::{RegistryImage, is_digest, is_tag},
};
use address::{RegistryAddress, next_link};
pub use credentials::CredentialsProblem;
use credentials::RegistryCredentials;
pub use error::RegistryError;
use token::Authorization;

/// Deadline of one call, and the largest page of tags.
const PAGE_LIMITS: CallLimits = CallLimits {
    deadline: Duration::from_secs(20),
    max_answer: 16 << 20,
};
/// The same for a manifest. The specification asks registries to accept no larger ones.
const MANIFEST_LIMITS: CallLimits = CallLimits {
    deadline: Duration::from_secs(10),
    max_answer: 4 << 20,
};
/// Deadline of a whole list of tags.
const LIST_DEADLINE: Duration = Duration::from_secs(120);
/// Tags that a page is asked to have. Registries may give fewer.
const PAGE: usize = 1000;
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 1000;
/// Maximum number of tags of a list.
const MAX_TAGS: usize = 100_000;
/// Indices before manifests: what a node pulls by its tag is the index, if there is one.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";
const CONTENT_DIGEST: &str = "docker-content-digest";

/// What a registry lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryListing {
    /// The tags.
    Tags(Vec<String>),
    /// Google's registry tells the digests with their tags.
    Images(Vec<RegistryImage>),
}

/// The registry of one image.
#[derive(Debug)]
pub struct ImageRegistry {
    client: HttpClient,
    address: RegistryAddress,
    /// File with the credentials. It is read for each new token, so it may change.
    credentials: Option<PathBuf>,
    /// Whether the registry is Google's.
    lists_digests: bool,
    authorization: Mutex<Option<Authorization>>,
}

/// One page of tags.
#[derive(Deserialize)]
struct TagPage {
    tags: Option<Vec<String>>,
    /// By digest. Only Google's registry has it.
    manifest: Option<BTreeMap<String, ListedManifest>>,
}

#[derive(Deserialize)]
struct ListedManifest {
    #[serde(default)]
    tag: Vec<String>,
}

/// A call that does not know its authorization yet.
struct RegistryCall<'c> {
    endpoint: &'static str,
    method: Method,
    url: &'c Url,
    accept: &'static str,
    limits: CallLimits,
}

impl ImageRegistry {
    /// The registry of the configured image; `ca` is a CA file instead of the system's CAs.
    ///
    /// # Errors
    /// When the address or the CA file cannot be used.
    pub fn new(
        config: &ImagesConfig,
        ca: Option<&[u8]>,
        calls: CallCounter,
    ) -> Result<ImageRegistry, RegistryError> {
        let source = &config.source;
        Ok(ImageRegistry {
            client: HttpClient::new(ca, calls)?,
            address: RegistryAddress::new(&source.registry(), &source.repository())?,
            credentials: config.credentials_path.as_ref().map(PathBuf::from),
            lists_digests: matches!(source, ImageSource::Google { .. }),
            authorization: Mutex::default(),
        })
    }

    /// All tags. Texts that cannot be tags or digests are left out.
    ///
    /// # Errors
    /// See [`RegistryError`]; also when there are more pages or tags than a limit, or none.
    pub async fn list(&self) -> Result<RegistryListing, RegistryError> {
        timeout(LIST_DEADLINE, self.all_pages())
            .await
            .unwrap_or(Err(RegistryError::Timeout))
    }

    async fn all_pages(&self) -> Result<RegistryListing, RegistryError> {
        let mut url = self.address.url("tags/list");
        url.set_query(Some(&format!("n={PAGE}")));
        let mut tags = BTreeSet::new();
        let mut images: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for _ in 0..MAX_PAGES {
            let response = self.page(&url).await?;
            let page: TagPage = serde_json::from_slice(response.body())
                .map_err(|_| RegistryError::Answer("a list of tags is not the expected JSON"))?;
            tags.extend(page.tags.into_iter().flatten().filter(|tag| is_tag(tag)));
            let listed = page.manifest.into_iter().flatten();
            for (digest, manifest) in listed.filter(|(digest, _)| is_digest(digest)) {
                let valid = manifest.tag.into_iter().filter(|tag| is_tag(tag));
                images.entry(digest).or_default().extend(valid);
            }
            if tags.len() > MAX_TAGS || images.len() > MAX_TAGS {
                return Err(RegistryError::Answer("it lists too many tags"));
            }
            match next_of(&response) {
                Some(link) => url = self.address.next_page(&url, link)?,
                None => return self.listing(tags, images),
            }
        }
        Err(RegistryError::Answer("its list of tags has too many pages"))
    }

    async fn page(&self, url: &Url) -> Result<Response<Vec<u8>>, RegistryError> {
        let call = RegistryCall {
            endpoint: "tags",
            method: Method::GET,
            url,
            accept: "application/json",
            limits: PAGE_LIMITS,
        };
        self.send(&call).await
    }

    fn listing(
        &self,
        tags: BTreeSet<String>,
        mut images: BTreeMap<String, Vec<String>>,
    ) -> Result<RegistryListing, RegistryError> {
        images.retain(|_, tags| !tags.is_empty());
        if self.lists_digests && !images.is_empty() {
            let images = images.into_iter();
            let images = images.map(|(digest, tags)| RegistryImage { digest, tags });
            return Ok(RegistryListing::Images(images.collect()));
        }
        match tags.is_empty() {
            // It would empty the menu of everybody.
            true => Err(RegistryError::Answer("it lists no tags")),
            false => Ok(RegistryListing::Tags(tags.into_iter().collect())),
        }
    }

    /// The digest of a tag.
    ///
    /// # Errors
    /// See [`RegistryError`]; [`RegistryError::NotFound`] if there is no such tag.
    pub async fn digest(&self, tag: &str) -> Result<String, RegistryError> {
        let url = self.address.url(&format!("manifests/{tag}"));
        let mut call = RegistryCall {
            endpoint: "digest",
            method: Method::HEAD,
            url: &url,
            accept: MANIFESTS,
            limits: MANIFEST_LIMITS,
        };
        match self.send(&call).await {
            Ok(response) => {
                if let Some(digest) = content_digest(&response)? {
                    return Ok(digest);
                }
            }
            // Not every registry answers HEAD.
            Err(RegistryError::Status(400 | 405 | 501)) => {}
            Err(error) => return Err(error),
        }
        call.method = Method::GET;
        let response = self.send(&call).await?;
        let computed = sha256(response.body());
        match content_digest(&response)? {
            Some(other) if other.starts_with("sha256:") && other != computed => Err(
                RegistryError::Answer("the digest of a manifest is not that of its bytes"),
            ),
            Some(digest) => Ok(digest),
            None => Ok(computed),
        }
    }

    /// One call, with the last authorization; if the registry refuses it, with a new one.
    async fn send(&self, call: &RegistryCall<'_>) -> Result<Response<Vec<u8>>, RegistryError> {
        let response = self.exchange(call, self.authorization()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return checked(response);
        }
        let authorization = self.authorize(&response).await?;
        let header = authorization.header.clone();
        *self.stored() = Some(authorization);
        let response = self.exchange(call, Some(header)).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            *self.stored() = None;
        }
        checked(response)
    }

    async fn exchange(
        &self,
        call: &RegistryCall<'_>,
        authorization: Option<HeaderValue>,
    ) -> Result<Response<Vec<u8>>, RegistryError> {
        let request = Request::builder()
            .method(call.method.clone())
            .uri(call.url.as_str())
            .header(USER_AGENT, "ludgate")
            .header(ACCEPT, call.accept);
        let request = match authorization {
            Some(header) => request.header(AUTHORIZATION, header),
            None => request,
        };
        let request = request
            .body(Vec::new())
            .map_err(|_| RegistryError::Address(call.url.to_string()))?;
        let call = self.client.call_within(call.endpoint, request, call.limits);
        Ok(call.await?)
    }

    fn stored(&self) -> std::sync::MutexGuard<'_, Option<Authorization>> {
        self.authorization
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn authorization(&self) -> Option<HeaderValue> {
        let stored = self.stored();
        let valid = stored.as_ref().filter(|stored| stored.is_valid());
        valid.map(|valid| valid.header.clone())
    }

    /// What the registry asks for: a token, or username and password.
    async fn authorize(&self, refusal: &Response<Vec<u8>>) -> Result<Authorization, RegistryError> {
        let headers = refusal.headers().get_all(WWW_AUTHENTICATE).into_iter();
        let texts = headers.filter_map(|header| header.to_str().ok());
        let challenges: Vec<AuthChallenge> = texts.flat_map(auth_challenge::parse).collect();
        let with_scheme = |scheme: &str| challenges.iter().find(|it| it.scheme == scheme);
        if let Some(challenge) = with_scheme("bearer") {
            return self.token(challenge).await;
        }
        if with_scheme("basic").is_none() {
            return Err(RegistryError::Challenge);
        }
        let credentials = self.credentials().await?;
        let header = credentials.basic(&self.address.host);
        Ok(Authorization {
            header: header.ok_or(RegistryError::Refused)?,
            until: None,
        })
    }

    /// Asks the token server. Without credentials the token is that of an anonymous caller.
    async fn token(&self, challenge: &AuthChallenge) -> Result<Authorization, RegistryError> {
        let realm = challenge.parameters.get("realm");
        let mut url = self.address.realm(realm.map_or("", String::as_str))?;
        let header = self.credentials_for(&url).await?;
        // Whatever the registry asks for, the token is for reading this image.
        let scope = format!("repository:{}:pull", self.address.repository);
        if let Some(service) = challenge.parameters.get("service") {
            url.query_pairs_mut().append_pair("service", service);
        }
        url.query_pairs_mut().append_pair("scope", &scope);
        let call = RegistryCall {
            endpoint: "token",
            method: Method::GET,
            url: &url,
            accept: "application/json",
            limits: CallLimits::default(),
        };
        let asked = Instant::now();
        let response = self.exchange(&call, header).await?;
        match response.status() {
            status if status.is_success() => token::parse(response.body(), asked),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(RegistryError::Refused),
            status if status.is_redirection() => Err(RegistryError::Redirect),
            status => Err(RegistryError::Token(format!("HTTP status {status}"))),
        }
    }

    /// The header for a token server: the registry's credentials if it belongs to the registry,
    /// else those that the file has for this server itself.
    async fn credentials_for(&self, realm: &Url) -> Result<Option<HeaderValue>, RegistryError> {
        let credentials = self.credentials().await?;
        let own = credentials.basic(&self.address.host);
        if self.address.is_same_owner(realm) {
            return Ok(own);
        }
        let host = match (realm.host_str().unwrap_or_default(), realm.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        match (credentials.basic(&host), own) {
            (Some(header), _) => Ok(Some(header)),
            (None, Some(_)) => Err(RegistryError::Realm(host)),
            (None, None) => Ok(None),
        }
    }

    async fn credentials(&self) -> Result<RegistryCredentials, RegistryError> {
        let Some(path) = self.credentials.clone() else {
            return Ok(RegistryCredentials::default());
        };
        let read = tokio::task::spawn_blocking(move || RegistryCredentials::load(&path)).await;
        // The task ends without a result only with the process.
        Ok(read.map_err(|_| RegistryError::Refused)??)
    }
}

fn checked(response: Response<Vec<u8>>) -> Result<Response<Vec<u8>>, RegistryError> {
    match response.status() {
        status if status.is_success() => Ok(response),
        status if status.is_redirection() => Err(RegistryError::Redirect),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(RegistryError::Refused),
        StatusCode::NOT_FOUND => Err(RegistryError::NotFound),
        status => Err(RegistryError::Status(status.as_u16())),
    }
}

fn next_of(response: &Response<Vec<u8>>) -> Option<&str> {
    let headers = response.headers().get_all(LINK).into_iter();
    let mut texts = headers.filter_map(|header| header.to_str().ok());
    texts.find_map(next_link)
}

/// The digest that a registry tells; `None`: it tells none.
fn content_digest(response: &Response<Vec<u8>>) -> Result<Option<String>, RegistryError> {
    let Some(header) = response.headers().get(CONTENT_DIGEST) else {
        return Ok(None);
    };
    let text = header.to_str().ok().filter(|text| is_digest(text));
    let invalid = RegistryError::Answer("it tells a digest that is none");
    text.map(|text| Some(text.to_owned())).ok_or(invalid)
}

fn sha256(bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    let hex = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("sha256:{}", hex.collect::<String>())
}

#[cfg(test)]
mod tests;
