//! Opaque tokens of the provider as credentials, at apps that take them (`bearer = "opaque"`).
//!
//! The provider is asked about a token at most every thirty seconds, and concurrent requests share
//! one call. A JWT is never asked about: its issuer's keys verify it, or it belongs to the app.
//! Clients can make up tokens, so only an active one costs its client nothing.

mod failure_reports;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::future::{FutureExt, LocalBoxFuture};
use http::HeaderValue;
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::{
    Identified,
    source::{CredentialSource, Evidence},
};
use crate::{
    identity::{
        oidc::{Oidc, introspection::ActiveToken},
        stale_cache::{Freshness, StaleCache, Unavailable},
    },
    model::{
        app::{App, AppId, BearerKind},
        caller::{Caller, Credential},
        clock::Clock,
        header_values::bearer_token,
        lookup_limit::{LookupLimit, Quota},
        principal::Principal,
        secret::Secret,
    },
    session::{cookie::RecordKey, record::SignIn},
};
use failure_reports::FailureReports;

/// Longest token that the provider is asked about, in bytes.
const MAX_TOKEN: usize = 8 * 1024;
/// Tokens that are remembered.
const MOST: u64 = 10_000;
/// A token is not accepted without an answer that is younger than this.
const REMEMBERED: Freshness = Freshness {
    fresh: Duration::from_secs(30),
    stale: Duration::ZERO,
    outage: Duration::ZERO,
};
/// An open stream ends when its token was not confirmed for this long. An outage of the provider
/// ends no session, since its lifetime bounds it; an opaque token need not expire.
const STREAM_OUTAGE: Duration = Duration::from_secs(600);
/// One client's quota for tokens that are not active, or that the provider says nothing about. Few
/// at the same time, since all clients share the calls of `Introspection`.
const UNKNOWN: Quota = Quota {
    burst: 32,
    refill: 250,
    at_once: 8,
};

/// The credential source of opaque tokens.
#[derive(Debug)]
pub struct OpaqueTokenCredentials {
    oidc: Arc<Oidc>,
    known: StaleCache<RecordKey, ActiveToken>,
    lookups: LookupLimit,
    failures: Arc<FailureReports>,
    clock: Clock,
}

impl OpaqueTokenCredentials {
    /// A credential source whose calls run on the control runtime.
    pub fn new(oidc: Arc<Oidc>, clock: Clock, control: Handle) -> OpaqueTokenCredentials {
        OpaqueTokenCredentials {
            oidc,
            known: StaleCache::new(MOST, REMEMBERED, clock.clone(), control),
            lookups: LookupLimit::new(UNKNOWN, clock.clone()),
            failures: Arc::default(),
            clock,
        }
    }

    async fn by_token(&self, text: &str, evidence: &Evidence<'_>) -> Identified {
        let token = Secret::new(text);
        let (caller, expires) = match self.active(&token, evidence).await {
            Ok(Some(active)) => {
                let caller = Caller::Person {
                    principal: active.principal.clone(),
                    credential: Credential::Bearer,
                };
                (caller, active.expires)
            }
            Ok(None) => (Caller::BadToken, None),
            Err(Unavailable) => (Caller::Unverifiable, None),
        };
        Identified {
            token_expires: expires,
            header_token: Some(token),
            authorization_is_ours: true,
            ..Identified::without_session(caller)
        }
    }

    /// The token, if it is active now.
    async fn active(
        &self,
        token: &Secret,
        evidence: &Evidence<'_>,
    ) -> Result<Option<Arc<ActiveToken>>, Unavailable> {
        let is_text = token.expose().bytes().all(|byte| byte.is_ascii_graphic());
        if token.expose().len() > MAX_TOKEN || !is_text {
            return Ok(None);
        }
        let key = RecordKey::from_token(token.expose());
        let permit = match self.known.is_exempt(&key) {
            true => None,
            false => {
                let permit = self.lookups.acquire(evidence.client.address);
                Some(permit.ok_or(Unavailable)?)
            }
        };
        let found = self.known.get(key, || self.introspect(token)).await;
        if let (Some(permit), Ok(Some(_))) = (permit, &found) {
            permit.found();
        }
        Ok(found?.filter(|active| self.is_live(active)))
    }

    fn is_live(&self, active: &ActiveToken) -> bool {
        let now = self.clock.wall_seconds();
        active.expires.is_none_or(|expires| now < expires)
    }

    fn introspect(
        &self,
        token: &Secret,
    ) -> impl Future<Output = Result<Option<ActiveToken>, Unavailable>> + Send + use<> {
        let (oidc, token) = (self.oidc.clone(), token.clone());
        let failures = self.failures.clone();
        async move {
            let answer = oidc.introspection.introspect(&token).await;
            answer.map_err(|error| {
                if let Some(count) = failures.count(Instant::now()) {
                    tracing::warn!(%error, count, "opaque tokens cannot be verified");
                }
                Unavailable
            })
        }
    }
}

/// What may be an opaque token in an Authorization header with the scheme `Bearer`. A JWT is none:
/// only its issuer may see it, or the app that it is for.
fn presented(authorization: &HeaderValue) -> Option<&str> {
    bearer_token(authorization).filter(|token| !token.is_empty() && !is_jwt(token))
}

fn is_jwt(token: &str) -> bool {
    let mut parts = token.split('.');
    let (Some(header), Some(_), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    // Nothing that long is asked about anyway.
    if header.len() > MAX_TOKEN {
        return false;
    }
    let header = URL_SAFE_NO_PAD.decode(header).ok();
    let header: Option<Map<String, Value>> =
        header.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    header.is_some_and(|header| header.contains_key("alg"))
}

fn takes_opaque_tokens(app: &App) -> bool {
    app.spec.bearer == BearerKind::Opaque
}

impl CredentialSource for OpaqueTokenCredentials {
    fn identify<'r>(
        &'r self,
        evidence: &'r Evidence<'_>,
    ) -> LocalBoxFuture<'r, Option<Identified>> {
        async move {
            evidence.app.filter(|app| takes_opaque_tokens(app))?;
            let token = presented(evidence.authorization?)?;
            Some(self.by_token(token, evidence).await)
        }
        .boxed_local()
    }

    /// A token begins no session.
    fn began(&self, _: &SignIn) -> bool {
        false
    }

    fn recheck(&self, _: &Arc<SignIn>) {}

    fn owns_authorization(&self, authorization: &HeaderValue, app: &App) -> bool {
        takes_opaque_tokens(app) && presented(authorization).is_some()
    }

    /// For open streams, which end when the provider no longer knows their token, or has not
    /// confirmed it for [`STREAM_OUTAGE`].
    fn person_of_token(&self, token: &Secret) -> Option<Arc<Principal>> {
        let key = RecordKey::from_token(token.expose());
        let introspect = || self.introspect(token);
        let known = self
            .known
            .last_known_within(&key, STREAM_OUTAGE, introspect)??;
        self.is_live(&known).then(|| known.principal.clone())
    }

    fn sign_out<'r>(&'r self, _: &'r Principal) -> LocalBoxFuture<'r, Vec<AppId>> {
        async { Vec::new() }.boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jwt_is_no_opaque_token_whatever_it_says() {
        let jwt = |header: &str| format!("{}.e30.x", URL_SAFE_NO_PAD.encode(header));
        for (token, wanted) in [
            ("2YotnFZFEjr1zCsicMWpAA".to_owned(), true),
            ("a.b.c".to_owned(), true),
            ("a.b".to_owned(), true),
            (jwt("{}"), true),
            (jwt("{\"alg\":\"none\"}"), false),
            (jwt("{\"alg\":\"RS256\",\"kid\":\"x\"}"), false),
            (format!("{}.x", jwt("{\"alg\":7}")), false),
            (String::new(), false),
        ] {
            let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a value");
            let found = presented(&value);
            assert_eq!(found, wanted.then_some(token.as_str()));
        }
        for other in ["Basic x", "Bearer", "x"] {
            assert_eq!(presented(&HeaderValue::from_static(other)), None, "{other}");
        }
    }
}
