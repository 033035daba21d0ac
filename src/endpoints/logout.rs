//! Sign-out by a provider: back-channel, from server to server, and front-channel, in a frame of
//! the provider's page.

use http::StatusCode;
use serde_json::json;

use super::call::EndpointCall;
use crate::{
    decide::{Reason, labels::LogReason},
    forward::body::Source,
    identity::oidc::{
        claims::TokenError,
        logout::{GOOD_FOR, LogoutClaims},
    },
    incoming::form::form_value,
    model::concurrency_limit::Holder,
    respond::endpoint::{Content, EndpointReply},
    session::{logout_scope::LogoutScope, replication::error::StoreUnavailable},
};

/// Largest form, in bytes.
const MAX_FORM: usize = 64 * 1024;

/// Back-Channel Logout 1.0 section 2.5: 200 when it is done, also when there was no session; 400
/// otherwise.
pub(super) async fn back_channel(call: EndpointCall<'_, '_>, body: Source) -> EndpointReply {
    let gateway = call.gateway;
    let Some(oidc) = gateway.oidc.clone() else {
        return EndpointReply::refuse(Reason::NotFound);
    };
    let holder = Holder::new(None, call.request.client.limit_key);
    let collected = match gateway.forms.collect(holder, body, MAX_FORM).await {
        Ok(collected) => collected,
        Err(error) => return EndpointReply::refuse(error.into()),
    };
    let token = form_value(&collected.bytes, "logout_token");
    let token = token.ok().flatten().unwrap_or_default();
    // On the control runtime, and to its end even when the provider goes away: the token works only
    // once.
    let sessions = gateway.sessions.clone();
    let done = gateway.control.spawn(async move {
        let provider = oidc.providers.for_logout_token(&token);
        let LogoutClaims { scope, id } = provider.logout.verify_token(&token).await?;
        // While the store is unavailable, other replicas cannot be asked.
        if !sessions
            .used_tokens
            .first_use(&id, GOOD_FOR)
            .await
            .unwrap_or(true)
        {
            return Err(TokenError::Kind("used before"));
        }
        let subject = scope.subject.clone();
        let ended = sessions.replication.revoke_by_provider(scope).await;
        if ended.is_err() {
            sessions.used_tokens.forget(&id).await;
        }
        Ok((subject, ended))
    });
    match done.await {
        Ok(Ok((subject, Ok(count)))) => {
            tracing::info!(
                target: "audit", event = "backchannel_logout", subject, count,
                client = %call.request.client, request_id = call.request.id_text(),
            );
            empty(None)
        }
        Ok(Ok((_, Err(StoreUnavailable)))) => {
            tracing::warn!(
                "a back-channel logout is incomplete until the session store is available"
            );
            EndpointReply::refuse(Reason::Unverifiable)
        }
        Ok(Err(error)) => invalid_token(call, &error),
        Err(_) => EndpointReply::refuse(Reason::Unverifiable),
    }
}

/// Front-Channel Logout 1.0 section 3. A frame of another site brings no cookie of ours, so the
/// provider's session id, which is secret, names the sign-in. The answer is the same in any case.
pub(super) async fn front_channel(call: EndpointCall<'_, '_>) -> EndpointReply {
    let Some(oidc) = &call.gateway.oidc else {
        return EndpointReply::refuse(Reason::NotFound);
    };
    let (Ok(issuer), Ok(session)) = (call.query("iss"), call.query("sid")) else {
        return EndpointReply::refuse(Reason::BadQuery);
    };
    let named = issuer.and_then(|issuer| oidc.providers.by_issuer(&issuer));
    if let (Some(provider), Some(session)) = (named, session)
        && !session.is_empty()
    {
        let scope = LogoutScope {
            provider: provider.id().cloned(),
            subject: None,
            session: Some(session),
        };
        let sessions = &call.gateway.sessions;
        let ended = sessions.replication.revoke_by_provider(scope).await;
        let count = ended.ok();
        tracing::info!(
            target: "audit", event = "frontchannel_logout", ?count, client = %call.request.client,
            request_id = call.request.id_text(),
        );
    }
    let framing = named.unwrap_or(oidc.providers.default_provider());
    let origin = framing.issuer().url().origin();
    empty(Some(origin.ascii_serialization()))
}

fn empty(frame_ancestor: Option<String>) -> EndpointReply {
    EndpointReply::new(Content::Empty { frame_ancestor })
}

fn invalid_token(call: EndpointCall<'_, '_>, error: &TokenError) -> EndpointReply {
    tracing::warn!(
        %error, client = %call.request.client, request_id = call.request.id_text(),
        "a logout token was refused"
    );
    let body = json!({ "error": "invalid_request", "error_description": error.to_string() });
    EndpointReply {
        reason: Some(LogReason::BadLogoutToken),
        ..EndpointReply::new(Content::Json(StatusCode::BAD_REQUEST, body))
    }
}
