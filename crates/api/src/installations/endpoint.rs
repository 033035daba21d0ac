//! `/api/v2/…`: answers requests. Errors have the form of the Kubermatic API on all paths.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, Method, Uri, header, request::Parts};
use http_body::Body as _;
use http_body_util::{BodyExt, Limited};
use ludgate_installs::resource_json::error::ResourceError;
use tokio::time::timeout;

use super::{
    answer::{Answer, error_response},
    call::{self, Call},
    definitions,
    installs::InstallationCalls,
    request_body::RequestBody,
};
use crate::{
    authentication::AuthenticationError,
    graphql_endpoint::discard,
    state::{ApiState, CALL_DEADLINE},
};

/// The route of all calls.
pub(crate) const ROUTE: &str = "/api/v2/{*rest}";
/// Largest body, in bytes: what an object of Kubernetes can have.
const MAX_BODY: usize = 1536 * 1024;

/// Answers a request.
pub(crate) async fn answer(State(server): State<Arc<ApiState>>, request: Request) -> Response {
    let (parts, mut body) = request.into_parts();
    let answered = timeout(CALL_DEADLINE, execute(&server, &parts, &mut body)).await;
    if !body.is_end_stream() {
        tokio::spawn(discard(body));
    }
    match answered {
        Ok(Ok(answer)) => answer.into_response(),
        Ok(Err(error)) => refusal(&error, &parts.uri),
        Err(_) => {
            let text = "no answer in time; a change may have taken effect";
            error_response(&ResourceError::new(504, text))
        }
    }
}

async fn execute(
    server: &ApiState,
    parts: &Parts,
    body: &mut Body,
) -> Result<Answer, ResourceError> {
    let identified = server.authentication.identify(&parts.headers).await;
    let person = identified.map_err(|error| unauthenticated(&error))?;
    let Some(api) = &server.installations else {
        let text = "applications are off here (api.installations)";
        return Err(ResourceError::new(404, text));
    };
    let call = call::parse(&parts.method, parts.uri.path(), parts.uri.query())?;
    let bytes = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => {
            let limit = MAX_BODY / 1024;
            let text = format!("the body is incomplete, or larger than {limit} KiB");
            return Err(ResourceError::new(413, text));
        }
    };
    let body = RequestBody(&bytes);
    let home = &api.home;
    match call {
        Call::Definitions(call) => definitions::answer(home, &person, call, body).await,
        Call::Installations { cluster, call } => {
            let user = api.names.user(&person).ok_or_else(nameless)?;
            let calls = InstallationCalls {
                home,
                target: &cluster,
                cluster_name: &api.cluster_name,
                person: &person,
                user: &user,
            };
            calls.answer(call, body).await
        }
    }
}

fn unauthenticated(error: &AuthenticationError) -> ResourceError {
    let code = match error {
        AuthenticationError::Refused => 401,
        AuthenticationError::Unavailable => 503,
    };
    ResourceError::new(code, error.to_string())
}

fn nameless() -> ResourceError {
    let text = "forbidden: your token has no name that Kubernetes accepts";
    ResourceError::new(403, text)
}

/// A method that a path does not have is answered with those that it has (RFC 9110 section
/// 15.5.6).
fn refusal(error: &ResourceError, uri: &Uri) -> Response {
    let mut response = error_response(error);
    if error.code == 405
        && let Ok(methods) = HeaderValue::from_str(&methods(uri))
    {
        response.headers_mut().insert(header::ALLOW, methods);
    }
    response
}

fn methods(uri: &Uri) -> String {
    let all = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ];
    let has = |method: &&Method| call::parse(method, uri.path(), None).is_ok();
    let methods: Vec<&str> = all.iter().filter(has).map(Method::as_str).collect();
    methods.join(", ")
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn a_wrong_method_is_answered_with_the_right_ones() {
        for (path, allowed) in [
            ("/api/v2/applicationdefinitions", "GET, POST"),
            (
                "/api/v2/applicationdefinitions/a",
                "GET, PUT, PATCH, DELETE",
            ),
            (
                "/api/v2/clusters/self/applicationinstallations/n/a/history",
                "GET",
            ),
        ] {
            let uri = Uri::from_static(path);
            let error = call::parse(&Method::OPTIONS, path, None).expect_err("refused");
            let response = refusal(&error, &uri);
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(response.headers()[header::ALLOW], allowed);
        }
    }

    #[test]
    fn a_token_that_cannot_be_checked_is_no_refusal() {
        for (error, code) in [
            (AuthenticationError::Refused, 401),
            (AuthenticationError::Unavailable, 503),
        ] {
            assert_eq!(unauthenticated(&error).code, code);
        }
        assert_eq!(nameless().code, 403);
    }
}
