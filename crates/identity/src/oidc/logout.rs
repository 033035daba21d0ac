//! Sign-out at the provider: started there (Back-Channel Logout 1.0, Front-Channel Logout 1.0), or
//! started here (RP-Initiated Logout 1.0).

use std::{sync::Arc, time::Duration};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use http::{Request, header};
use openidconnect::{
    JsonWebKey, JsonWebKeyId,
    core::{CoreJsonWebKey, CoreJsonWebKeyUse, CoreJwsSigningAlgorithm},
};
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::{
    claims::{ALGORITHMS, SKEW, TokenError},
    context::ProviderContext,
};
use crate::{
    model::error_cause::chain_text,
    ops::http_client::CallLimits,
    session::{logout_scope::LogoutScope, record::SignIn},
};

/// Longest token that is parsed, in bytes.
const MAX_TOKEN: usize = 16 * 1024;
/// Greatest age of a logout token, in seconds: it is sent as soon as it is issued, so an old one is
/// a replay.
const MAX_AGE: i64 = 600;
/// After this time every logout token has expired, even if the clocks differ, so a used one may be
/// forgotten.
pub const GOOD_FOR: Duration = Duration::from_secs(2 * MAX_AGE.unsigned_abs());
/// The event that identifies a logout token.
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// The claims of a logout token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogoutClaims {
    /// The sign-ins that it revokes.
    pub scope: LogoutScope,
    /// The `jti`, which is unique for one provider. A logout token is valid once, which the caller
    /// has to enforce.
    pub id: String,
}

/// The issuer that a token names. Nothing is verified.
pub(super) fn unverified_issuer(token: &str) -> Option<String> {
    if token.len() > MAX_TOKEN {
        return None;
    }
    let payload = decoded(token.split('.').nth(1)?)?;
    payload.get("iss")?.as_str().map(str::to_owned)
}

/// The object in a part of a token.
fn decoded(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// Sign-out at the provider, in both directions.
#[derive(Debug)]
pub struct LogoutAtProvider {
    context: Arc<ProviderContext>,
}

impl LogoutAtProvider {
    pub(super) fn new(context: Arc<ProviderContext>) -> LogoutAtProvider {
        LogoutAtProvider { context }
    }

    /// Verifies a logout token (Back-Channel Logout 1.0 section 2.6). If the signing key is
    /// unknown, the provider's keys are fetched first.
    ///
    /// # Errors
    /// See [`TokenError`]. Then no sign-in may be revoked.
    pub async fn verify_token(&self, token: &str) -> Result<LogoutClaims, TokenError> {
        let (header, payload) = self.verify_signature(token).await?;
        match header
            .get("typ")
            .map(|typ| typ.as_str().unwrap_or_default().to_ascii_lowercase())
        {
            None => {}
            Some(typ) if matches!(&*typ, "jwt" | "logout+jwt" | "application/logout+jwt") => {}
            Some(_) => return Err(TokenError::Kind("typ")),
        }
        let text = |name: &str| {
            payload
                .get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        if text("iss") != Some(self.context.settings.issuer.as_str()) {
            return Err(TokenError::Refused("iss".into()));
        }
        let us = self.context.settings.client_id.as_str();
        let is_for_us = match payload.get("aud") {
            Some(Value::String(one)) => one == us,
            Some(Value::Array(many)) => many.iter().any(|one| one == us),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
                false
            }
        };
        if !is_for_us {
            return Err(TokenError::Audience);
        }
        let now = self.context.clock.wall_seconds();
        let time = |name: &'static str| {
            payload
                .get(name)
                .and_then(Value::as_i64)
                .ok_or(TokenError::Time(name))
        };
        if !(now.saturating_sub(MAX_AGE)..=now.saturating_add(SKEW)).contains(&time("iat")?) {
            return Err(TokenError::Time("iat"));
        }
        if time("exp")? <= now.saturating_sub(SKEW) {
            return Err(TokenError::Time("exp"));
        }
        let is_logout = payload
            .get("events")
            .and_then(|events| events.get(EVENT))
            .is_some_and(Value::is_object);
        // A token with a nonce could be an ID token that is presented as a logout token.
        if !is_logout || payload.contains_key("nonce") {
            return Err(TokenError::Kind("not a logout token"));
        }
        let accounts = &self.context.settings.accounts;
        let scope = LogoutScope {
            provider: accounts.provider().cloned(),
            subject: text("sub").map(|subject| accounts.qualify(subject)),
            session: text("sid").map(str::to_owned),
        };
        if scope.subject.is_none() && scope.session.is_none() {
            return Err(TokenError::Subject);
        }
        let id = text("jti").ok_or(TokenError::Kind("without jti"))?;
        Ok(LogoutClaims {
            scope,
            id: accounts.qualify(id),
        })
    }

    /// Verifies the signature with the provider's keys. Returns header and payload.
    async fn verify_signature(
        &self,
        token: &str,
    ) -> Result<(Map<String, Value>, Map<String, Value>), TokenError> {
        let broken = || TokenError::Kind("not a JWT");
        if token.len() > MAX_TOKEN {
            return Err(broken());
        }
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(broken());
        };
        let fields = decoded(header).ok_or_else(broken)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| broken())?;
        let algorithm: CoreJwsSigningAlgorithm = fields
            .get("alg")
            .and_then(|alg| serde_json::from_value(alg.clone()).ok())
            .filter(|algorithm| ALGORITHMS.contains(algorithm))
            .ok_or_else(|| TokenError::Refused("alg".into()))?;
        if fields.contains_key("crit") {
            return Err(TokenError::Refused("crit".into()));
        }
        let kid = fields
            .get("kid")
            .and_then(Value::as_str)
            .map(|kid| JsonWebKeyId::new(kid.to_owned()));
        self.context.provider.look_for_key(kid.as_ref()).await;
        let message = token.rsplit_once('.').map_or("", |(message, _)| message);
        let fits = |key: &&CoreJsonWebKey| {
            let for_signing = key
                .key_use()
                .is_none_or(|key_use| *key_use == CoreJsonWebKeyUse::Signature);
            for_signing && (kid.is_none() || key.key_id() == kid.as_ref())
        };
        let keys = self.context.provider.keys();
        let mut known = keys.keys().iter().filter(fits);
        if !known.any(|key| {
            key.verify_signature(&algorithm, message.as_bytes(), &signature)
                .is_ok()
        }) {
            return Err(TokenError::Refused("the signature does not hold".into()));
        }
        Ok((fields, decoded(payload).ok_or_else(broken)?))
    }

    /// Revokes the refresh token of a sign-in that has ended (RFC 7009), so that a stolen copy is
    /// worthless. Without a revocation endpoint the token stays valid until it expires. Runs on the
    /// control runtime.
    pub async fn revoke_refresh_token(&self, sign_in: &SignIn) {
        let Some(metadata) = self.context.provider.current() else {
            return;
        };
        let Some(endpoint) = &metadata.additional_metadata().revocation_endpoint else {
            return;
        };
        let Some(token) = sign_in.tokens.refresh_token.swap(None) else {
            return;
        };
        let request = self.revocation_request(endpoint, token.expose());
        let answer = match request {
            Ok(request) => self
                .context
                .provider
                .calls("revoke")
                .send(request, CallLimits::default())
                .await
                .map_err(|error| chain_text(&error)),
            Err(error) => Err(error.to_string()),
        };
        // Section 2.2: the response to an unknown token is a 200 too.
        let refused = match answer {
            Ok(response) if response.status().is_success() => return,
            Ok(response) => format!("the provider answered {}", response.status()),
            Err(error) => error,
        };
        tracing::warn!(
            error = refused,
            session = sign_in.key().short(),
            "cannot revoke a refresh token"
        );
    }

    /// Section 2.1, with the client authentication of the token endpoint (RFC 6749 section 2.3.1).
    fn revocation_request(
        &self,
        endpoint: &str,
        token: &str,
    ) -> Result<Request<Vec<u8>>, http::Error> {
        let encode =
            |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("token", token)
            .append_pair("token_type_hint", "refresh_token");
        let mut request = Request::post(endpoint)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json");
        match &self.context.settings.client_secret {
            Some(secret) => {
                let pair = format!(
                    "{}:{}",
                    encode(&self.context.settings.client_id),
                    encode(secret.expose())
                );
                request = request.header(
                    header::AUTHORIZATION,
                    format!("Basic {}", STANDARD.encode(pair)),
                );
            }
            None => {
                form.append_pair("client_id", &self.context.settings.client_id);
            }
        }
        request.body(form.finish().into_bytes())
    }

    /// The URL that signs the browser out at the provider and then redirects it to `back`. `None`
    /// if this is not configured, if the provider has no usable endpoint, or if the sign-in has no
    /// ID token for `id_token_hint`.
    pub fn end_session_url(&self, sign_in: &SignIn, back: &str) -> Option<String> {
        let metadata = self
            .context
            .provider
            .current()
            .filter(|_| self.context.settings.sign_out_at_provider)?;
        let endpoint = metadata
            .additional_metadata()
            .end_session_endpoint
            .clone()?;
        let mut url = url::Url::parse(&endpoint).ok()?;
        // The URL comes from the provider's metadata. Its scheme must be that of the issuer.
        if url.scheme() != self.context.settings.issuer.url().scheme() {
            return None;
        }
        url.query_pairs_mut()
            .append_pair("id_token_hint", sign_in.tokens.id_token.as_ref()?.expose())
            .append_pair("client_id", &self.context.settings.client_id)
            .append_pair("post_logout_redirect_uri", back);
        Some(url.into())
    }
}
