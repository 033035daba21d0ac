//! Service tokens as credentials: in `Authorization`, at the apps that they are for.

use std::sync::Arc;

use futures_util::future::{FutureExt, LocalBoxFuture};
use http::HeaderValue;

use super::{
    Identified,
    source::{CredentialSource, Evidence},
};
use crate::{
    identity::{
        service_tokens::{
            ServiceTokens,
            text::{PREFIX, key_of},
        },
        stale_cache::Unavailable,
    },
    model::{
        app::{App, AppId},
        caller::{Caller, Credential},
        clock::Clock,
        lookup_limit::{LookupLimit, Quota},
        principal::Principal,
        secret::Secret,
    },
    session::record::SignIn,
};

/// Refused tokens of one client that are logged in a row, and then one in ten seconds.
const LOGGED_REFUSALS: Quota = Quota {
    burst: 8,
    refill: 10_000,
    at_once: 8,
};

/// The credential source of service tokens. A text that begins like one is never forwarded, and
/// refused if it is none.
#[derive(Debug)]
pub struct ServiceTokenCredentials {
    tokens: Arc<ServiceTokens>,
    refusals: LookupLimit,
    clock: Clock,
}

/// Why a token does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unaccepted {
    /// No token, or a revoked one.
    Unknown,
    Expired,
    /// It is for other apps.
    OtherApp,
}

impl Unaccepted {
    /// The word in the log.
    fn as_str(self) -> &'static str {
        match self {
            Unaccepted::Unknown => "unknown",
            Unaccepted::Expired => "expired",
            Unaccepted::OtherApp => "other_app",
        }
    }
}

impl ServiceTokenCredentials {
    /// A credential source of these tokens.
    pub fn new(tokens: Arc<ServiceTokens>, clock: Clock) -> ServiceTokenCredentials {
        ServiceTokenCredentials {
            tokens,
            refusals: LookupLimit::new(LOGGED_REFUSALS, clock.clone()),
            clock,
        }
    }

    async fn by_token(&self, presented: &[u8], evidence: &Evidence<'_>) -> Identified {
        let identified = match self.verify(presented, evidence).await {
            Ok(Ok(identified)) => identified,
            Ok(Err(refused)) => {
                self.log_refusal(refused, evidence);
                Identified::without_session(Caller::BadToken)
            }
            Err(Unavailable) => Identified::without_session(Caller::Unverifiable),
        };
        Identified {
            authorization_is_ours: true,
            ..identified
        }
    }

    async fn verify(
        &self,
        presented: &[u8],
        evidence: &Evidence<'_>,
    ) -> Result<Result<Identified, Unaccepted>, Unavailable> {
        let text = std::str::from_utf8(presented).unwrap_or_default();
        let Some(key) = key_of(text) else {
            return Ok(Err(Unaccepted::Unknown));
        };
        let found = self.tokens.find(key, evidence.client.address).await?;
        let Some(token) = found else {
            return Ok(Err(Unaccepted::Unknown));
        };
        if token.expires() <= self.clock.wall_seconds() {
            return Ok(Err(Unaccepted::Expired));
        }
        // Our own endpoints are for people. Containers are found by a cluster, which knows no
        // services.
        let app = evidence.app.filter(|app| app.attested().is_none());
        let is_for_app = app.is_some_and(|app| token.is_for(app.id()));
        if !is_for_app {
            return Ok(Err(Unaccepted::OtherApp));
        }
        let caller = Caller::Person {
            principal: token.principal().clone(),
            credential: Credential::Bearer,
        };
        Ok(Ok(Identified {
            token_expires: Some(token.expires()),
            header_token: Some(Secret::new(text)),
            ..Identified::without_session(caller)
        }))
    }

    fn log_refusal(&self, refused: Unaccepted, evidence: &Evidence<'_>) {
        let address = evidence.client.address;
        if self.refusals.acquire(address).is_some() {
            let reason = refused.as_str();
            tracing::info!(target: "audit", event = "service_token_refused", reason, client = %address);
        }
    }
}

/// What begins like a service token in an Authorization header with the scheme `Bearer`.
fn presented(authorization: &HeaderValue) -> Option<&[u8]> {
    let bytes = authorization.as_bytes();
    let (scheme, rest) = bytes.split_at_checked("bearer ".len())?;
    let token = rest.trim_ascii();
    let is_ours = scheme.eq_ignore_ascii_case(b"bearer ") && token.starts_with(PREFIX.as_bytes());
    is_ours.then_some(token)
}

impl CredentialSource for ServiceTokenCredentials {
    fn identify<'r>(
        &'r self,
        evidence: &'r Evidence<'_>,
    ) -> LocalBoxFuture<'r, Option<Identified>> {
        async move {
            let presented = presented(evidence.authorization?)?;
            Some(self.by_token(presented, evidence).await)
        }
        .boxed_local()
    }

    /// A token begins no session.
    fn began(&self, _: &SignIn) -> bool {
        false
    }

    fn recheck(&self, _: &Arc<SignIn>) {}

    fn owns_authorization(&self, authorization: &HeaderValue, _: &App) -> bool {
        presented(authorization).is_some()
    }

    /// For open streams, which end when their token is revoked.
    fn person_of_token(&self, token: &Secret) -> Option<Arc<Principal>> {
        let found = self.tokens.last_known(key_of(token.expose())?)?;
        let is_live = found.expires() > self.clock.wall_seconds();
        is_live.then(|| found.principal().clone())
    }

    fn sign_out<'r>(&'r self, _: &'r Principal) -> LocalBoxFuture<'r, Vec<AppId>> {
        async { Vec::new() }.boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_like_a_token_is_ours() {
        for (header, wanted) in [
            ("Bearer ludgate_x", Some("ludgate_x")),
            ("bearer  ludgate_x ", Some("ludgate_x")),
            ("BEARER ludgate_", Some("ludgate_")),
            ("Bearer ludgate_\u{fc}", Some("ludgate_\u{fc}")),
            ("Bearer ludgate", None),
            ("Bearer Ludgate_x", None),
            ("Basic ludgate_x", None),
            ("ludgate_x", None),
            ("Bearer", None),
            ("", None),
        ] {
            let value = HeaderValue::from_bytes(header.as_bytes()).expect("a value");
            assert_eq!(presented(&value), wanted.map(str::as_bytes), "{header}");
        }
    }
}
