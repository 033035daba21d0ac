//! The API server, asked as the system or as one person. The two are different types: who holds a
//! [`UserClient`] cannot see more than that person may.

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
    model::{secret::Secret, uuid::Uuid},
    ops::http_client::{CallCounter, HttpClient, chain},
    ops::tls_client::NoCertificate,
};

/// Largest page the API gives.
const PAGE: u64 = 1000;
/// Containers in one page: what they publish is written by people, and a page must stay below the
/// bound of an answer.
const PORTS_PAGE: u64 = 200;
/// Pages of a list that are read at most.
const MAX_PAGES: u64 = 500;

/// Why the API gave no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// There is none, or this token may not see it.
    #[error("no such record")]
    NotFound,
    /// The token is not valid.
    #[error("the token is not valid")]
    BadToken,
    /// No answer, or none that makes sense; worth asking again.
    #[error("the API server gave no answer: {0}")]
    Unavailable(String),
}

/// The API server.
#[derive(Clone, Debug)]
pub struct Api {
    base: Url,
    /// People's calls never take the turns of the system's.
    system: Arc<HttpClient>,
    people: Arc<HttpClient>,
}

impl Api {
    /// A client of nobody in particular yet.
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

    /// The API as the system sees it: everything.
    pub fn as_system(&self, settings: &ArvadosSettings) -> SystemClient {
        SystemClient {
            api: self.clone(),
            token: settings.root_token.clone(),
        }
    }

    /// The API as one person sees it.
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
            // A token that cannot stand in a header was never given out by anybody.
            .map_err(|_| ApiError::BadToken)?;
        let response = http.call(endpoint, request).await;
        let response = response.map_err(|error| ApiError::Unavailable(chain(&error)))?;
        match response.status() {
            StatusCode::OK => {
                serde_json::from_slice(response.body()).map_err(|error| unavailable(&error))
            }
            StatusCode::UNAUTHORIZED => Err(ApiError::BadToken),
            // What a token may not see does not exist for it; some versions say so with 403.
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => Err(ApiError::NotFound),
            status => Err(unavailable(&status)),
        }
    }
}

/// The API as the system sees it.
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
        // A record as a whole can hold megabytes of what its author gave the container.
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

    /// Who submitted the requests that a container carries out, one entry a request; where there
    /// are too many to list, one entry of nobody more.
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

    /// What a registered name leads to; [`ApiError::NotFound`] also for a name that leads to two
    /// things.
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

    /// Every running container with what it publishes.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn running(&self) -> Result<Vec<ContainerRecord>, ApiError> {
        let mut all: Vec<ContainerRecord> = Vec::new();
        for _ in 0..MAX_PAGES {
            // By what comes after the last one, not by its place: some start and end while pages
            // are read.
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
                // Our own token, not a person's: somebody has to look at the configuration.
                ApiError::BadToken => {
                    tracing::error!("the Arvados API server refuses arvados.root_token_file");
                    ApiError::Unavailable("our own token is refused".into())
                }
                ApiError::NotFound | ApiError::Unavailable(_) => error,
            })
    }
}

/// The API as one person sees it.
#[derive(Clone, Debug)]
pub struct UserClient {
    api: Api,
    token: Secret,
}

impl UserClient {
    /// Whose token it is.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn current(&self) -> Result<UserRecord, ApiError> {
        self.api
            .get(&self.api.people, "users", "users/current", &[], &self.token)
            .await
    }

    /// Whether the person may read a container's record.
    ///
    /// # Errors
    /// See [`ApiError`]; not being allowed is none.
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
