//! The routes of both dialects.
//!
//! Each handler checks the caller's scope before it reads a body or calls the service.
//! Reads of labs cost no call to the cluster.

mod extract;
mod failure;
mod file_servers;
mod idempotency_key;
mod request_body;
mod state;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use chrono::Utc;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::json;

use super::{
    callers::{LabCaller, LabScope},
    metrics::{FILES, class},
    openapi, sse,
};
use crate::{
    dialect::Dialect, discovery::discovery_document, error::LabError, form::lab_form,
    options::LabSpecification,
};
pub use extract::PeerAddress;
use extract::{Identified, NamedPerson};
use failure::LabFailure;
use request_body::read_json;
use state::{Answer, Routes, Shared, json_answer};
pub use state::{LabsState, LabsUrls};

/// The routes. Requests must have a [`PeerAddress`] among their extensions.
pub fn router(state: LabsState) -> Router {
    let prefix = state.config.path_prefix.clone();
    let document = openapi::document(&state.config.path_prefix, state.dialect).to_string();
    let document = move || {
        let document = document.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], document) }
    };
    let routes = Arc::new(Routes { state });
    let files = match routes.state.dialect {
        Dialect::Nublado => file_servers::file_routes(&routes.state.config),
        Dialect::Sqr066 => Router::new(),
    };
    let path = |path: &str| format!("{prefix}{path}");
    let version = |path: &str| format!("{prefix}/spawner/v1/{path}");
    Router::new()
        .route("/", get(metadata))
        .route("/discovery", get(discovery))
        .route("/openapi.json", get(document.clone()))
        .route(&path(""), get(external_metadata))
        .route(&path("/discovery"), get(discovery))
        .route(&path("/openapi.json"), get(document))
        .route(&version("labs"), get(list_labs))
        .route(&version("labs/{username}"), get(get_lab).delete(delete_lab))
        .route(&version("labs/{username}/create"), post(create_lab))
        .route(&version("labs/{username}/events"), get(lab_events))
        .route(&version("lab-form/{username}"), get(form))
        .route(&version("user-status"), get(user_status))
        .route(&version("images"), get(images))
        .route(&version("prepulls"), get(prepulls))
        .merge(files)
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(routes.clone(), count))
        .with_state(routes)
}

async fn list_labs(State(routes): Shared, Identified(caller): Identified) -> Answer {
    caller.require(LabScope::Hub)?;
    let running = routes.state.service.running()?;
    Ok(json_answer(&json!(running)))
}

async fn get_lab(
    State(routes): Shared,
    Identified(caller): Identified,
    NamedPerson(username): NamedPerson,
) -> Answer {
    caller.require(LabScope::Hub)?;
    routes.state.service.refresh(&username).await;
    routes.lab(&username).map_err(LabFailure::in_path)
}

async fn user_status(State(routes): Shared, Identified(caller): Identified) -> Answer {
    caller.require(LabScope::Notebook)?;
    if caller.username.is_empty() {
        return Err(LabError::InvalidToken.into());
    }
    routes.state.service.refresh(&caller.username).await;
    routes.lab(&caller.username).map_err(LabFailure::elsewhere)
}

async fn create_lab(
    State(routes): Shared,
    Identified(caller): Identified,
    NamedPerson(username): NamedPerson,
    request: Request,
) -> Answer {
    caller.require(LabScope::Notebook)?;
    let state = &routes.state;
    // An invalid token is an error of its own, of whatever person the path is.
    let caller = state.callers.complete(caller).await?;
    caller.require_person(&username)?;
    let key = idempotency_key::idempotency_key(request.headers())?;
    let body = read_json(request.into_body()).await?;
    let specification = LabSpecification::parse(&body, state.dialect)?;
    let service = &state.service;
    service
        .create(&caller, specification, key.as_deref())
        .await?;
    tracing::info!(target: "audit", event = "lab_create", user = username);
    let url = state.urls.api(&state.config);
    let location = format!("{url}/spawner/v1/labs/{username}");
    let status = match state.dialect {
        Dialect::Sqr066 => StatusCode::SEE_OTHER,
        Dialect::Nublado => StatusCode::CREATED,
    };
    Ok((status, [(header::LOCATION, location)]).into_response())
}

async fn delete_lab(
    State(routes): Shared,
    Identified(caller): Identified,
    NamedPerson(username): NamedPerson,
    headers: HeaderMap,
) -> Answer {
    caller.require(LabScope::Hub)?;
    let state = &routes.state;
    let deletion = state.service.delete(&username).await;
    let deletion = deletion.map_err(LabFailure::in_path)?;
    tracing::info!(target: "audit", event = "lab_delete", user = username, by = caller.username);
    let prefers_async = prefers_async(&headers);
    let responds_now = prefers_async || state.dialect == Dialect::Sqr066;
    if !responds_now {
        deletion.await?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let mut answer = StatusCode::ACCEPTED.into_response();
    if prefers_async {
        let applied = HeaderValue::from_static("respond-async");
        answer.headers_mut().insert("preference-applied", applied);
    }
    Ok(answer)
}

/// Whether the client wants the answer before the end of the operation (RFC 7240 section 4.1).
fn prefers_async(headers: &HeaderMap) -> bool {
    let lines = headers.get_all("prefer").iter();
    let mut preferences = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    preferences.any(|preference| {
        let name = preference.split(';').next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case("respond-async")
    })
}

async fn lab_events(
    State(routes): Shared,
    Identified(caller): Identified,
    NamedPerson(username): NamedPerson,
    headers: HeaderMap,
) -> Answer {
    caller.require_person(&username)?;
    let state = &routes.state;
    let last = sse::last_event_id(&headers);
    state.service.refresh(&username).await;
    let events = state.service.events(&username, last);
    Ok(sse::event_stream(
        events.map_err(LabFailure::in_path)?,
        last.is_some(),
        state.dialect,
        state.drain.clone(),
        state.metrics.listen(),
    ))
}

async fn form(
    State(routes): Shared,
    Identified(caller): Identified,
    NamedPerson(username): NamedPerson,
) -> Answer {
    caller.require(LabScope::Notebook)?;
    let state = &routes.state;
    let caller = state.callers.complete(caller).await?;
    caller.require_person(&username)?;
    let catalog = (state.catalog)();
    let menus = catalog.menus(&state.config.dropdown_menu, Utc::now());
    let quota = caller.user.as_ref().and_then(|user| user.quota.as_ref());
    match lab_form(&menus, &state.config.lab, quota) {
        Ok(form) => Ok(Html(form).into_response()),
        Err(error) => {
            tracing::error!(%error, "cannot render the form");
            Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response())
        }
    }
}

async fn images(State(routes): Shared, Identified(caller): Identified) -> Answer {
    let state = &routes.state;
    require_reader(&caller, state.dialect)?;
    let images = (state.catalog)().spawner_images();
    Ok(json_answer(&images.to_json(state.dialect)))
}

async fn prepulls(State(routes): Shared, Identified(caller): Identified) -> Answer {
    let state = &routes.state;
    require_reader(&caller, state.dialect)?;
    let prepulls = (state.catalog)().prepull_answer();
    let images = &state.config.images;
    Ok(json_answer(&prepulls.to_json(images, state.dialect)))
}

/// The document lets hubs read images and prepulls, Nublado lets administrators.
fn require_reader(caller: &LabCaller, dialect: Dialect) -> Result<(), LabError> {
    caller.require(match dialect {
        Dialect::Sqr066 => LabScope::Hub,
        Dialect::Nublado => LabScope::Admin,
    })
}

async fn discovery(State(routes): Shared) -> Response {
    let state = &routes.state;
    let url = state.urls.api(&state.config);
    json_answer(&discovery_document(&url, &state.urls.sign_out))
}

async fn metadata(State(routes): Shared) -> Response {
    json_answer(&routes.metadata())
}

async fn external_metadata(State(routes): Shared) -> Response {
    json_answer(&json!({ "metadata": routes.metadata() }))
}

async fn not_found() -> Response {
    let body = json!({ "detail": "Not Found" });
    (StatusCode::NOT_FOUND, json_answer(&body)).into_response()
}

async fn not_allowed() -> Response {
    let body = json!({ "detail": "Method Not Allowed" });
    (StatusCode::METHOD_NOT_ALLOWED, json_answer(&body)).into_response()
}

async fn count(State(routes): Shared, request: Request, next: Next) -> Response {
    let guard = routes.state.metrics.begin();
    let path = request.uri().path();
    let below = path.strip_prefix(routes.state.config.path_prefix.as_str());
    let below = below.and_then(|path| path.strip_prefix("/spawner/v1"));
    let class = match file_servers::is_of_files(path, &routes.state.config) {
        true => FILES,
        false => class(request.method(), below.unwrap_or_default()),
    };
    let response = next.run(request).await;
    guard.finish(class, response.status().as_u16());
    response
}

#[cfg(test)]
mod tests;
