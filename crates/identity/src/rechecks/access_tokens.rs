//! Access tokens for apps (`pass_access_token`): renewed before they expire, by the same refresh
//! that checks the person.

use std::sync::Arc;

use super::{CHECK_DEADLINE, POLL_INTERVAL, RETRY_PAUSE, RecheckOutcome, Rechecks};
use crate::session::{
    access_token::AccessTokenState, record::SignIn, replication::refresh::RefreshPurpose,
};

impl Rechecks {
    /// Whether a sign-in has no access token that an app may get now, and one can be fetched.
    pub fn lacks_access_token(&self, sign_in: &SignIn) -> bool {
        let is_missing = || self.access_token_state(sign_in) == AccessTokenState::Missing;
        // Write access to Redis can restore an old record, and an app must not get its token.
        (sign_in.check().is_required() || is_missing()) && self.may_fetch_token(sign_in)
    }

    /// Fetches an access token for a sign-in that lacks one, and waits for it.
    pub async fn fetch_access_token(self: &Arc<Self>, sign_in: &Arc<SignIn>) {
        let this = self.clone();
        let sign_in = sign_in.clone();
        // A task of its own, because the refresh token may work only once: it must finish even when
        // the client disconnects.
        let fetch = self
            .control
            .spawn(async move { this.poll_access_token(&sign_in).await });
        let _ = tokio::time::timeout(CHECK_DEADLINE, fetch).await;
    }

    /// Starts to renew an access token that expires soon, in the background.
    pub fn renew_access_token(self: &Arc<Self>, sign_in: &Arc<SignIn>) {
        if self.access_token_state(sign_in) != AccessTokenState::ExpiresSoon
            || !self.may_fetch_token(sign_in)
        {
            return;
        }
        let Some(guard) = sign_in.start_check() else {
            return;
        };
        let this = self.clone();
        let sign_in = sign_in.clone();
        self.control.spawn(async move {
            this.refresh_access_token(&sign_in).await;
            this.postpone_if_not_fresh(&sign_in);
            drop(guard);
        });
    }

    async fn poll_access_token(&self, sign_in: &Arc<SignIn>) {
        let end = tokio::time::Instant::now() + CHECK_DEADLINE;
        while self.lacks_access_token(sign_in) && tokio::time::Instant::now() < end {
            if let Some(guard) = sign_in.start_check() {
                let outcome = self.refresh_access_token(sign_in).await;
                drop(guard);
                match outcome {
                    // Another replica refreshes: its result is polled.
                    RecheckOutcome::Elsewhere | RecheckOutcome::StoreNew => {}
                    RecheckOutcome::Finished | RecheckOutcome::StoreUnavailable => break,
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.postpone_if_not_fresh(sign_in);
    }

    async fn refresh_access_token(&self, sign_in: &Arc<SignIn>) -> RecheckOutcome {
        // The refresh checks the person too, so the next check is due one interval later.
        sign_in.check().restart_interval(self.clock.now());
        self.recheck(sign_in, RefreshPurpose::AccessToken).await
    }

    /// Without a fresh token, delays the next refresh: a provider that issues no token, or one that
    /// expires at once, must not be called for each request.
    fn postpone_if_not_fresh(&self, sign_in: &SignIn) {
        let is_fresh = self.access_token_state(sign_in) == AccessTokenState::Fresh;
        if !is_fresh || sign_in.check().is_required() {
            let now = self.clock.now();
            sign_in.check().postpone_token_fetch(now, RETRY_PAUSE);
        }
    }

    fn access_token_state(&self, sign_in: &SignIn) -> AccessTokenState {
        let now = self.clock.wall_seconds();
        sign_in.tokens.access_token_state(now)
    }

    fn may_fetch_token(&self, sign_in: &SignIn) -> bool {
        let now = self.clock.now();
        let tokens = &sign_in.tokens;
        // Those of further providers are not for apps.
        let is_for_apps = tokens.provider.is_none() && !tokens.is_for_token();
        is_for_apps
            && tokens.refresh_token.load().is_some()
            && !self.is_provider_away(sign_in, now)
            && sign_in.check().may_fetch_token(now)
    }
}
