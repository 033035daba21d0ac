//! Periodic checks of signed-in people at the provider (docs/behaviour.md#sessions): every
//! `recheck`, in the background, once for all requests that find the check due. A lost group
//! revokes the access that it gave; an outage of the provider changes nothing.

mod access_tokens;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{runtime::Handle, sync::Semaphore};

use super::oidc::{Oidc, providers::SignInProvider, refresh::RefreshOutcome};
use crate::{
    model::{
        clock::{Clock, Moment},
        policy_changes::PolicyChanges,
    },
    session::{
        Sessions,
        record::{IdentityCheckGuard, SignIn},
        replication::refresh::{RefreshLockAttempt, RefreshPurpose},
    },
};

/// Checks at the same time; the others wait in order.
const MAX_CHECKS: usize = 64;
/// Pause before the same person is checked again after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// How long a process that stops waits for running checks.
const STOP_DEADLINE: Duration = Duration::from_secs(12);
/// Pause before a check that another replica is running is looked at again.
const ELSEWHERE_PAUSE: Duration = Duration::from_secs(5);

/// How long a request waits for the required check of a session, and how often it looks whether
/// another request or another replica has finished it.
const CHECK_DEADLINE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The result of one attempt to check a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecheckOutcome {
    /// The check is finished, or not needed.
    Finished,
    /// Another replica is checking.
    Elsewhere,
    /// No provider call: Redis is unavailable.
    StoreUnavailable,
    /// No provider call: the connection to Redis is too new to be trusted. The check stays due.
    StoreNew,
}

/// Runs the checks.
#[derive(Debug)]
pub struct Rechecks {
    oidc: Arc<Oidc>,
    sessions: Arc<Sessions>,
    policy_changes: PolicyChanges,
    clock: Clock,
    control: Handle,
    slots: Semaphore,
    has_warned: AtomicBool,
}

impl Rechecks {
    /// No check has run yet. `control` runs the checks.
    pub fn new(
        oidc: Arc<Oidc>,
        sessions: Arc<Sessions>,
        policy_changes: PolicyChanges,
        clock: Clock,
        control: Handle,
    ) -> Rechecks {
        Rechecks {
            oidc,
            sessions,
            policy_changes,
            clock,
            control,
            slots: Semaphore::new(MAX_CHECKS),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Starts a check in the background, if one is due.
    pub fn start_if_due(self: &Arc<Self>, sign_in: &Arc<SignIn>, now: Moment) {
        let recheck = self.sessions.store.recheck();
        if let Some(guard) = sign_in.start_check_if_due(now, recheck) {
            self.start(sign_in, guard, now, recheck);
        }
    }

    #[cold]
    fn start(
        self: &Arc<Self>,
        sign_in: &Arc<SignIn>,
        guard: IdentityCheckGuard,
        now: Moment,
        recheck: Duration,
    ) {
        let Some(provider) = self.provider(sign_in) else {
            return self.end_grant(sign_in);
        };
        if sign_in.tokens.refresh_token.load().is_none() {
            self.warn_of_missing_refresh_token();
            return;
        }
        if provider.outage.is_under_way(now) {
            sign_in.check().postpone(now, recheck, RETRY_PAUSE);
            return;
        }
        let this = self.clone();
        let sign_in = sign_in.clone();
        self.control.spawn(async move {
            this.recheck(&sign_in, RefreshPurpose::Confirmation).await;
            drop(guard);
        });
    }

    /// Waits for the required check of a sign-in that was loaded from Redis with an old
    /// confirmation. Returns whether the sign-in is valid now; if not, it was revoked, or the
    /// provider cannot be reached.
    pub async fn run_required(self: &Arc<Self>, sign_in: &Arc<SignIn>) -> bool {
        let this = self.clone();
        let checked = sign_in.clone();
        // A task of its own, because the refresh token may work only once: it must finish even when
        // the client disconnects.
        let check = self
            .control
            .spawn(async move { this.poll_required(&checked).await });
        let _ = tokio::time::timeout(CHECK_DEADLINE, check).await;
        !sign_in.check().is_required() && sign_in.is_live(self.clock.now())
    }

    async fn poll_required(&self, sign_in: &Arc<SignIn>) {
        let recheck = self.sessions.store.recheck();
        let end = tokio::time::Instant::now() + CHECK_DEADLINE;
        // Held while another replica checks, so that the other requests of this one wait too.
        let mut elsewhere = None;
        while sign_in.check().is_required() && tokio::time::Instant::now() < end {
            let now = self.clock.now();
            if !sign_in.is_live(now) {
                return;
            }
            let check = if self.is_provider_away(sign_in, now) {
                None
            } else {
                sign_in.start_check_if_due(now, recheck)
            };
            match check {
                Some(guard) => match self.recheck(sign_in, RefreshPurpose::Confirmation).await {
                    RecheckOutcome::Finished | RecheckOutcome::StoreNew => drop(guard),
                    RecheckOutcome::Elsewhere => elsewhere = Some(guard),
                    RecheckOutcome::StoreUnavailable => return,
                },
                None if sign_in.check().is_running() => {}
                None => return,
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        drop(elsewhere);
    }

    /// Checks a sign-in at the provider, unless another replica is doing so.
    async fn recheck(&self, sign_in: &Arc<SignIn>, purpose: RefreshPurpose) -> RecheckOutcome {
        // Closed only when the process stops.
        let Ok(_slot) = self.slots.acquire().await else {
            return RecheckOutcome::Finished;
        };
        if !sign_in.is_live(self.clock.now()) {
            return RecheckOutcome::Finished;
        }
        let recheck = self.sessions.store.recheck();
        match self
            .sessions
            .replication
            .acquire_refresh_lock(sign_in, purpose)
            .await
        {
            RefreshLockAttempt::Acquired(lock) => {
                self.refresh(sign_in).await;
                self.sessions
                    .replication
                    .release_refresh_lock(sign_in, lock)
                    .await;
            }
            RefreshLockAttempt::AlreadyRefreshed => {}
            RefreshLockAttempt::HeldElsewhere => {
                sign_in
                    .check()
                    .postpone(self.clock.now(), recheck, ELSEWHERE_PAUSE);
                return RecheckOutcome::Elsewhere;
            }
            // A refresh token that works once is not used while its successor cannot be stored.
            RefreshLockAttempt::Unavailable => {
                let (pause, outcome) = if self.sessions.replication.is_connected() {
                    (Duration::ZERO, RecheckOutcome::StoreNew)
                } else {
                    (RETRY_PAUSE, RecheckOutcome::StoreUnavailable)
                };
                sign_in.check().postpone(self.clock.now(), recheck, pause);
                return outcome;
            }
        }
        RecheckOutcome::Finished
    }

    async fn refresh(&self, sign_in: &Arc<SignIn>) {
        let Some(provider) = self.provider(sign_in) else {
            return self.end_grant(sign_in);
        };
        let replication = &self.sessions.replication;
        let outcome = provider.refresh.refresh(sign_in, replication).await;
        if sign_in.is_revoked() {
            // A sign-out during the call revoked the old refresh token; the new one is revoked
            // here.
            provider.logout.revoke_refresh_token(sign_in).await;
        }
        sign_in
            .check()
            .set_unusable(matches!(outcome, RefreshOutcome::Unusable(_)));
        match outcome {
            RefreshOutcome::Person(person) => {
                provider.outage.record_success();
                let before = sign_in.principal().clone();
                let changed =
                    before.groups() != person.groups() || before.is_admin != person.is_admin;
                let are_others_changed = before.claims != person.claims
                    || before.verified_email() != person.verified_email()
                    || before.are_groups_partial() != person.are_groups_partial();
                sign_in.update_principal(Arc::new(*person), self.clock.now());
                self.sessions.replication.save_changed(sign_in).await;
                if changed {
                    tracing::info!(
                        target: "audit", event = "groups_changed", subject = %before.subject,
                        session = sign_in.key().short(),
                    );
                }
                // Open streams are checked against what is known now.
                if changed || are_others_changed {
                    self.policy_changes.notify();
                }
            }
            RefreshOutcome::Revoked => {
                provider.outage.record_success();
                self.end_grant(sign_in);
            }
            RefreshOutcome::Unavailable(why) | RefreshOutcome::Unusable(why) => {
                tracing::warn!(
                    why,
                    "cannot check a signed-in person at the identity provider"
                );
                let now = self.clock.now();
                sign_in
                    .check()
                    .postpone(now, self.sessions.store.recheck(), RETRY_PAUSE);
                provider.outage.record_failure(now);
            }
        }
    }

    /// The provider of a sign-in; `None`: it is not configured any more, or the names of the person
    /// are those of a provider that was added.
    fn provider(&self, sign_in: &SignIn) -> Option<&Arc<SignInProvider>> {
        let provider = self.oidc.providers.of_sign_in(sign_in)?;
        provider.can_have(&sign_in.principal()).then_some(provider)
    }

    fn is_provider_away(&self, sign_in: &SignIn, now: Moment) -> bool {
        let providers = &self.oidc.providers;
        providers
            .get(sign_in.tokens.provider.as_ref())
            .is_some_and(|provider| provider.outage.is_under_way(now))
    }

    /// Revokes a sign-in whose provider does not confirm the person any more.
    fn end_grant(&self, sign_in: &Arc<SignIn>) {
        tracing::info!(
            target: "audit", event = "grant_ended", subject = %sign_in.principal().subject,
            session = sign_in.key().short(),
        );
        self.sessions.store.revoke(sign_in);
    }

    /// Waits for running checks, and starts no more: for a process that stops. The new refresh
    /// token of a running check must be stored.
    pub async fn finish(&self) {
        let all = u32::try_from(MAX_CHECKS).unwrap_or(u32::MAX);
        let finished = tokio::time::timeout(STOP_DEADLINE, self.slots.acquire_many(all)).await;
        // Closed before the slots are free again: a waiting check must not get one.
        self.slots.close();
        drop(finished);
    }

    /// Logs once that no check is possible.
    fn warn_of_missing_refresh_token(&self) {
        if !self.has_warned.swap(true, Relaxed) {
            tracing::warn!(
                "the provider gives no refresh tokens, so groups stay as they were at sign-in until the session ends; \
                 many give them for \"offline_access\" in identity.scopes"
            );
        }
    }
}
