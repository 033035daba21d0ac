//! The routes of file servers, and of the pod for administrators of file systems. Only the dialect
//! of Nublado has them.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use http::StatusCode;
use ludgate_model::path_prefix::below;
use serde_json::{Value, json};

use super::{
    extract::{Identified, NamedPerson},
    failure::LabFailure,
    request_body::read_json,
    state::{Answer, Routes, Shared, json_answer},
};
use crate::{
    config::LabsConfig,
    error::{BodyProblem, LabError},
    form::file_server_page,
    service::{
        callers::LabScope,
        file_servers::{FileServerOperations, FilesystemAdminOperations},
    },
};

/// Path of file servers if they are not configured.
const DEFAULT_PREFIX: &str = "/files";

/// The routes. Those of what is not configured answer `not_supported`.
pub(super) fn file_routes(config: &LabsConfig) -> Router<Arc<Routes>> {
    let files = files_prefix(config);
    let api = |path: &str| format!("{}{path}", config.path_prefix);
    Router::new()
        .route(files, get(open))
        .route(&format!("{files}/"), get(open))
        // Until the server runs, its own paths lead here.
        .route(&format!("{files}/{{*path}}"), get(open))
        .route(&api("/fileserver/v1/users"), get(list))
        .route(
            &api("/fileserver/v1/users/{username}"),
            get(status).delete(delete),
        )
        .route(&api("/fileserver/v1/user-status"), get(own_status))
        .route(
            &api("/fsadmin/v1/service"),
            get(admin_status).post(start_admin).delete(stop_admin),
        )
}

fn files_prefix(config: &LabsConfig) -> &str {
    let servers = config.fileserver.as_ref();
    servers.map_or(DEFAULT_PREFIX, |servers| servers.path_prefix.as_str())
}

/// Whether a request is one of these routes.
pub(super) fn is_of_files(path: &str, config: &LabsConfig) -> bool {
    let is_below = |path: &str, prefix: &str| below(path, prefix).is_some();
    let api = path.strip_prefix(config.path_prefix.as_str());
    let of_api = |path: &str| is_below(path, "/fileserver/v1") || is_below(path, "/fsadmin/v1");
    is_below(path, files_prefix(config)) || api.is_some_and(of_api)
}

fn servers(routes: &Routes) -> Result<&dyn FileServerOperations, LabError> {
    let servers = routes.state.files.servers.as_deref();
    servers.ok_or_else(|| LabError::NotSupported("File servers are not configured".to_owned()))
}

fn admin(routes: &Routes) -> Result<&dyn FilesystemAdminOperations, LabError> {
    let admin = routes.state.files.admin.as_deref();
    let missing = "The file system admin instance is not configured";
    admin.ok_or_else(|| LabError::NotSupported(missing.to_owned()))
}

/// Makes sure that the caller's server runs, and says how to use it.
async fn open(State(routes): Shared, Identified(caller): Identified) -> Answer {
    caller.require(LabScope::Files)?;
    if caller.username.is_empty() {
        return Err(LabError::InvalidToken.into());
    }
    let (state, servers) = (&routes.state, servers(&routes)?);
    let caller = state.callers.complete(caller).await?;
    let no_identity = || LabError::NoPosixIdentity(caller.username.clone());
    let user = caller.user.as_ref().ok_or_else(no_identity)?;
    servers.create(user).await?;
    tracing::info!(target: "audit", event = "file_server_open", user = user.username);
    let (site, files) = (&state.config.base_url, files_prefix(&state.config));
    let url = format!("{}{files}/{}", site.trim_end_matches('/'), user.username);
    match file_server_page(&url) {
        Ok(page) => Ok(Html(page).into_response()),
        Err(error) => {
            tracing::error!(%error, "cannot render the page of a file server");
            Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response())
        }
    }
}

async fn list(State(routes): Shared, Identified(caller): Identified) -> Answer {
    caller.require(LabScope::Admin)?;
    Ok(json_answer(&json!(servers(&routes)?.running()?)))
}

async fn status(
    State(routes): Shared,
    Identified(caller): Identified,
    NamedPerson(username): NamedPerson,
) -> Answer {
    caller.require(LabScope::Admin)?;
    status_of(&routes, &username).map_err(LabFailure::in_path)
}

async fn own_status(State(routes): Shared, Identified(caller): Identified) -> Answer {
    caller.require(LabScope::Notebook)?;
    if caller.username.is_empty() {
        return Err(LabError::InvalidToken.into());
    }
    status_of(&routes, &caller.username).map_err(LabFailure::elsewhere)
}

fn status_of(routes: &Routes, username: &str) -> Result<Response, LabError> {
    match servers(routes)?.is_running(username)? {
        true => Ok(json_answer(&json!({ "running": true }))),
        false => Err(LabError::UnknownUser {
            username: username.to_owned(),
            is_in_path: false,
        }),
    }
}

async fn delete(
    State(routes): Shared,
    Identified(caller): Identified,
    NamedPerson(username): NamedPerson,
) -> Answer {
    caller.require(LabScope::Admin)?;
    let deleted = servers(&routes)?.delete(&username).await;
    deleted.map_err(LabFailure::in_path)?;
    tracing::info!(
        target: "audit",
        event = "file_server_delete",
        user = username,
        by = caller.username,
    );
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn admin_status(State(routes): Shared, Identified(caller): Identified) -> Answer {
    caller.require(LabScope::Admin)?;
    let started = admin(&routes)?.started_at()?;
    Ok(json_answer(&json!({ "start_time": started })))
}

async fn start_admin(
    State(routes): Shared,
    Identified(caller): Identified,
    request: Request,
) -> Answer {
    caller.require(LabScope::Admin)?;
    let admin = admin(&routes)?;
    check_start(&read_json(request.into_body()).await?)?;
    let started = admin.start().await?;
    tracing::info!(target: "audit", event = "fsadmin_start", by = caller.username);
    Ok(json_answer(&json!({ "start_time": started })))
}

/// The body has nothing to choose: it says that the pod is to start.
fn check_start(body: &Value) -> Result<(), LabError> {
    let problem = |field: &str, kind, message: &str| BodyProblem {
        location: vec!["body".to_owned(), field.to_owned()],
        kind,
        message: message.to_owned(),
    };
    let fields = body.as_object().into_iter().flatten();
    let mut problems: Vec<BodyProblem> = fields
        .filter(|(name, _)| *name != "start")
        .map(|(name, _)| problem(name, "extra_forbidden", "Extra inputs are not permitted"))
        .collect();
    match body.get("start") {
        Some(Value::Bool(true)) => {}
        Some(_) => problems.push(problem("start", "literal_error", "Input should be True")),
        None => problems.push(problem("start", "missing", "Field required")),
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(LabError::InvalidBody(problems)),
    }
}

async fn stop_admin(State(routes): Shared, Identified(caller): Identified) -> Answer {
    caller.require(LabScope::Admin)?;
    admin(&routes)?.stop().await?;
    tracing::info!(target: "audit", event = "fsadmin_stop", by = caller.username);
    Ok(StatusCode::NO_CONTENT.into_response())
}
