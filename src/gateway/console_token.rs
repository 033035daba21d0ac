//! The console's own sign-in as a credential: a cookie with an access token of our issuer, verified
//! like a bearer token and never believed for being there (behaviour rows 20 and 21).
//!
//! It makes a session, which carries the token's time: after `recheck` a valid token on the request
//! proves it again. Without one it counts no longer where membership or ownership matters, and goes
//! on for apps of everybody who signs in.

use std::sync::Arc;

use super::{Gateway, consult::Consulted};
use crate::{
    identity::oidc::bearer::VerifiedToken,
    incoming::cookies::Candidates,
    model::{
        access::Access,
        app::App,
        caller::{Caller, Credential},
        principal::Principal,
    },
    session::{
        console_token::{ConsoleToken, TokenFingerprint},
        cookie::RecordKey,
        live::Live,
        provider_tokens::ProviderTokens,
        record::SignIn,
    },
};

impl Gateway {
    /// Whether a session counts at this app: one that stands on the console's token as long as that
    /// proves it.
    pub async fn is_proved(&self, live: &Live, presented: &Candidates<'_>, app: &App) -> bool {
        let sign_in = live.sign_in();
        let Some(known) = &sign_in.tokens.console else {
            return true;
        };
        let is_old = sign_in
            .check()
            .is_overdue(self.clock.now(), self.sessions.store.recheck());
        for token in presented.iter() {
            let short = TokenFingerprint::from_token(token);
            if !is_old && known.matches(short) {
                return true;
            }
            let Ok(judged) = Box::pin(self.judge_console_token(token)).await else {
                continue;
            };
            // Somebody else has signed in at the console meanwhile: the session is not theirs.
            if judged.principal.subject != sign_in.principal().subject {
                return false;
            }
            self.prove(sign_in, judged, short);
            return true;
        }
        !is_old || app.spec.access == Access::User
    }

    /// Whether a stream may go on that was opened by such a session, as far as membership or
    /// ownership matters. It brings no new token, so the one that proved it last counts until it
    /// ends.
    pub fn is_proof_good(&self, sign_in: &SignIn) -> bool {
        if sign_in.check().is_required() {
            return false;
        }
        let Some(known) = &sign_in.tokens.console else {
            return true;
        };
        !sign_in
            .check()
            .is_overdue(self.clock.now(), self.sessions.store.recheck())
            || self.clock.wall_seconds() < known.expires()
    }

    /// The caller that the console's token proves, and the sign-in that stands on it. Two people
    /// who both hold are no answer to who is asking.
    pub async fn by_console_token(&self, presented: &Candidates<'_>) -> Consulted {
        let mut proved: Option<Arc<SignIn>> = None;
        let mut unverifiable = false;
        for token in presented.iter() {
            match self.judge_console_token(token).await {
                Ok(judged) => {
                    let other = proved
                        .as_ref()
                        .map(|sign_in| sign_in.principal().subject.clone());
                    if other.is_some_and(|other| other != judged.principal.subject) {
                        return Consulted::nobody();
                    }
                    proved = Some(self.sign_in_of(token, judged));
                }
                Err(Caller::Unverifiable) => unverifiable = true,
                // An old one is no reason to refuse somebody who could sign in.
                Err(Caller::BadToken | Caller::Anonymous | Caller::Person { .. }) => {}
            }
        }
        match proved {
            Some(sign_in) => Consulted::by_session(Live::SignIn(sign_in), Credential::Cookie),
            None if unverifiable => Consulted::without_session(Caller::Unverifiable),
            None => Consulted::nobody(),
        }
    }

    /// Who the console's token says this is, as far as that can be told without asking anybody.
    pub fn person_of_console_token(
        &self,
        presented: &Candidates<'_>,
    ) -> Option<(Arc<Principal>, RecordKey)> {
        let oidc = self.oidc.as_ref()?;
        let judge = |token| {
            let judged = oidc.bearer.verify(oidc.bearer.parse_cookie(token)?).ok()?;
            Some((judged.principal, key_of(token)))
        };
        let mut people = presented.iter().filter_map(judge);
        let (first, key) = people.next()?;
        people
            .all(|(other, _)| other.subject == first.subject)
            .then_some((first, key))
    }

    fn sign_in_of(&self, token: &[u8], judged: VerifiedToken) -> Arc<SignIn> {
        let (key, short) = (key_of(token), TokenFingerprint::from_token(token));
        if let Some(known) = self.sessions.store.find_for_token(&key, self.clock.now()) {
            self.prove(&known, judged, short);
            return known;
        }
        tracing::info!(target: "audit", event = "console_sign_in", subject = %judged.principal.subject, session = key.short());
        let console = Some(ConsoleToken::new(short, judged.expires));
        let tokens = ProviderTokens {
            console,
            ..ProviderTokens::default()
        };
        self.sessions
            .store
            .begin_for_token(key, judged.principal, tokens)
    }

    fn prove(&self, sign_in: &SignIn, judged: VerifiedToken, short: TokenFingerprint) {
        sign_in.confirm_by_console_token(judged.principal, short, judged.expires, self.clock.now());
    }

    async fn judge_console_token(&self, token: &[u8]) -> Result<VerifiedToken, Caller> {
        let Some(oidc) = &self.oidc else {
            return Err(Caller::Anonymous);
        };
        match oidc.bearer.parse_cookie(token) {
            Some(token) => self.judge_token(oidc, token).await,
            None => Err(Caller::BadToken),
        }
    }
}

fn key_of(token: &[u8]) -> RecordKey {
    RecordKey::from_token(&String::from_utf8_lossy(token))
}
