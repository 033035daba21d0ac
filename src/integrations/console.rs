//! The console's own sign-in as a credential: a cookie with an access token of our issuer, verified
//! like a bearer token on every request.
//!
//! It begins a session that carries the token's expiry. After `recheck` a valid token on the
//! request confirms the session again. Without one the session counts only for apps that are open
//! to everyone who signs in.

use std::sync::Arc;

use futures_util::future::{FutureExt, LocalBoxFuture};

use crate::{
    caller::{
        Identified,
        bearer::BearerTokens,
        source::{CredentialSource, Evidence},
    },
    identity::oidc::bearer::VerifiedToken,
    incoming::cookies::{Candidates, Presented},
    model::{
        app::AppId,
        caller::{Caller, Credential},
        clock::Clock,
        principal::Principal,
    },
    session::{
        Sessions,
        console_token::{ConsoleToken, TokenFingerprint},
        cookie::RecordKey,
        live::Live,
        provider_tokens::ProviderTokens,
        record::SignIn,
    },
};

/// The console's access-token cookie.
#[derive(Debug)]
pub struct ConsoleTokens {
    bearer: Arc<BearerTokens>,
    sessions: Arc<Sessions>,
    clock: Clock,
}

impl ConsoleTokens {
    /// A source of tokens that the provider of the bearer tokens signed.
    pub fn new(bearer: Arc<BearerTokens>, sessions: Arc<Sessions>, clock: Clock) -> ConsoleTokens {
        ConsoleTokens {
            bearer,
            sessions,
            clock,
        }
    }

    /// The caller that these tokens prove, with the sign-in that they begin. If two people's tokens
    /// are valid, neither counts.
    async fn by_tokens(&self, presented: &Candidates<'_>) -> Identified {
        let mut proved: Option<Arc<SignIn>> = None;
        let mut unverifiable = false;
        for token in presented.iter() {
            match self.verify(token).await {
                Ok(verified) => {
                    let subject = &verified.principal.subject;
                    let is_other = |sign_in: &Arc<SignIn>| sign_in.principal().subject != *subject;
                    if proved.as_ref().is_some_and(is_other) {
                        return Identified::anonymous();
                    }
                    proved = Some(self.sign_in_of(token, verified));
                }
                Err(Caller::Unverifiable) => unverifiable = true,
                // An expired token must not refuse a person who could sign in.
                Err(Caller::BadToken | Caller::Anonymous | Caller::Person { .. }) => {}
            }
        }
        match proved {
            Some(sign_in) => Identified::by_session(Live::SignIn(sign_in), Credential::Cookie),
            None if unverifiable => Identified::without_session(Caller::Unverifiable),
            None => Identified::anonymous(),
        }
    }

    fn sign_in_of(&self, token: &[u8], verified: VerifiedToken) -> Arc<SignIn> {
        let key = key_of(token);
        let short = TokenFingerprint::from_token(token);
        if let Some(known) = self.sessions.store.find_for_token(&key, self.clock.now()) {
            self.confirm(&known, verified, short);
            return known;
        }
        tracing::info!(
            target: "audit", event = "console_sign_in", subject = %verified.principal.subject,
            session = key.short(),
        );
        let tokens = ProviderTokens {
            console: Some(ConsoleToken::new(short, verified.expires)),
            ..ProviderTokens::default()
        };
        self.sessions
            .store
            .begin_for_token(key, verified.principal, tokens)
    }

    fn confirm(&self, sign_in: &SignIn, verified: VerifiedToken, short: TokenFingerprint) {
        let now = self.clock.now();
        sign_in.confirm_by_console_token(verified.principal, short, verified.expires, now);
    }

    async fn verify(&self, token: &[u8]) -> Result<VerifiedToken, Caller> {
        match self.bearer.oidc().bearer.parse_cookie(token) {
            Some(token) => self.bearer.verify(token).await,
            None => Err(Caller::BadToken),
        }
    }

    fn is_overdue(&self, sign_in: &SignIn) -> bool {
        sign_in
            .check()
            .is_overdue(self.clock.now(), self.sessions.store.recheck())
    }

    /// Whether the session counts: a valid token of the same person on the request confirms it.
    async fn is_confirmed_by(&self, sign_in: &SignIn, evidence: &Evidence<'_>) -> bool {
        let Some(known) = &sign_in.tokens.console else {
            return true;
        };
        let is_overdue = self.is_overdue(sign_in);
        for token in evidence.cookies.iter().flat_map(|c| c.access_token.iter()) {
            let short = TokenFingerprint::from_token(token);
            if !is_overdue && known.matches(short) {
                return true;
            }
            let Ok(verified) = Box::pin(self.verify(token)).await else {
                continue;
            };
            // Another person has signed in at the console meanwhile: the session is not theirs.
            if verified.principal.subject != sign_in.principal().subject {
                return false;
            }
            self.confirm(sign_in, verified, short);
            return true;
        }
        !is_overdue || evidence.is_for_every_user
    }
}

impl CredentialSource for ConsoleTokens {
    fn identify<'r>(
        &'r self,
        evidence: &'r Evidence<'_>,
    ) -> LocalBoxFuture<'r, Option<Identified>> {
        async move {
            let tokens = &evidence.cookies?.access_token;
            if tokens.is_empty() {
                return None;
            }
            Some(self.by_tokens(tokens).await)
        }
        .boxed_local()
    }

    fn began(&self, sign_in: &SignIn) -> bool {
        sign_in.tokens.console.is_some()
    }

    fn confirms<'r>(
        &'r self,
        sign_in: &'r Arc<SignIn>,
        evidence: &'r Evidence<'_>,
    ) -> LocalBoxFuture<'r, bool> {
        self.is_confirmed_by(sign_in, evidence).boxed_local()
    }

    /// Nothing to do: the token is checked on every request.
    fn recheck(&self, _sign_in: &Arc<SignIn>) {}

    /// A stream presents no new token, so the last one counts until it expires.
    fn is_confirmed(&self, sign_in: &SignIn) -> bool {
        let is_valid = |known: &ConsoleToken| self.clock.wall_seconds() < known.expires();
        !self.is_overdue(sign_in) || sign_in.tokens.console.as_ref().is_some_and(is_valid)
    }

    fn person_beside(&self, cookies: &Presented<'_>) -> Option<(Arc<Principal>, RecordKey)> {
        let oidc = self.bearer.oidc();
        let verify = |token| {
            let verified = oidc.bearer.verify(oidc.bearer.parse_cookie(token)?).ok()?;
            Some((verified.principal, key_of(token)))
        };
        let mut people = cookies.access_token.iter().filter_map(verify);
        let (first, key) = people.next()?;
        let is_same = |(other, _): (Arc<Principal>, RecordKey)| other.subject == first.subject;
        people.all(is_same).then_some((first.clone(), key))
    }

    /// As long as the browser has the console's token, the next request begins another session.
    fn sign_out<'r>(&'r self, person: &'r Principal) -> LocalBoxFuture<'r, Vec<AppId>> {
        async {
            self.sessions
                .revoker
                .revoke_console_sign_ins(&person.subject)
        }
        .boxed_local()
    }
}

fn key_of(token: &[u8]) -> RecordKey {
    RecordKey::from_token(&String::from_utf8_lossy(token))
}
