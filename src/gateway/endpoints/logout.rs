//! Sign-out that the provider tells of: back-channel, from server to server, and front-channel, in
//! a frame of its own page.

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use super::{Call, once};
use crate::{
    forward::body::Source,
    gateway::{access_log::Record, answer::Answer, decision::Reason, respond},
    identity::oidc::{claims::TokenError, logout::GOOD_FOR},
    model::load::Holder,
    session::replication::error::StoreUnavailable,
};

/// Largest form, in bytes.
const MAX_FORM: usize = 64 * 1024;

impl Call<'_> {
    /// Back-Channel Logout 1.0 section 2.5: 200 when it was done, also when there was nobody to
    /// sign out; 400 otherwise.
    pub async fn backchannel_logout(&self, body: Source, record: &mut Record) -> Response<Answer> {
        let Some(oidc) = self.gateway.oidc.clone() else {
            return self.refuse(Reason::NotFound, record);
        };
        let holder = Holder::new(None, record.client.limit_key);
        let collected = match self.gateway.forms.collect(holder, body, MAX_FORM).await {
            Ok(collected) => collected,
            Err(error) => return self.refuse(error.into(), record),
        };
        let token = once(&collected.bytes, "logout_token")
            .ok()
            .flatten()
            .unwrap_or_default();
        // On the control runtime, and to its end even when the provider goes away: the token works
        // only once.
        let sessions = self.gateway.sessions.clone();
        let done = self.gateway.control.spawn(async move {
            let who = oidc.logout.verify_token(&token).await?;
            // While the store is away nobody else can say.
            if !sessions
                .used_tokens
                .first_use(&who.id, GOOD_FOR)
                .await
                .unwrap_or(true)
            {
                return Err(TokenError::Kind("used before"));
            }
            let (subject, session) = (who.subject.as_deref(), who.session.as_deref());
            let ended = sessions
                .replication
                .revoke_by_provider(subject, session)
                .await;
            if ended.is_err() {
                sessions.used_tokens.forget(&who.id).await;
            }
            Ok((who, ended))
        });
        match done.await {
            Ok(Ok((who, Ok(count)))) => {
                tracing::info!(
                    target: "audit", event = "backchannel_logout", subject = who.subject, count,
                    client = %record.client, request_id = record.id(),
                );
                respond::ours(StatusCode::OK, Answer::whole(""))
            }
            Ok(Ok((_, Err(StoreUnavailable)))) => {
                tracing::warn!(
                    "a back-channel logout is incomplete until the session store is available"
                );
                self.refuse(Reason::Unverifiable, record)
            }
            Ok(Err(error)) => bad_token(&error, record),
            Err(_) => self.refuse(Reason::Unverifiable, record),
        }
    }

    /// Front-Channel Logout 1.0 section 3. No cookie of ours comes along in a frame of another
    /// site, so the provider's session id, which nobody else knows, must name the sign-in. The
    /// answer says nothing, whoever asks.
    pub async fn frontchannel_logout(&self, record: &mut Record) -> Response<Answer> {
        let Some(oidc) = &self.gateway.oidc else {
            return self.refuse(Reason::NotFound, record);
        };
        let (Ok(issuer), Ok(session)) = (self.query("iss"), self.query("sid")) else {
            return self.refuse(Reason::BadQuery, record);
        };
        let own = oidc.settings().issuer.as_str();
        if let (Some(issuer), Some(session)) = (issuer, session)
            && issuer == own
            && !session.is_empty()
        {
            let ended = self
                .gateway
                .sessions
                .replication
                .revoke_by_provider(None, Some(&session))
                .await;
            let count = ended.ok();
            tracing::info!(
                target: "audit", event = "frontchannel_logout", ?count, client = %record.client,
                request_id = record.id(),
            );
        }
        let mut response = respond::ours(StatusCode::OK, Answer::whole(""));
        let origin = oidc.settings().issuer.url().origin().ascii_serialization();
        let policy = format!("default-src 'none'; frame-ancestors {origin}");
        if let Ok(policy) = HeaderValue::try_from(policy) {
            response
                .headers_mut()
                .insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        response
    }
}

fn bad_token(error: &TokenError, record: &mut Record) -> Response<Answer> {
    tracing::warn!(%error, client = %record.client, request_id = record.id(), "a logout token was refused");
    record.reason = "bad_logout_token";
    let body = json!({ "error": "invalid_request", "error_description": error.to_string() });
    respond::json_body(StatusCode::BAD_REQUEST, "application/json", &body)
}
