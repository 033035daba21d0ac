//! `/oidc/auth-flow/device`: API tokens by device codes (RFC 8628), for terminals. Requests and
//! errors have the form of the RFC; the token comes as from `token_endpoint`.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::State,
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ludgate_identity::oidc::{device_grant::DevicePoll, token_endpoint::SignInError};
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::{
    state::ApiState,
    token_endpoint::{granted, no_store},
};

/// Where a terminal gets its codes.
pub(crate) const BEGIN: &str = "/oidc/auth-flow/device";
/// Where it waits for the token.
pub(crate) const POLL: &str = "/oidc/auth-flow/device/token";

/// Gives a terminal its codes.
pub(crate) async fn begin(State(state): State<Arc<ApiState>>) -> Response {
    if !state.signs_in_by_device {
        return switched_off();
    }
    state.oidc.wait_until_known().await;
    match state.oidc.device_grant.begin().await {
        Ok(Some(codes)) => json_response(StatusCode::OK, &json!(codes)),
        Ok(None) => refused(
            "unsupported_grant_type",
            "the sign-in service has no device codes",
        ),
        Err(error) => failed(&error),
    }
}

/// Gives a terminal the token once the person has agreed.
pub(crate) async fn poll(State(state): State<Arc<ApiState>>, body: Bytes) -> Response {
    if !state.signs_in_by_device {
        return switched_off();
    }
    let mut pairs = form_urlencoded::parse(&body);
    let code = pairs
        .find(|(name, _)| name == "device_code")
        .map(|(_, value)| value.into_owned());
    let code = code.unwrap_or_default();
    // A task of its own: the provider's device code works once, so the call must end even if the
    // client leaves.
    let oidc = state.oidc.clone();
    let polled = tokio::spawn(async move { oidc.device_grant.poll(&code).await }).await;
    match polled {
        Ok(Ok(DevicePoll::Granted(token))) => granted(&state, &token),
        Ok(Ok(DevicePoll::Pending)) => refused("authorization_pending", "there is no answer yet"),
        Ok(Ok(DevicePoll::SlowDown)) => refused("slow_down", "there is no answer yet"),
        Ok(Ok(DevicePoll::Denied)) => refused("access_denied", "the sign-in was refused"),
        Ok(Ok(DevicePoll::Expired)) => refused("expired_token", "the code has expired"),
        Ok(Err(error)) => failed(&error),
        Err(_) => unavailable(),
    }
}

fn switched_off() -> Response {
    refused(
        "unsupported_grant_type",
        "sign-in by device code is off here (api.device_sign_in)",
    )
}

fn failed(error: &SignInError) -> Response {
    match error {
        SignInError::Unavailable(error) => {
            tracing::warn!(error, "cannot sign in by device code");
            unavailable()
        }
        SignInError::NotOurClient(_) => {
            tracing::warn!(%error, "cannot sign in by device code");
            refused(
                "unauthorized_client",
                "the sign-in service does not permit device codes to this site",
            )
        }
        SignInError::State(_)
        | SignInError::OtherIssuer
        | SignInError::Refused(_)
        | SignInError::NotConfirmed(_)
        | SignInError::Token(_) => {
            tracing::info!(%error, "a sign-in by device code was refused");
            refused("invalid_grant", &error.to_string())
        }
    }
}

fn unavailable() -> Response {
    let body = error_body(
        "temporarily_unavailable",
        "the sign-in service is not available",
    );
    json_response(StatusCode::SERVICE_UNAVAILABLE, &body)
}

fn refused(error: &str, description: &str) -> Response {
    json_response(StatusCode::BAD_REQUEST, &error_body(error, description))
}

/// An error of RFC 6749 section 5.2.
fn error_body(error: &str, description: &str) -> Value {
    json!({ "error": error, "error_description": description })
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    no_store(&mut response);
    response
}
