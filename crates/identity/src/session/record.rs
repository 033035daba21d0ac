//! The records: a sign-in, and the app sessions that depend on it.
//!
//! An app session never outlives its sign-in. Both types are in one file because each refers to
//! the other: the session holds its sign-in, and the sign-in lists its sessions weakly, so that it
//! can bound their number.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, Guard};

use super::{
    access_token::KeptAccessToken, app_session_id::AppSessionId, console_token::TokenFingerprint,
    cookie::RecordKey, deadlines::Deadlines, identity_check::IdentityCheck,
    provider_tokens::ProviderTokens, remaining::Remaining, settings::SessionSettings,
};
use crate::model::{
    app::AppId, clock::Moment, principal::Principal, secret::Secret, vhost::VirtualHost,
};

/// App sessions of one sign-in: of all apps together, and of one app at one origin. The oldest
/// makes room for a new one, so that a client without a cookie jar neither fills the store nor
/// locks itself out.
const MAX_SESSIONS: usize = 256;
const MAX_SESSIONS_PER_APP: usize = 64;

/// One person, signed in with one browser.
#[derive(Debug)]
pub struct SignIn {
    key: RecordKey,
    principal: ArcSwap<Principal>,
    /// The tokens that were issued with it.
    pub tokens: ProviderTokens,
    deadlines: Deadlines,
    revoked: AtomicBool,
    app_sessions: Mutex<AppSessionList>,
    check: IdentityCheck,
    /// Grows with every change; of two copies, the one with the higher version is newer.
    version: AtomicU64,
    /// The version that Redis has; 0: none.
    stored_version: AtomicU64,
    /// Wall clock, in seconds.
    started_at: i64,
    /// Held while the content and the version change together.
    update: Mutex<()>,
}

/// The app sessions of a sign-in. Locked only when one is made and at sign-out.
#[derive(Debug, Default)]
struct AppSessionList {
    /// The oldest first; dropped ones leave the list when the next one is made.
    sessions: VecDeque<Weak<AppSession>>,
    /// The apps on paths, whose cookies the site can clear.
    apps: BTreeSet<AppId>,
}

/// A sign-in that another process started.
pub(crate) struct RestoredSignIn {
    pub(crate) key: RecordKey,
    pub(crate) principal: Arc<Principal>,
    pub(crate) tokens: ProviderTokens,
    pub(crate) remaining: Remaining,
    pub(crate) confirmed_at: Moment,
    /// Wall clock, in seconds.
    pub(crate) started_at: i64,
    pub(crate) version: u64,
    /// The version that Redis has; 0: none.
    pub(crate) stored_version: u64,
    /// Group and owner rules wait until the provider has confirmed the person again: with write
    /// access to Redis one can restore an old record. Without effect on sign-ins that have no
    /// refresh token, and on those of another system's token, which is checked by itself.
    pub(crate) requires_check: bool,
}

/// A newer copy of a sign-in, as another replica stored it.
pub(crate) struct SignInUpdate {
    pub(crate) version: u64,
    pub(crate) principal: Arc<Principal>,
    pub(crate) refresh_token: Option<Arc<Secret>>,
    pub(crate) access_token: Option<Arc<KeptAccessToken>>,
    pub(crate) confirmed_at: Moment,
    /// Whether the confirmation is younger than `recheck`.
    pub(crate) is_fresh: bool,
}

impl SignIn {
    /// A sign-in that starts now; `started_at` is the same moment by the wall clock, in seconds.
    pub(crate) fn new(
        key: RecordKey,
        principal: Arc<Principal>,
        tokens: ProviderTokens,
        now: Moment,
        started_at: i64,
        settings: &SessionSettings,
    ) -> SignIn {
        let absolute_deadline = now.after(settings.lifetime).0;
        SignIn {
            key,
            principal: ArcSwap::new(principal),
            tokens,
            deadlines: Deadlines::new(now, settings.idle, absolute_deadline),
            revoked: AtomicBool::new(false),
            app_sessions: Mutex::default(),
            check: IdentityCheck::new(now, key.jitter(), false),
            version: AtomicU64::new(1),
            stored_version: AtomicU64::new(0),
            started_at,
            update: Mutex::default(),
        }
    }

    /// A sign-in that continues with the time it has left.
    pub(crate) fn restore(
        restored: RestoredSignIn,
        now: Moment,
        settings: &SessionSettings,
    ) -> SignIn {
        let RestoredSignIn {
            key,
            principal,
            tokens,
            remaining,
            confirmed_at,
            started_at,
            version,
            stored_version,
            requires_check,
        } = restored;
        let can_be_checked = tokens.refresh_token.load().is_some() && !tokens.is_for_token();
        let is_required = requires_check && can_be_checked;
        SignIn {
            deadlines: Deadlines::restore(now, settings.idle, remaining),
            check: IdentityCheck::new(confirmed_at, key.jitter(), is_required),
            version: AtomicU64::new(version),
            stored_version: AtomicU64::new(stored_version),
            ..SignIn::new(key, principal, tokens, now, started_at, settings)
        }
    }

    /// The key of its record.
    pub fn key(&self) -> RecordKey {
        self.key
    }

    /// When it started, by the wall clock in seconds. It distinguishes the sign-in from a revoked
    /// one with the same key.
    pub(crate) fn started_at(&self) -> i64 {
        self.started_at
    }

    /// The person as the provider last described them.
    pub fn principal(&self) -> Guard<Arc<Principal>> {
        self.principal.load()
    }

    /// The state of the periodic identity checks.
    pub fn check(&self) -> &IdentityCheck {
        &self.check
    }

    /// Starts an identity check; `None` while another one runs: a refresh token that works once
    /// must not be presented twice, however long the first call takes.
    pub fn start_check(self: &Arc<Self>) -> Option<IdentityCheckGuard> {
        self.check
            .try_start()
            .then(|| IdentityCheckGuard(self.clone()))
    }

    /// Starts the next periodic check, if it is due and no check runs.
    pub fn start_check_if_due(
        self: &Arc<Self>,
        now: Moment,
        recheck: Duration,
    ) -> Option<IdentityCheckGuard> {
        self.check
            .try_start_due(now, recheck)
            .then(|| IdentityCheckGuard(self.clone()))
    }

    /// Replaces the description of the person, who was just confirmed.
    pub fn update_principal(&self, principal: Arc<Principal>, now: Moment) {
        let _update = self.update.lock().unwrap_or_else(PoisonError::into_inner);
        self.principal.store(principal);
        self.check.confirm(now);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Replaces the refresh token with the one that the provider issued for it.
    pub(crate) fn replace_refresh_token(&self, token: Secret) {
        let _update = self.update.lock().unwrap_or_else(PoisonError::into_inner);
        self.tokens.refresh_token.store(Some(Arc::new(token)));
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Replaces the access token for apps. Returns whether there is a change.
    pub(crate) fn replace_access_token(&self, token: Option<Arc<KeptAccessToken>>) -> bool {
        let _update = self.update.lock().unwrap_or_else(PoisonError::into_inner);
        let is_some = token.is_some();
        let has_changed = self.tokens.access_token.swap(token).is_some() || is_some;
        if has_changed {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
        has_changed
    }

    /// Records that another token of the console has confirmed the person. `expires` is in seconds
    /// since 1970.
    pub fn confirm_by_console_token(
        &self,
        principal: Arc<Principal>,
        token: TokenFingerprint,
        expires: i64,
        now: Moment,
    ) {
        self.update_principal(principal, now);
        if let Some(console) = &self.tokens.console {
            console.replace(token, expires);
        }
        self.check.restart_interval(now);
    }

    /// Applies what another replica stored, unless this copy is as new. Returns whether it was
    /// newer.
    pub(crate) fn apply_update(&self, update: SignInUpdate) -> bool {
        let _update = self.update.lock().unwrap_or_else(PoisonError::into_inner);
        if update.version <= self.version.load(Ordering::Acquire) {
            return false;
        }
        self.principal.store(update.principal);
        self.tokens.refresh_token.store(update.refresh_token);
        self.tokens.access_token.store(update.access_token);
        self.version.store(update.version, Ordering::Release);
        self.stored_version.store(update.version, Ordering::Release);
        self.check.adopt(update.confirmed_at, update.is_fresh);
        true
    }

    /// Of two copies, the one with the higher version is newer.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Records that Redis has this version.
    pub(crate) fn mark_stored(&self, version: u64) {
        self.stored_version.store(version, Ordering::Release);
    }

    /// Whether Redis has the current version.
    pub(crate) fn is_stored(&self) -> bool {
        self.deadlines.is_stored() && self.stored_version.load(Ordering::Acquire) == self.version()
    }

    /// Its deadlines.
    pub fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// Whether it was revoked; an expired one was not.
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Whether it is neither revoked nor expired.
    pub fn is_live(&self, now: Moment) -> bool {
        !self.revoked.load(Ordering::Acquire) && self.deadlines.is_live(now)
    }

    /// The time until it expires.
    pub fn remaining(&self, now: Moment) -> Remaining {
        self.deadlines.remaining(now)
    }

    /// Slides the idle deadline. Returns whether it moved, at most once a second.
    pub(crate) fn touch(&self, now: Moment) -> bool {
        self.deadlines.slide(now)
    }

    /// Revokes it and all its app sessions. Returns whether it was not revoked before.
    pub(crate) fn revoke(&self) -> bool {
        !self.revoked.swap(true, Ordering::AcqRel)
    }

    /// Adds an app session to the list. Returns the key of the oldest one if there are too many;
    /// the caller removes it.
    pub(crate) fn add_app_session(&self, session: &Arc<AppSession>) -> Option<RecordKey> {
        let mut list = self
            .app_sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let app = session.app();
        let vhost = session.vhost();
        if *vhost == VirtualHost::Site && !list.apps.contains(app) {
            list.apps.insert(app.clone());
        }
        // A session that was loaded again is in the list already.
        list.sessions.retain(|other| {
            other
                .upgrade()
                .is_some_and(|other| other.key != session.key)
        });
        let same = |other: &Weak<AppSession>| {
            other
                .upgrade()
                .is_some_and(|other| other.is_for(app, vhost))
        };
        let too_many =
            list.sessions.iter().filter(|session| same(session)).count() >= MAX_SESSIONS_PER_APP;
        let oldest = if too_many {
            list.sessions
                .iter()
                .position(same)
                .and_then(|at| list.sessions.remove(at))
        } else if list.sessions.len() >= MAX_SESSIONS {
            list.sessions.pop_front()
        } else {
            None
        };
        list.sessions.push_back(Arc::downgrade(session));
        oldest
            .and_then(|oldest| oldest.upgrade())
            .map(|oldest| oldest.key)
    }

    /// The apps on paths that were given a cookie, so that sign-out can clear it.
    pub fn apps(&self) -> Vec<AppId> {
        let list = self
            .app_sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        list.apps.iter().cloned().collect()
    }

    /// Its approximate size in bytes, for the bound of the store.
    pub(crate) fn weight(&self) -> u32 {
        let person = self.principal.load();
        let groups: usize = person.groups().iter().map(|g| g.as_str().len() + 24).sum();
        let claims = person.claims.iter().map(|claim| {
            let values = claim.values.iter().map(|value| value.len() + 16);
            claim.pointer.as_str().len() + 32 + values.sum::<usize>()
        });
        let claims: usize = claims.sum();
        let tokens = self.tokens.size();
        // Groups are held twice: sorted, and as a header value.
        u32::try_from(1024 + 2 * groups + claims + tokens).unwrap_or(u32::MAX)
    }
}

/// A running identity check; dropping it lets the next one start.
#[derive(Debug)]
pub struct IdentityCheckGuard(Arc<SignIn>);

impl Drop for IdentityCheckGuard {
    fn drop(&mut self) {
        self.0.check.finish();
    }
}

/// The session of one person with one app at one origin.
#[derive(Debug)]
pub struct AppSession {
    key: RecordKey,
    app: AppId,
    /// The origin, if it is not the site. Boxed, because a label is larger than all the rest.
    other_vhost: Option<Box<VirtualHost>>,
    sign_in: Arc<SignIn>,
    deadlines: Deadlines,
    revoked: AtomicBool,
    /// The idle time of its deadlines is that of its app, not `session.idle`.
    has_own_idle: bool,
    /// The second of the clock in which it was last used.
    used_in_second: AtomicU32,
    /// Wall clock, in seconds.
    started_at: i64,
}

impl AppSession {
    /// A session that starts now and ends no later than its sign-in. `idle` is that of all
    /// sessions.
    pub(crate) fn new(
        id: AppSessionId,
        sign_in: Arc<SignIn>,
        now: Moment,
        idle: Duration,
    ) -> AppSession {
        let absolute_deadline = sign_in.deadlines.absolute_deadline();
        let deadlines = Deadlines::new(now, id.idle(idle), absolute_deadline);
        AppSession::with_deadlines(id, sign_in, deadlines)
    }

    /// A session that another process started.
    pub(crate) fn restore(
        id: AppSessionId,
        sign_in: Arc<SignIn>,
        now: Moment,
        idle: Duration,
        remaining: Remaining,
    ) -> AppSession {
        let deadlines = Deadlines::restore(now, id.idle(idle), remaining);
        AppSession::with_deadlines(id, sign_in, deadlines)
    }

    fn with_deadlines(id: AppSessionId, sign_in: Arc<SignIn>, deadlines: Deadlines) -> AppSession {
        AppSession {
            key: id.key,
            app: id.app,
            has_own_idle: id.own_idle.is_some(),
            other_vhost: (id.vhost != VirtualHost::Site).then(|| Box::new(id.vhost)),
            sign_in,
            deadlines,
            revoked: AtomicBool::new(false),
            used_in_second: AtomicU32::new(0),
            started_at: id.started_at,
        }
    }

    /// The key of its record.
    pub fn key(&self) -> RecordKey {
        self.key
    }

    /// The app.
    pub fn app(&self) -> &AppId {
        &self.app
    }

    /// The origin.
    pub fn vhost(&self) -> &VirtualHost {
        self.other_vhost.as_deref().unwrap_or(&VirtualHost::Site)
    }

    /// Whether it was made for this app at this origin; it is not valid anywhere else.
    pub fn is_for(&self, app: &AppId, vhost: &VirtualHost) -> bool {
        self.app == *app && self.vhost() == vhost
    }

    /// The sign-in it depends on.
    pub fn sign_in(&self) -> &Arc<SignIn> {
        &self.sign_in
    }

    /// When it started, by the wall clock in seconds.
    pub(crate) fn started_at(&self) -> i64 {
        self.started_at
    }

    /// Its deadlines.
    pub(crate) fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// The idle time of its app; `None`: that of all sessions.
    pub(crate) fn own_idle(&self) -> Option<Duration> {
        self.has_own_idle.then(|| self.deadlines.idle())
    }

    /// The time until it expires.
    pub fn remaining(&self, now: Moment) -> Remaining {
        self.deadlines.remaining(now)
    }

    /// Whether it and its sign-in are neither revoked nor expired.
    pub fn is_live(&self, now: Moment) -> bool {
        !self.revoked.load(Ordering::Acquire)
            && self.deadlines.is_live(now)
            && self.sign_in.is_live(now)
    }

    /// Whether it or its sign-in was revoked; an expired one was not.
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire) || self.sign_in.is_revoked()
    }

    /// Revokes it; the sign-in stays valid and may open the app again.
    pub fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
    }

    /// Slides its deadline and that of its sign-in. True once a second, for the caller that keeps
    /// the order of use.
    pub(crate) fn touch(&self, now: Moment) -> bool {
        self.deadlines.slide(now);
        self.sign_in.touch(now);
        // Truncated on purpose: only a change of the second matters.
        let second = (now.0 / 1000) as u32;
        let is_new = self.used_in_second.load(Ordering::Relaxed) != second;
        if is_new {
            self.used_in_second.store(second, Ordering::Relaxed);
        }
        is_new
    }
}
