//! Periodic checks of signed-in people at the provider (behaviour row 26): every `recheck`, in the
//! background, once for all requests that find the check due. A lost group ends the access that it
//! gave; a provider that does not answer changes nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{runtime::Handle, sync::Semaphore};

use super::oidc::{Oidc, refresh::RefreshOutcome};
use crate::{
    model::{clock::Clock, policy_changes::PolicyChanges},
    session::{record::SignIn, shared::RefreshLockAttempt, store::Sessions},
};

/// BySubject who are asked about at once; the others wait in the order they came.
const AT_ONCE: usize = 64;
/// A provider that said nothing is asked about the same person again after this long.
const RETRY: Duration = Duration::from_secs(30);
/// A process that stops waits for answers for so long.
const LAST_ANSWERS: Duration = Duration::from_secs(12);
/// What another replica is asking is known here after this long.
const SOON: Duration = Duration::from_secs(5);
/// After so many silences in a row nobody is asked about,
const SILENCES: u32 = 8;
/// for this long.
const REST: Duration = Duration::from_secs(10);

/// A request waits so long for the proof of a session that another replica has begun, and looks
/// this often whether it is there: another request, or another replica, may be asking.
const PROOF_DEADLINE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// WriteScope replica asks the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecheckOutcome {
    /// This one, as far as anybody does; it is over.
    Lookup,
    /// Another one, just now.
    Elsewhere,
    /// No provider call: the shared store is unavailable, or its connection is too new to be
    /// trusted.
    Nowhere,
}

/// Asks again.
#[derive(Debug)]
pub struct Rechecks {
    oidc: Arc<Oidc>,
    sessions: Arc<Sessions>,
    policy_changes: PolicyChanges,
    clock: Clock,
    control: Handle,
    turns: Semaphore,
    silences: AtomicU32,
    /// Until when nobody is asked about, in milliseconds of the clock.
    rests: AtomicU64,
    told: AtomicBool,
}

impl Rechecks {
    /// Nobody was asked about yet.
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
            turns: Semaphore::new(AT_ONCE),
            silences: AtomicU32::new(0),
            rests: AtomicU64::new(0),
            told: AtomicBool::new(false),
        }
    }

    /// Has the provider asked about a person again, when that is due; whoever noticed is not kept
    /// waiting.
    pub fn when_due(self: &Arc<Self>, sign_in: &Arc<SignIn>) {
        let (now, recheck) = (self.clock.now(), self.sessions.recheck());
        if !sign_in.is_proof_due(now, recheck) {
            return;
        }
        if sign_in.tokens.refresh_token.load().is_none() {
            self.tell();
            return;
        }
        if now.0 < self.rests.load(Relaxed) {
            sign_in.postpone(now, recheck, RETRY);
            return;
        }
        let Some(asking) = sign_in.ask() else { return };
        let (this, sign_in) = (self.clone(), sign_in.clone());
        self.control.spawn(async move {
            this.recheck(&sign_in).await;
            drop(asking);
        });
    }

    /// Waits until the person of a sign-in is proved that was loaded from the shared store with an
    /// old proof. Gives back whether it counts now; if not, it has ended, or the provider cannot be
    /// asked.
    pub async fn prove(self: &Arc<Self>, sign_in: &Arc<SignIn>) -> bool {
        let (this, asked) = (self.clone(), sign_in.clone());
        // To its end even when the browser goes away: the refresh token may work only once.
        let asking = self
            .control
            .spawn(async move { this.prove_now(&asked).await });
        let _ = tokio::time::timeout(PROOF_DEADLINE, asking).await;
        !sign_in.needs_proof() && sign_in.is_live(self.clock.now())
    }

    async fn prove_now(&self, sign_in: &Arc<SignIn>) {
        let recheck = self.sessions.recheck();
        let end = tokio::time::Instant::now() + PROOF_DEADLINE;
        let (mut asked_elsewhere, mut has_waited) = (false, false);
        while sign_in.needs_proof() && tokio::time::Instant::now() < end {
            let now = self.clock.now();
            if !sign_in.is_live(now) {
                return;
            }
            let may_ask = now.0 >= self.rests.load(Relaxed) && sign_in.is_proof_due(now, recheck);
            match if may_ask { sign_in.ask() } else { None } {
                Some(asking) => {
                    match self.recheck(sign_in).await {
                        RecheckOutcome::Lookup => {}
                        RecheckOutcome::Elsewhere => asked_elsewhere = true,
                        RecheckOutcome::Nowhere if !self.sessions.is_store_up() => return,
                        RecheckOutcome::Nowhere => {
                            sign_in.postpone(self.clock.now(), recheck, Duration::ZERO)
                        }
                    }
                    drop(asking);
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                None if sign_in.is_being_proved() || asked_elsewhere || !has_waited => {
                    // Once in any case: a request that found it due may not have begun to ask.
                    has_waited = true;
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                None => return,
            }
        }
    }

    /// Asks the provider about a sign-in, unless another replica is doing so.
    async fn recheck(&self, sign_in: &Arc<SignIn>) -> RecheckOutcome {
        // Never closed; an error would mean that the process ends.
        let Ok(_turn) = self.turns.acquire().await else {
            return RecheckOutcome::Lookup;
        };
        if !sign_in.is_live(self.clock.now()) {
            return RecheckOutcome::Lookup;
        }
        let recheck = self.sessions.recheck();
        match self.sessions.take_turn(sign_in).await {
            RefreshLockAttempt::Ours(lock) => {
                self.ask_in_turn(sign_in).await;
                self.sessions.give_turn_back(sign_in, lock).await;
            }
            RefreshLockAttempt::Adopted => {}
            RefreshLockAttempt::Theirs => {
                sign_in.postpone(self.clock.now(), recheck, SOON);
                return RecheckOutcome::Elsewhere;
            }
            // A token that works once is not spent while what comes of it could not be kept.
            RefreshLockAttempt::Unavailable => {
                sign_in.postpone(self.clock.now(), recheck, RETRY);
                return RecheckOutcome::Nowhere;
            }
        }
        RecheckOutcome::Lookup
    }

    async fn ask_in_turn(&self, sign_in: &Arc<SignIn>) {
        let again = self.oidc.ask_again(sign_in, &self.sessions).await;
        if sign_in.is_ended() {
            // A sign-out during the call revoked the old refresh token; the new one is revoked
            // here.
            self.oidc.revoke(sign_in).await;
        }
        sign_in.note_unprovable(matches!(again, RefreshOutcome::Unusable(_)));
        match again {
            RefreshOutcome::Person(person) => {
                self.silences.store(0, Relaxed);
                let before = sign_in.principal().clone();
                let changed =
                    before.groups() != person.groups() || before.is_admin != person.is_admin;
                sign_in.describe(Arc::new(*person), self.clock.now());
                self.sessions.keep_changed(sign_in).await;
                if changed {
                    tracing::info!(
                        target: "audit", event = "groups_changed", subject = %before.subject,
                        session = sign_in.key().short(),
                    );
                    // What is open is judged by them now.
                    self.policy_changes.notify();
                }
            }
            RefreshOutcome::Ended => {
                self.silences.store(0, Relaxed);
                tracing::info!(
                    target: "audit", event = "grant_ended", subject = %sign_in.principal().subject,
                    session = sign_in.key().short(),
                );
                self.sessions.end(sign_in);
            }
            RefreshOutcome::Unavailable(why) | RefreshOutcome::Unusable(why) => {
                tracing::warn!(
                    why,
                    "cannot check a signed-in person at the identity provider"
                );
                let now = self.clock.now();
                sign_in.postpone(now, self.sessions.recheck(), RETRY);
                if self.silences.fetch_add(1, Relaxed) + 1 >= SILENCES {
                    self.rests.store(now.after(REST).0, Relaxed);
                    self.silences.store(0, Relaxed);
                }
            }
        }
    }

    /// Waits for those who are being asked about, for a while, and asks about nobody afterwards:
    /// for a process that stops. The token that comes of an answer must be kept.
    pub async fn finish(&self) {
        let all = u32::try_from(AT_ONCE).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(LAST_ANSWERS, self.turns.acquire_many(all)).await;
        self.turns.close();
    }

    /// Says once that nobody can be asked about.
    fn tell(&self) {
        if !self.told.swap(true, Relaxed) {
            tracing::warn!(
                "the provider gives no refresh tokens, so groups stay as they were at sign-in until the session ends; \
                 many give them for \"offline_access\" in identity.scopes"
            );
        }
    }
}
