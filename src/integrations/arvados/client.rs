//! Client of the API server, with the system's token or a user's token. The two are different
//! types: a [`UserClient`] can read only what its user may read.

use std::sync::Arc;

use http::{Request, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::json;
use url::Url;

use super::{
    ArvadosSettings,
    records::{ContainerRecord, LinkRecord, ListPage, RequestRecord, UserRecord},
};
use crate::{
    model::{error_cause::chain_text, secret::Secret, uuid::Uuid},
    ops::http_client::{CallCounter, HttpClient},
    ops::tls_client::NoCertificate,
};

/// Largest page the API gives.
const PAGE: u64 = 1000;
/// Containers in one page. Their authors decide how long the published ports are, and a page must
/// stay below the response size limit.
const PORTS_PAGE: u64 = 200;
/// Maximum number of pages read from a list.
const MAX_PAGES: u64 = 500;

/// Why the API returned no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// There is no such record, or this token may not read it.
    #[error("no such record")]
    NotFound,
    /// The token is not valid.
    #[error("the token is not valid")]
    BadToken,
    /// No response, or an invalid one; a retry may succeed.
    #[error("the API server gave no answer: {0}")]
    Unavailable(String),
}

/// The API server.
#[derive(Clone, Debug)]
pub struct Api {
    base: Url,
    /// Two clients, so that users' calls never use up the permits of the system's calls.
    system: Arc<HttpClient>,
    people: Arc<HttpClient>,
}

impl Api {
    /// A client without a token; [`Api::as_system`] and [`Api::as_user`] add one.
    ///
    /// # Errors
    /// When the CA file holds no certificate.
    pub fn new(settings: &ArvadosSettings, calls: CallCounter) -> Result<Api, NoCertificate> {
        let client = || HttpClient::new(settings.ca.as_deref(), calls.clone()).map(Arc::new);
        Ok(Api {
            base: settings.api.clone(),
            system: client()?,
            people: client()?,
        })
    }

    /// A client with the system's token, which may read everything.
    pub fn as_system(&self, settings: &ArvadosSettings) -> SystemClient {
        SystemClient {
            api: self.clone(),
            token: settings.root_token.clone(),
        }
    }

    /// A client with a user's token.
    pub fn as_user(&self, token: Secret) -> UserClient {
        UserClient {
            api: self.clone(),
            token,
        }
    }

    async fn get<T: DeserializeOwned>(
        &self,
        http: &HttpClient,
        endpoint: &'static str,
        path: &str,
        query: &[(&str, String)],
        token: &Secret,
    ) -> Result<T, ApiError> {
        let unavailable = |what: &dyn std::fmt::Display| ApiError::Unavailable(what.to_string());
        let mut url = self
            .base
            .join(&format!("/arvados/v1/{path}"))
            .map_err(|error| unavailable(&error))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = Request::get(url.as_str())
            .header(header::AUTHORIZATION, format!("Bearer {}", token.expose()))
            .header(header::ACCEPT, "application/json")
            .body(Vec::new())
            // A token that is not a valid header value was never issued.
            .map_err(|_| ApiError::BadToken)?;
        let response = http.call(endpoint, request).await;
        let response = response.map_err(|error| ApiError::Unavailable(chain_text(&error)))?;
        match response.status() {
            StatusCode::OK => {
                serde_json::from_slice(response.body()).map_err(|error| unavailable(&error))
            }
            StatusCode::UNAUTHORIZED => Err(ApiError::BadToken),
            // A record that a token may not read counts as missing; some versions answer 403 for
            // it.
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => Err(ApiError::NotFound),
            status => Err(unavailable(&status)),
        }
    }
}

/// A client with the system's token.
#[derive(Clone, Debug)]
pub struct SystemClient {
    api: Api,
    token: Secret,
}

impl SystemClient {
    /// One container.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn container(&self, uuid: &Uuid) -> Result<ContainerRecord, ApiError> {
        // Only these fields: a whole record can hold megabytes of the author's input.
        let query = [(
            "select",
            json!(["uuid", "state", "gateway_address", "published_ports"]).to_string(),
        )];
        self.get("containers", &format!("containers/{uuid}"), &query)
            .await
    }

    /// One container request.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn container_request(&self, uuid: &Uuid) -> Result<RequestRecord, ApiError> {
        let query = [("select", json!(["uuid", "container_uuid"]).to_string())];
        self.get(
            "container_requests",
            &format!("container_requests/{uuid}"),
            &query,
        )
        .await
    }

    /// The users who submitted the requests that a container carries out, one entry per request. If
    /// there are more requests than fit in a page, a final `None` stands for the rest.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn submitters(&self, container: &Uuid) -> Result<Vec<Option<String>>, ApiError> {
        let query = [
            (
                "filters",
                json!([["container_uuid", "=", container.as_str()]]).to_string(),
            ),
            (
                "select",
                json!(["uuid", "container_uuid", "modified_by_user_uuid"]).to_string(),
            ),
            ("limit", PAGE.to_string()),
        ];
        let page: ListPage<RequestRecord> = self
            .get("container_requests", "container_requests", &query)
            .await?;
        let all = page.items_available.unwrap_or(page.items.len() as u64);
        let more = all > page.items.len() as u64;
        let listed = page
            .items
            .into_iter()
            .map(|request| request.modified_by_user_uuid);
        Ok(listed.chain(more.then_some(None)).collect())
    }

    /// The container or request behind a registered name, and the port; [`ApiError::NotFound`] also
    /// if the name is registered twice.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn published_name(&self, name: &str) -> Result<(Uuid, u16), ApiError> {
        let query = [
            (
                "filters",
                json!([["link_class", "=", "published_port"], ["name", "=", name]]).to_string(),
            ),
            ("limit", "2".to_owned()),
        ];
        let page: ListPage<LinkRecord> = self.get("links", "links", &query).await?;
        match page.items.as_slice() {
            [link] => link.target().ok_or(ApiError::NotFound),
            [] | [..] => Err(ApiError::NotFound),
        }
    }

    /// Every running container with its published ports.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn running(&self) -> Result<Vec<ContainerRecord>, ApiError> {
        let mut all: Vec<ContainerRecord> = Vec::new();
        for _ in 0..MAX_PAGES {
            // Pages continue after the last uuid, not at an offset: containers start and end while
            // pages are read.
            let filters = match all.last() {
                None => json!([["state", "=", "Running"]]),
                Some(last) => json!([["state", "=", "Running"], ["uuid", ">", last.uuid]]),
            };
            let query = [
                ("filters", filters.to_string()),
                (
                    "select",
                    json!(["uuid", "state", "published_ports"]).to_string(),
                ),
                ("order", json!(["uuid asc"]).to_string()),
                ("limit", PORTS_PAGE.to_string()),
                ("count", "none".to_owned()),
            ];
            let page: ListPage<ContainerRecord> =
                self.get("containers", "containers", &query).await?;
            let listed = page.items.len() as u64;
            all.extend(page.items);
            if listed < PORTS_PAGE {
                break;
            }
        }
        Ok(all)
    }

    async fn get<T: DeserializeOwned>(
        &self,
        endpoint: &'static str,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, ApiError> {
        self.api
            .get(&self.api.system, endpoint, path, query, &self.token)
            .await
            .map_err(|error| match error {
                // Our own token, not a user's: the operator must correct the configuration.
                ApiError::BadToken => {
                    tracing::error!("the Arvados API server refuses arvados.root_token_file");
                    ApiError::Unavailable("our own token is refused".into())
                }
                ApiError::NotFound | ApiError::Unavailable(_) => error,
            })
    }
}

/// A client with a user's token.
#[derive(Clone, Debug)]
pub struct UserClient {
    api: Api,
    token: Secret,
}

impl UserClient {
    /// The user that the token belongs to.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn current(&self) -> Result<UserRecord, ApiError> {
        self.api
            .get(&self.api.people, "users", "users/current", &[], &self.token)
            .await
    }

    /// Whether the user may read a container's record.
    ///
    /// # Errors
    /// See [`ApiError`]; a missing permission is no error.
    pub async fn can_read(&self, container: &Uuid) -> Result<bool, ApiError> {
        let query = [("select", json!(["uuid"]).to_string())];
        let path = format!("containers/{container}");
        let http = &self.api.people;
        match self
            .api
            .get::<serde_json::Value>(http, "containers", &path, &query, &self.token)
            .await
        {
            Ok(_) => Ok(true),
            Err(ApiError::NotFound | ApiError::BadToken) => Ok(false),
            Err(error @ ApiError::Unavailable(_)) => Err(error),
        }
    }
}
