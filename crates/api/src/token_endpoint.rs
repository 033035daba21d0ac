//! `/oidc/auth-flow/…`: how people get API tokens, with the paths that PrimeHub's client knows.
//! The browser gets a code, and the program exchanges it.

use std::sync::Arc;

use askama::Template;
use axum::{
    body::{Body, Bytes},
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ludgate_identity::{
    oidc::{sign_in::CallbackParams, token_endpoint::SignInError},
    session::browser_binding,
};
use ludgate_model::secret::Secret;
use serde_json::json;
use url::form_urlencoded;

use crate::{
    state::ApiState,
    token_page::{TokenPage, policy},
};

/// Where the flow begins.
pub(crate) const REQUEST: &str = "/oidc/auth-flow/request";
/// Where the program exchanges the code.
pub(crate) const EXCHANGE: &str = "/oidc/auth-flow/exchange";
/// The cookie that binds the flow to its browser.
const BIND_COOKIE: &str = "api-token-bind";

/// Sends the browser to the provider.
pub(crate) async fn request(State(state): State<Arc<ApiState>>) -> Response {
    state.oidc.wait_until_known().await;
    let Ok(bind) = browser_binding::new_bind() else {
        return failure(StatusCode::SERVICE_UNAVAILABLE, "Please try again.");
    };
    let location = match state.oidc.token_grant.begin(&bind) {
        Ok(location) => location,
        Err(error) => return failed(&error),
    };
    let is_secure = state.operations.platform().site_url.starts_with("https:");
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!(
        "{BIND_COOKIE}={bind}; Path=/oidc/auth-flow/; Max-Age=600; HttpOnly; SameSite=Lax{secure}"
    );
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    for (name, value) in [(header::LOCATION, location), (header::SET_COOKIE, cookie)] {
        match HeaderValue::from_str(&value) {
            Ok(value) => response.headers_mut().insert(name, value),
            Err(_) => return failure(StatusCode::SERVICE_UNAVAILABLE, "Please try again."),
        };
    }
    no_store(&mut response);
    response
}

/// Shows the code to the person who comes back from the provider.
pub(crate) async fn callback(
    State(state): State<Arc<ApiState>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let query = query.unwrap_or_default();
    let value = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.into_owned())
    };
    let (Some(code), Some(sealed)) = (value("code"), value("state")) else {
        let sentence = "The sign-in service did not confirm it.";
        return failure(StatusCode::BAD_REQUEST, sentence);
    };
    let returned = CallbackParams {
        code,
        state: sealed,
        issuer: value("iss"),
    };
    match state
        .oidc
        .token_grant
        .confirm(returned, bind_cookies(&headers))
    {
        Ok(code) => page(StatusCode::OK, &TokenPage::code(&code)),
        Err(error) => failed(&error),
    }
}

/// Exchanges the code of a person for an API token.
pub(crate) async fn exchange(State(state): State<Arc<ApiState>>, body: Bytes) -> Response {
    let mut pairs = form_urlencoded::parse(&body);
    let code = pairs
        .find(|(name, _)| name == "code")
        .map(|(_, value)| value);
    let code = code.unwrap_or_default().trim().to_owned();
    // A task of its own: the provider's code works once, so the call must end even if the client
    // leaves.
    let oidc = state.oidc.clone();
    let redeemed = tokio::spawn(async move { oidc.token_grant.redeem(&code).await }).await;
    let mut response = match redeemed {
        Ok(Ok(token)) => granted(&state, &token),
        Ok(Err(SignInError::Unavailable(error))) => {
            tracing::warn!(error, "cannot exchange the code of a person");
            text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the sign-in service is not available",
            )
        }
        Ok(Err(error)) => {
            tracing::info!(%error, "the code of a person was refused");
            // PrimeHub's client compares this text.
            text(StatusCode::BAD_REQUEST, "Bad Request")
        }
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "please try again"),
    };
    no_store(&mut response);
    response
}

/// Gives a program its token.
pub(crate) fn granted(state: &ApiState, token: &Secret) -> Response {
    let site = &state.operations.platform().site_url;
    tracing::info!(target: "audit", event = "api_token_granted");
    let endpoint = format!("{site}/api/graphql");
    let body = json!({ "api-token": token.expose(), "endpoint": endpoint });
    let mut response = Response::new(Body::from(body.to_string()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    no_store(&mut response);
    response
}

/// The values of the bind cookie.
fn bind_cookies(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    pairs.filter_map(|pair| {
        let pair = pair.trim_ascii_start();
        pair.strip_prefix(BIND_COOKIE.as_bytes())?
            .strip_prefix(b"=")
    })
}

fn failed(error: &SignInError) -> Response {
    match error {
        SignInError::Unavailable(error) => {
            tracing::warn!(error, "cannot begin to grant a token");
            let sentence = "The sign-in service is not available.";
            failure(StatusCode::SERVICE_UNAVAILABLE, sentence)
        }
        SignInError::State(_)
        | SignInError::OtherIssuer
        | SignInError::NotOurClient(_)
        | SignInError::Refused(_)
        | SignInError::NotConfirmed(_)
        | SignInError::Token(_) => failure(
            StatusCode::BAD_REQUEST,
            &format!("It did not work: {error}."),
        ),
    }
}

fn failure(status: StatusCode, sentence: &str) -> Response {
    page(status, &TokenPage::failure(sentence, REQUEST))
}

fn page(status: StatusCode, page: &TokenPage<'_>) -> Response {
    let mut response = Response::new(Body::from(page.render().unwrap_or_default()));
    *response.status_mut() = status;
    no_store(&mut response);
    let headers = response.headers_mut();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, html);
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    if let Ok(policy) = HeaderValue::from_str(&policy()) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

fn text(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

pub(crate) fn no_store(response: &mut Response) {
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
}
