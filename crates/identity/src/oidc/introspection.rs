//! Opaque tokens: the provider says whether one is valid, and whose it is (RFC 7662).

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Request, Response, StatusCode, header};
use serde_json::{Map, Value};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use url::form_urlencoded;

use super::{
    claims::{MAX_SUBJECT, SKEW, TokenKind, are_partial, groups},
    context::ProviderContext,
    kept_claims::kept_claims,
    settings::OidcSettings,
};
use crate::{
    model::{
        authentication::AuthenticationEvent,
        error_cause::chain_text,
        principal::{PersonClaims, Principal},
        secret::Secret,
    },
    ops::http_client::CallLimits,
};

/// Calls at the same time; further ones wait within their deadline. Anonymous clients cause them,
/// so they must leave the provider's other slots to sign-ins.
const MAX_CALLS: usize = 16;

/// The person of a token that is active.
#[derive(Clone, Debug)]
pub struct ActiveToken {
    /// The owner of the token.
    pub principal: Arc<Principal>,
    /// When the token expires, in seconds since 1970; `None`: the provider does not say.
    pub expires: Option<i64>,
}

impl PartialEq for ActiveToken {
    /// Compares what access depends on.
    fn eq(&self, other: &ActiveToken) -> bool {
        let (one, two) = (&self.principal, &other.principal);
        self.expires == other.expires
            && one.subject == two.subject
            && one.groups() == two.groups()
            && one.are_groups_partial() == two.are_groups_partial()
            && one.email == two.email
            && one.is_email_verified == two.is_email_verified
            && one.preferred_username == two.preferred_username
            && one.claims == two.claims
            && one.authentication == two.authentication
    }
}

/// Why the provider did not say whether a token is active.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot introspect a token: {0}")]
pub struct IntrospectionError(String);

/// Asks the provider about opaque tokens. Nothing is remembered here.
#[derive(Debug)]
pub struct Introspection {
    context: Arc<ProviderContext>,
    permits: Semaphore,
}

impl Introspection {
    pub(super) fn new(context: Arc<ProviderContext>) -> Introspection {
        Introspection {
            context,
            permits: Semaphore::new(MAX_CALLS),
        }
    }

    /// The person of a token; `None`: it is not active, or not for us.
    ///
    /// # Errors
    /// See [`IntrospectionError`].
    pub async fn introspect(
        &self,
        token: &Secret,
    ) -> Result<Option<ActiveToken>, IntrospectionError> {
        let request = self.request(token)?;
        let answer = self.call(request).await?;
        if answer.status() != StatusCode::OK {
            let status = answer.status();
            return Err(IntrospectionError(format!("the answer is {status}")));
        }
        let answer: Map<String, Value> = serde_json::from_slice(answer.body())
            .map_err(|_| IntrospectionError("the answer is no JSON object".to_owned()))?;
        let now = self.context.clock.wall_seconds();
        Ok(active_token(&answer, &self.context.settings, now))
    }

    /// One call within the usual deadline, with the wait until other introspections are done.
    async fn call(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, IntrospectionError> {
        let limits = CallLimits::default();
        let began = Instant::now();
        let Ok(Ok(_permit)) = timeout(limits.deadline, self.permits.acquire()).await else {
            let what = "too many tokens are being introspected";
            return Err(IntrospectionError(what.to_owned()));
        };
        let limits = CallLimits {
            deadline: limits.deadline.saturating_sub(began.elapsed()),
            ..limits
        };
        let calls = self.context.provider.calls("introspection");
        let answer = calls.send(request, limits).await;
        answer.map_err(|error| IntrospectionError(chain_text(&error)))
    }

    /// The request of section 2.1. The client authenticates itself, so that the endpoint does not
    /// tell others which tokens are active.
    fn request(&self, token: &Secret) -> Result<Request<Vec<u8>>, IntrospectionError> {
        let settings = &self.context.settings;
        let unusable = |what: &str| IntrospectionError(what.to_owned());
        let url = match &settings.introspection.url {
            Some(url) => url.to_string(),
            None => self.discovered().ok_or_else(|| {
                unusable("the provider's metadata name no introspection endpoint")
            })?,
        };
        let secret = settings.client_secret.as_ref();
        let secret = secret.ok_or_else(|| unusable("the client has no secret"))?;
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("token", token.expose())
            .append_pair("token_type_hint", "access_token")
            .finish();
        // RFC 6749 section 2.3.1: both are form-encoded first.
        let encode =
            |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
        let pair = format!(
            "{}:{}",
            encode(&settings.client_id),
            encode(secret.expose())
        );
        Request::post(url)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(
                header::AUTHORIZATION,
                format!("Basic {}", STANDARD.encode(pair)),
            )
            .body(form.into_bytes())
            .map_err(|error| IntrospectionError(error.to_string()))
    }

    fn discovered(&self) -> Option<String> {
        let metadata = self.context.provider.current()?;
        metadata
            .additional_metadata()
            .introspection_endpoint
            .clone()
    }
}

/// The token of an answer (section 2.2); `None`: it is not valid now, or not for us.
fn active_token(
    answer: &Map<String, Value>,
    settings: &OidcSettings,
    now: i64,
) -> Option<ActiveToken> {
    let text = |name: &str| answer.get(name).and_then(Value::as_str);
    if answer.get("active") != Some(&Value::Bool(true)) {
        return None;
    }
    let is_ours = text("iss").is_none_or(|issuer| issuer == settings.issuer.as_str());
    // A token that is bound to a key is valid only with a proof of possession, which is not
    // verified here.
    let is_bearer = text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"))
        && !answer.contains_key("cnf");
    if !is_ours || answer.contains_key("iss") != text("iss").is_some() || !is_bearer {
        return None;
    }
    let expires = time(answer, "exp")?;
    let not_before = time(answer, "nbf")?;
    let is_now = expires.is_none_or(|expires| now < expires)
        && not_before.is_none_or(|start| start <= now.saturating_add(SKEW));
    if !is_now || !is_for_us(answer, settings) || !has_scopes(answer, settings) {
        return None;
    }
    let subject = text("sub").filter(|subject| (1..=MAX_SUBJECT).contains(&subject.len()))?;
    let person = settings.accounts.account(person(answer, subject, settings));
    let principal = Arc::new(Principal::new(person.ok()?, &settings.admin_groups));
    Some(ActiveToken { principal, expires })
}

/// A time, if the answer has one; the outer `None`: the value is not a time.
fn time(answer: &Map<String, Value>, name: &str) -> Option<Option<i64>> {
    match answer.get(name) {
        None => Some(None),
        Some(value) => value.as_i64().map(Some),
    }
}

/// Whether a token was issued for one of our audiences. An answer without audience must name us as
/// the client: else any client of the provider could use its tokens here.
fn is_for_us(answer: &Map<String, Value>, settings: &OidcSettings) -> bool {
    let ours = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        settings.audiences.iter().any(|audience| audience == name)
    };
    match answer.get("aud") {
        Some(Value::Array(audiences)) => audiences.iter().any(ours),
        Some(audience) => ours(audience),
        None => answer
            .get("client_id")
            .is_some_and(|client| *client == *settings.client_id || ours(client)),
    }
}

fn has_scopes(answer: &Map<String, Value>, settings: &OidcSettings) -> bool {
    let scope = answer.get("scope").and_then(Value::as_str);
    let given: Vec<&str> = scope.unwrap_or_default().split(' ').collect();
    let mut needed = settings.introspection.scopes.iter();
    needed.all(|scope| given.contains(&scope.as_str()))
}

fn person(answer: &Map<String, Value>, subject: &str, settings: &OidcSettings) -> PersonClaims {
    let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
    let verified = answer.get("email_verified").and_then(Value::as_bool);
    let email = text("email").filter(|_| verified != Some(false));
    let groups = groups(answer, &settings.groups_claim);
    let claims = Value::Object(answer.clone());
    PersonClaims {
        subject: subject.to_owned(),
        name: text("name"),
        is_email_verified: email.is_some() && verified == Some(true),
        email,
        preferred_username: text("preferred_username"),
        // As for access tokens: what is not said is not known.
        are_groups_partial: groups.as_deref().is_none_or(are_partial),
        groups: groups.unwrap_or_default(),
        claims: kept_claims(&claims, &settings.claims, TokenKind::Access),
        is_foreign: false,
        // RFC 9470 section 6.2.
        authentication: AuthenticationEvent::new(
            answer.get("auth_time").and_then(Value::as_i64),
            answer.get("acr").and_then(Value::as_str),
        ),
    }
}

#[cfg(test)]
mod tests;
