//! `POST /api/graphql`. Every answer is JSON with `data`, `errors` or both; the HTTP status repeats
//! what went wrong before the operation began.

use std::{sync::Arc, time::Duration};

use async_graphql::{Response as GraphqlResponse, ServerError};
use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    authentication::AuthenticationError,
    error::OperationError,
    graphql_request,
    response_order::{root_keys, sort_root},
    schema::CallContext,
    state::{ApiState, CALL_DEADLINE},
};

/// How long the rest of a body is read after the answer.
const DISCARD_DEADLINE: Duration = Duration::from_secs(5);
/// Largest body, in bytes: the largest environment and a long document.
const MAX_BODY: usize = 512 * 1024;

/// Answers a call.
pub(crate) async fn graphql(State(server): State<Arc<ApiState>>, request: Request) -> Response {
    let (parts, mut body) = request.into_parts();
    let executing = execute(&server, &parts.headers, &mut body);
    let answered = timeout(CALL_DEADLINE, executing).await;
    if !body.is_end_stream() {
        tokio::spawn(discard(body));
    }
    answered.unwrap_or_else(|_| {
        let error =
            OperationError::Unavailable("no answer in time; a change may have taken effect".into());
        refuse(
            StatusCode::GATEWAY_TIMEOUT,
            &error.to_string(),
            error.code(),
        )
    })
}

/// What is no POST.
pub(crate) async fn not_allowed() -> Response {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let mut response = refuse(status, "use POST", "REQUEST_BODY_INVALID");
    let allow = HeaderValue::from_static("POST");
    response.headers_mut().insert(header::ALLOW, allow);
    response
}

/// Reads what a client still sends. Closing the connection with unread bytes would reset it, and
/// the client could lose the answer.
pub(crate) async fn discard(mut body: Body) {
    let reading = async { while let Some(Ok(_)) = body.frame().await {} };
    // A client that sends more than that is cut off.
    let _ = timeout(DISCARD_DEADLINE, reading).await;
}

async fn execute(server: &ApiState, headers: &HeaderMap, body: &mut Body) -> Response {
    let person = match server.authentication.identify(headers).await {
        Ok(person) => person,
        Err(error) => return unauthenticated(&error),
    };
    let bytes = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => {
            let text = format!(
                "the body is incomplete, or larger than {} KiB",
                MAX_BODY / 1024
            );
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, &text, "REQUEST_BODY_INVALID");
        }
    };
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut request = match graphql_request::parse(kind, &bytes) {
        Ok(request) => request,
        Err(error) => {
            let status = match error {
                graphql_request::BadBody::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
                graphql_request::BadBody::Syntax(_) => StatusCode::BAD_REQUEST,
            };
            return refuse(status, &error.to_string(), "REQUEST_BODY_INVALID");
        }
    };
    let operation = request.operation_name.clone();
    // A document that cannot be parsed has no keys; `execute` reports its errors.
    let keys = match request.parsed_query() {
        Ok(document) => root_keys(document, operation.as_deref()),
        Err(_) => Vec::new(),
    };
    let call = CallContext::new(person, server.operations.clone());
    let mut response = server.schema.execute(request.data(call)).await;
    sort_root(&mut response.data, &keys);
    add_codes(&mut response);
    let (status, body) = match serde_json::to_vec(&response) {
        Ok(body) => (StatusCode::OK, body),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, Vec::new()),
    };
    json_response(status, body)
}

/// Gives each error its code. Those without a cause of ours come from the document itself.
fn add_codes(response: &mut GraphqlResponse) {
    let code = |error: &ServerError| match error.source::<OperationError>() {
        Some(cause) => cause.code(),
        None => "GRAPHQL_VALIDATION_FAILED",
    };
    for error in &mut response.errors {
        let code = code(error);
        let extensions = error.extensions.get_or_insert_default();
        extensions.set("code", code);
    }
}

fn unauthenticated(error: &AuthenticationError) -> Response {
    let (status, code) = match error {
        AuthenticationError::Refused => (StatusCode::UNAUTHORIZED, "NOT_AUTH"),
        AuthenticationError::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "API_UNAVAILABLE"),
    };
    let mut response = refuse(status, &error.to_string(), code);
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer realm=\"ludgate\"");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// An answer without data.
pub(crate) fn refuse(status: StatusCode, message: &str, code: &str) -> Response {
    let body: Value = json!({ "errors": [{ "message": message, "extensions": { "code": code } }] });
    json_response(status, body.to_string())
}

fn json_response(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}
