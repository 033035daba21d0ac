//! A URL that describes the owner of a token: UID, GID, groups with ids, quota.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::digest;
use http::{HeaderValue, Request, StatusCode, Uri, header};
use ludgate_model::{error_cause::chain_text, secret::Secret};
use ludgate_ops::http_client::HttpClient;
use moka::future::Cache;
use serde_json::{Map, Value};

use crate::error::LabError;

/// How long an answer is used. Changes of groups and quotas take effect after this time.
const REMEMBERED: Duration = Duration::from_secs(300);
/// Answers in the cache.
const MAX_REMEMBERED: u64 = 10_000;

/// Descriptions of tokens' owners. Requests for one token share a call.
pub(super) struct UserInfo {
    url: Uri,
    http: Arc<HttpClient>,
    /// By the SHA-256 of the token.
    cache: Cache<[u8; 32], Arc<Map<String, Value>>>,
}

impl UserInfo {
    /// The descriptions of a URL.
    pub(super) fn new(url: Uri, http: Arc<HttpClient>) -> UserInfo {
        let cache = Cache::builder()
            .max_capacity(MAX_REMEMBERED)
            .time_to_live(REMEMBERED);
        UserInfo {
            url,
            http,
            cache: cache.build(),
        }
    }

    /// The description of the token's owner.
    ///
    /// # Errors
    /// [`LabError::InvalidToken`] if the URL refuses the token, else [`LabError::Unavailable`].
    pub(super) async fn fetch(&self, token: &Secret) -> Result<Arc<Map<String, Value>>, LabError> {
        let mut key = [0; 32];
        let hash = digest::digest(&digest::SHA256, token.expose().as_bytes());
        key.copy_from_slice(hash.as_ref());
        let fetched = self.cache.try_get_with(key, self.call(token)).await;
        fetched.map_err(|error| (*error).clone())
    }

    async fn call(&self, token: &Secret) -> Result<Arc<Map<String, Value>>, LabError> {
        let authorization = format!("Bearer {}", token.expose());
        let mut authorization =
            HeaderValue::try_from(authorization).map_err(|_| LabError::InvalidToken)?;
        authorization.set_sensitive(true);
        let request = Request::get(self.url.clone())
            .header(header::AUTHORIZATION, authorization)
            .header(header::ACCEPT, "application/json")
            .body(Vec::new());
        let request = request.map_err(|_| LabError::InvalidToken)?;
        let answer = self
            .http
            .call("user_info", request)
            .await
            .map_err(|error| {
                tracing::warn!(error = chain_text(&error), "cannot ask the user-info URL");
                unavailable()
            })?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(LabError::InvalidToken),
            status => {
                tracing::warn!(%status, "the user-info URL does not answer");
                return Err(unavailable());
            }
        }
        let described = serde_json::from_slice(answer.body()).map_err(|error| {
            tracing::warn!(%error, "the answer of the user-info URL is no JSON object");
            unavailable()
        })?;
        Ok(Arc::new(described))
    }
}

fn unavailable() -> LabError {
    LabError::Unavailable("the description of the user is not available".to_owned())
}
