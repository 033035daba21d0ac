//! Revocation of many sessions at once: of an app, of a person's tokens, or by the provider.

use std::sync::Arc;

use super::{
    logout_scope::LogoutScope,
    record::SignIn,
    store::{SWEEP_BATCH, SessionStore},
};
use crate::model::app::AppId;

/// Revokes sessions by other names than their key.
#[derive(Debug)]
pub struct Revoker {
    store: Arc<SessionStore>,
}

impl Revoker {
    pub(super) fn new(store: Arc<SessionStore>) -> Revoker {
        Revoker { store }
    }

    /// Revokes all sessions of an app, on every replica; the sign-ins stay valid. Returns their
    /// number here. Visits all app sessions: for the control runtime.
    pub async fn revoke_app(&self, app: &AppId) -> usize {
        if let Some(revocations) = self.store.revocations() {
            revocations.revoke_app(app);
        }
        self.revoke_app_local(app, i64::MAX).await
    }

    /// Revokes the sessions of an app that started until that second of the wall clock, without
    /// publishing that.
    pub(super) async fn revoke_app_local(&self, app: &AppId, until: i64) -> usize {
        let mut seen = 0;
        let mut revoked = 0;
        for session in self.store.app_sessions() {
            if session.app() == app && session.started_at() <= until {
                self.store.revoke_app_session_local(&session);
                revoked += 1;
            }
            seen += 1;
            if seen % SWEEP_BATCH == 0 {
                self.store.yield_in_sweep().await;
            }
        }
        self.store.policy_changes().notify();
        revoked
    }

    /// Revokes the sign-ins that a person's tokens of an integration have started, in all browsers.
    pub fn revoke_source_sign_ins(&self, subject: &str) {
        self.revoke_matching(subject, |sign_in| sign_in.tokens.source_token.is_some());
    }

    /// Revokes the sign-ins that a person's console tokens have started, in all browsers. Returns
    /// the apps on paths that had a session.
    pub fn revoke_console_sign_ins(&self, subject: &str) -> Vec<AppId> {
        self.revoke_matching(subject, |sign_in| sign_in.tokens.console.is_some())
            .iter()
            .flat_map(|sign_in| sign_in.apps())
            .collect()
    }

    /// Revokes the sign-ins that a logout of a provider names. Returns their number here.
    pub(super) fn revoke_by_provider(&self, scope: &LogoutScope) -> usize {
        let index = self.store.by_subject();
        let named = match (&scope.session, &scope.subject) {
            (Some(session), _) => index.of_provider_session(session),
            (None, Some(subject)) => index.of_subject(subject),
            (None, None) => Vec::new(),
        };
        // A revoked sign-in is skipped, because each revocation is published to the other replicas.
        let is_meant = |sign_in: &&Arc<SignIn>| scope.includes(sign_in) && !sign_in.is_revoked();
        named
            .iter()
            .filter(is_meant)
            .inspect(|sign_in| self.store.revoke(sign_in))
            .count()
    }

    fn revoke_matching(
        &self,
        subject: &str,
        is_meant: impl Fn(&SignIn) -> bool,
    ) -> Vec<Arc<SignIn>> {
        let mut sign_ins = self.store.by_subject().of_subject(subject);
        sign_ins.retain(|sign_in| is_meant(sign_in));
        for sign_in in &sign_ins {
            self.store.revoke(sign_in);
        }
        sign_ins
    }
}
