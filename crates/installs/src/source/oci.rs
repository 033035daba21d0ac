//! Charts from OCI registries, by the API of the OCI distribution specification.

mod manifest;
mod reference;
mod token;

use http::{
    StatusCode,
    header::{LINK, WWW_AUTHENTICATE},
};
use ludgate_ops::auth_challenge::{self, AuthChallenge};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::Url;

use self::reference::OciReference;
use super::{
    checksum::sha256_hex,
    credentials::HelmLogin,
    error::SourceError,
    http::{Authorization, GetRequest, HttpAnswer, HttpSource},
    version::WantedVersion,
};

/// Largest manifest, in bytes: the specification asks registries to accept no larger ones.
const MAX_MANIFEST: usize = 4 << 20;
/// Largest page of tags and largest token, in bytes.
const MAX_JSON: usize = 4 << 20;
/// Maximum number of pages of tags.
const MAX_PAGES: usize = 50;
/// Manifests of OCI and of Docker.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";
const CONTENT_DIGEST: &str = "docker-content-digest";

/// One repository of a registry.
#[derive(Debug)]
pub(crate) struct OciRepository<'s> {
    http: &'s HttpSource<'s>,
    reference: OciReference,
    login: &'s HelmLogin,
    /// The last one that the registry asked for.
    authorization: Mutex<Option<Authorization>>,
}

#[derive(Deserialize)]
struct TagPage {
    tags: Option<Vec<String>>,
}

impl<'s> OciRepository<'s> {
    /// The repository of a chart below an `oci://` URL.
    ///
    /// # Errors
    /// Permanent, if the URL or the credentials cannot be used.
    pub(crate) fn new(
        http: &'s HttpSource<'s>,
        url: &str,
        chart: &str,
        plain_http: bool,
        login: &'s HelmLogin,
    ) -> Result<OciRepository<'s>, SourceError> {
        let reference = OciReference::parse(url, chart, plain_http)?;
        // Credentials that cannot be used are refused, also if the registry does not ask for them.
        login.authorization(&reference.host)?;
        Ok(OciRepository {
            http,
            reference,
            login,
            authorization: Mutex::default(),
        })
    }

    /// The archive of a chart. The digests of its manifest and of its bytes are checked.
    ///
    /// # Errors
    /// Permanent if there is no such version, or a digest differs.
    pub(crate) async fn fetch(&self, wanted: &WantedVersion) -> Result<Vec<u8>, SourceError> {
        let tag = self.tag(wanted).await?;
        let url = self.reference.url(&format!("manifests/{tag}"));
        let manifest = self.get(&url, MANIFESTS, MAX_MANIFEST).await?;
        check_content_digest(&manifest)?;
        let limit = self.http.settings.limits.packed_bytes;
        let layer = manifest::archive_layer(&manifest.body, limit)?;
        let url = self.reference.url(&format!("blobs/{}", layer.digest));
        let archive = self.get(&url, "*/*", limit).await?.body;
        let found = format!("sha256:{}", sha256_hex(&archive));
        if found != layer.digest || archive.len() as u64 != layer.size {
            return Err(SourceError::permanent(
                "the chart's archive has another digest than the registry's manifest says",
            ));
        }
        Ok(archive)
    }

    /// The tag of a version. A `+` of a version is a `_` in a tag.
    async fn tag(&self, wanted: &WantedVersion) -> Result<String, SourceError> {
        if let WantedVersion::Exact(version) = wanted {
            return Ok(version.to_string().replace('+', "_"));
        }
        let tags = self.tags().await?;
        let versions: Vec<String> = tags.iter().map(|tag| tag.replace('_', "+")).collect();
        let chosen = wanted.choose(versions.iter().map(String::as_str));
        let chosen = chosen.ok_or_else(|| {
            SourceError::permanent(format!("the registry does not have {wanted} of the chart"))
        })?;
        Ok(chosen.replace('+', "_"))
    }

    async fn tags(&self) -> Result<Vec<String>, SourceError> {
        let mut url = self.reference.url("tags/list");
        url.set_query(Some("n=1000"));
        let mut tags = Vec::new();
        for _ in 0..MAX_PAGES {
            let answer = self.get(&url, "application/json", MAX_JSON).await?;
            let page: TagPage = serde_json::from_slice(&answer.body)
                .map_err(|_| SourceError::permanent("the registry's tags are not as expected"))?;
            tags.extend(page.tags.unwrap_or_default());
            let links = answer.headers.get_all(LINK).into_iter();
            let mut links = links.filter_map(|link| link.to_str().ok());
            match links.find_map(reference::next_link) {
                Some(link) => url = self.reference.next_page(&url, link)?,
                None => return Ok(tags),
            }
        }
        Err(SourceError::permanent(
            "the registry's list of tags has too many pages",
        ))
    }

    /// One call, with the last authorization; if the registry refuses it, with a new one.
    async fn get(
        &self,
        url: &Url,
        accept: &'static str,
        max_bytes: usize,
    ) -> Result<HttpAnswer, SourceError> {
        let stored = self.authorization.lock().await.clone();
        let answer = self.send(url, accept, max_bytes, stored.as_ref()).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return answer.successful(url);
        }
        let Some(authorization) = self.authorize(&answer).await? else {
            return answer.successful(url);
        };
        *self.authorization.lock().await = Some(authorization.clone());
        let answer = self
            .send(url, accept, max_bytes, Some(&authorization))
            .await?;
        answer.successful(url)
    }

    async fn send(
        &self,
        url: &Url,
        accept: &'static str,
        max_bytes: usize,
        authorization: Option<&Authorization>,
    ) -> Result<HttpAnswer, SourceError> {
        let request = GetRequest {
            url: url.clone(),
            accept,
            authorization,
            max_bytes,
        };
        self.http.get(request).await
    }

    /// What the registry asks for: a token, or user and password. `None`: there are no credentials.
    async fn authorize(&self, refusal: &HttpAnswer) -> Result<Option<Authorization>, SourceError> {
        let headers = refusal.headers.get_all(WWW_AUTHENTICATE).into_iter();
        let texts = headers.filter_map(|header| header.to_str().ok());
        let challenges: Vec<AuthChallenge> = texts.flat_map(auth_challenge::parse).collect();
        let with_scheme = |scheme: &str| challenges.iter().find(|it| it.scheme == scheme);
        let header = match (with_scheme("bearer"), with_scheme("basic")) {
            (Some(challenge), _) => Some(self.token(challenge).await?),
            (None, Some(_)) => self.login.authorization(&self.reference.host)?,
            (None, None) => None,
        };
        Ok(header.map(|header| self.for_registry(header)))
    }

    /// Asks the token server. Without credentials the token is that of an anonymous caller.
    async fn token(&self, challenge: &AuthChallenge) -> Result<http::HeaderValue, SourceError> {
        let repository = &self.reference.repository;
        let rules = &self.http.settings.hosts;
        let url = token::token_url(&self.reference.root, repository, challenge, rules)?;
        let header = self.login.authorization(&self.reference.host)?;
        let authorization = header.map(|header| Authorization {
            origin: url.origin(),
            header,
        });
        let sent = self.send(&url, "application/json", MAX_JSON, authorization.as_ref());
        token::parse(&sent.await?.successful(&url)?.body)
    }

    fn for_registry(&self, header: http::HeaderValue) -> Authorization {
        Authorization {
            origin: self.reference.root.origin(),
            header,
        }
    }
}

/// The digest that a registry tells must be that of the bytes, if it is a SHA-256.
fn check_content_digest(answer: &HttpAnswer) -> Result<(), SourceError> {
    let told = answer.headers.get(CONTENT_DIGEST);
    let told = told
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let computed = format!("sha256:{}", sha256_hex(&answer.body));
    if told.starts_with("sha256:") && told != computed {
        return Err(SourceError::permanent(
            "the registry's manifest has another digest than the registry says",
        ));
    }
    Ok(())
}
