//! The memory store: bounded, shared by all threads; nothing in it waits.
//!
//! moka bounds the number of records (LRU, so that a new sign-in is never rejected). It has no
//! time-to-idle, because every look-up would slide it: the deadlines are in the records.

use std::{sync::Arc, time::Duration};

use super::{
    app_session_id::AppSessionId,
    app_sessions::AppSessions,
    by_subject::BySubject,
    cookie::{NewId, NoRandomness, RecordKey},
    deadlines::Deadlines,
    live::Live,
    metrics::SessionMetrics,
    provider_tokens::ProviderTokens,
    recently_expired::RecentlyExpired,
    record::{AppSession, RestoredSignIn, SignIn},
    remaining::Remaining,
    revocation_log::RevocationLog,
    settings::SessionSettings,
    sign_ins::SignIns,
};
use crate::model::{
    app::AppId,
    clock::{Clock, Moment, millis},
    policy_changes::PolicyChanges,
    principal::Principal,
    vhost::VirtualHost,
};

/// Records that a sweep looks at before it yields and runs moka's housekeeping: moka makes the next
/// caller do it after as many changes.
pub(super) const SWEEP_BATCH: usize = 64;

/// All sessions in the memory of this process.
#[derive(Debug)]
pub struct SessionStore {
    sign_ins: SignIns,
    apps: AppSessions,
    by_subject: BySubject,
    recently_expired: RecentlyExpired,
    settings: SessionSettings,
    clock: Clock,
    policy_changes: PolicyChanges,
    metrics: Arc<SessionMetrics>,
    /// `None`: there are no other replicas.
    revocations: Option<Arc<RevocationLog>>,
}

impl SessionStore {
    /// An empty store. Revocations are published from the log, if there is one.
    pub(super) fn new(
        settings: SessionSettings,
        clock: Clock,
        policy_changes: PolicyChanges,
        metrics: Arc<SessionMetrics>,
        revocations: Option<Arc<RevocationLog>>,
    ) -> SessionStore {
        SessionStore {
            sign_ins: SignIns::new(settings.sign_in_bytes),
            apps: AppSessions::new(settings.app_session_bytes),
            by_subject: BySubject::default(),
            recently_expired: RecentlyExpired::new(),
            settings,
            clock,
            policy_changes,
            metrics,
            revocations,
        }
    }

    /// Finds the live session for an app at an origin: the app's own if one is presented, else the
    /// sign-in.
    ///
    /// Several cookies of one name are candidates; exactly one must be valid. An app session whose
    /// sign-in is not presented with it is ignored. On the site the sign-in's cookie is required:
    /// the app's cookie has no `__Host-` prefix there, so a page on a sibling host could set it in
    /// a browser that is signed out, and its user would work in another person's session. A session
    /// that a token started has no such cookie.
    pub fn find<'c>(
        &self,
        app_cookies: impl Iterator<Item = &'c [u8]>,
        sign_in_cookies: impl Iterator<Item = &'c [u8]>,
        app: &AppId,
        vhost: &VirtualHost,
        now: Moment,
    ) -> Option<Live> {
        let mut presented = 0;
        let sign_in_keys: [Option<RecordKey>; 4] = {
            let mut keys = sign_in_cookies
                .inspect(|_| presented += 1)
                .filter_map(RecordKey::parse);
            std::array::from_fn(|_| keys.next())
        };
        let matches_sign_in = |session: &AppSession| match presented {
            0 => *vhost != VirtualHost::Site || session.sign_in().tokens.is_for_token(),
            _ => sign_in_keys.contains(&Some(session.sign_in().key())),
        };
        let session = only(
            app_cookies
                .filter_map(RecordKey::parse)
                .filter_map(|key| self.apps.get(&key))
                .filter(|session| {
                    session.is_for(app, vhost) && session.is_live(now) && matches_sign_in(session)
                }),
        );
        if let Some(session) = session {
            return Some(Live::App(session));
        }
        only(
            sign_in_keys
                .iter()
                .flatten()
                .filter_map(|key| self.sign_ins.get(key))
                .filter(|sign_in| sign_in.is_live(now)),
        )
        .map(Live::SignIn)
    }

    /// Finds the live sign-in that one of the cookies names.
    pub fn find_sign_in<'c>(
        &self,
        cookies: impl Iterator<Item = &'c [u8]>,
        now: Moment,
    ) -> Option<Arc<SignIn>> {
        only(
            cookies
                .filter_map(RecordKey::parse)
                .filter_map(|key| self.sign_ins.get(&key))
                .filter(|sign_in| sign_in.is_live(now)),
        )
    }

    /// The live sign-in of a token of another system.
    pub fn find_for_token(&self, key: &RecordKey, now: Moment) -> Option<Arc<SignIn>> {
        self.sign_ins
            .get(key)
            .filter(|sign_in| sign_in.is_live(now))
    }

    /// The live sign-ins of a person, oldest first.
    pub fn live_sign_ins(&self, subject: &str) -> Vec<Arc<SignIn>> {
        let now = self.clock.now();
        let mut sign_ins = self.by_subject.of_subject(subject);
        sign_ins.retain(|sign_in| sign_in.is_live(now));
        sign_ins
    }

    /// Starts a sign-in under a new id.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn begin(
        &self,
        principal: Arc<Principal>,
        tokens: ProviderTokens,
    ) -> Result<(NewId, Arc<SignIn>), NoRandomness> {
        let id = NewId::random()?;
        let sign_in = Arc::new(self.new_sign_in(id.key(), principal, tokens));
        self.sign_ins.insert(sign_in.clone());
        self.index(&sign_in);
        Ok((id, sign_in))
    }

    /// Starts the sign-in of a token of another system. It has no cookie of its own: the next
    /// request with the token finds it, and its app sessions depend on it.
    pub fn begin_for_token(
        &self,
        key: RecordKey,
        principal: Arc<Principal>,
        tokens: ProviderTokens,
    ) -> Arc<SignIn> {
        // An expired one must not be found in place of the new one.
        if let Some(old) = self
            .sign_ins
            .get(&key)
            .filter(|old| !old.is_live(self.clock.now()))
        {
            self.revoke_local(&old);
        }
        // Of many requests with one token at once, one starts the sign-in, and all get that one.
        let (sign_in, is_new) = self
            .sign_ins
            .get_or_insert_with(key, || self.new_sign_in(key, principal, tokens));
        if is_new {
            self.index(&sign_in);
        }
        sign_in
    }

    /// Continues a sign-in of the handoff file. The person is checked again soon.
    pub(super) fn restore_sign_in(
        &self,
        key: RecordKey,
        principal: Arc<Principal>,
        tokens: ProviderTokens,
        remaining: Remaining,
    ) -> Arc<SignIn> {
        let now = self.clock.now();
        let restored = RestoredSignIn {
            key,
            principal,
            tokens,
            remaining,
            confirmed_at: Moment(now.0.saturating_sub(millis(self.settings.recheck))),
            started_at: self.clock.wall_seconds(),
            version: 1,
            stored_version: 0,
            requires_check: false,
        };
        let sign_in = Arc::new(SignIn::restore(restored, now, &self.settings));
        self.sign_ins.insert(sign_in.clone());
        self.index(&sign_in);
        sign_in
    }

    /// Inserts a sign-in that was loaded from Redis. All tasks that load it at once get the same.
    pub(super) fn insert_loaded(&self, restored: RestoredSignIn) -> Arc<SignIn> {
        let loaded = Arc::new(SignIn::restore(restored, self.clock.now(), &self.settings));
        let sign_in = self.sign_ins.insert_unless_present(&loaded);
        if Arc::ptr_eq(&sign_in, &loaded) {
            self.index(&sign_in);
        }
        sign_in
    }

    /// Makes the session of one app at one origin, which may have an idle time of its own; the
    /// oldest of the sign-in may be removed for it. `None` when the system has no random bytes.
    pub fn mint(
        &self,
        sign_in: &Arc<SignIn>,
        app: &AppId,
        vhost: &VirtualHost,
        own_idle: Option<Duration>,
    ) -> Option<(NewId, Arc<AppSession>)> {
        let new_id = NewId::random().ok()?;
        let id = AppSessionId {
            key: new_id.key(),
            app: app.clone(),
            vhost: *vhost,
            started_at: self.clock.wall_seconds(),
            own_idle,
        };
        let now = self.clock.now();
        let session = AppSession::new(id, sign_in.clone(), now, self.settings.idle);
        let session = self.insert_app_session(Arc::new(session));
        Some((new_id, session))
    }

    /// Continues an app session that another process made.
    pub(super) fn restore_app_session(
        &self,
        id: AppSessionId,
        sign_in: &Arc<SignIn>,
        remaining: Remaining,
    ) -> Arc<AppSession> {
        let now = self.clock.now();
        let idle = self.settings.idle;
        let session = AppSession::restore(id, sign_in.clone(), now, idle, remaining);
        self.insert_app_session(Arc::new(session))
    }

    fn insert_app_session(&self, session: Arc<AppSession>) -> Arc<AppSession> {
        let session = self.apps.insert(session);
        if let Some(oldest) = session.sign_in().add_app_session(&session) {
            self.apps.remove(&oldest);
            if let Some(revocations) = &self.revocations {
                revocations.discard_app_session(oldest);
            }
        }
        session
    }

    /// Records use: an authorized request, or bytes of an open stream. Slides the deadlines.
    pub fn touch(&self, live: &Live, now: Moment) {
        let has_moved = match live {
            Live::App(session) => session.touch(now),
            Live::SignIn(sign_in) => sign_in.touch(now),
        };
        if has_moved {
            // Once a second at most. The order of eviction depends on this, not on look-ups.
            let _ = self.sign_ins.get(&live.sign_in().key());
            if let Live::App(session) = live {
                self.apps.record_use(session);
            }
        }
    }

    /// Revokes a sign-in, its app sessions and its streams on every replica.
    pub fn revoke(&self, sign_in: &SignIn) {
        // The log first: a read that is under way must not restore the sign-in in between.
        if let Some(revocations) = &self.revocations {
            revocations.revoke_sign_in(sign_in.key(), Some(sign_in.started_at()));
        }
        self.revoke_local(sign_in);
    }

    /// Revokes a sign-in without publishing that: another replica did, or no other replica has it.
    pub(super) fn revoke_local(&self, sign_in: &SignIn) {
        sign_in.revoke();
        self.sign_ins.remove(sign_in);
        self.policy_changes.notify();
    }

    /// Revokes and removes one app session, without publishing that.
    pub(super) fn revoke_app_session_local(&self, session: &AppSession) {
        session.revoke();
        self.apps.remove(&session.key());
    }

    /// The log of revocations, if there are other replicas.
    pub(super) fn revocations(&self) -> Option<&Arc<RevocationLog>> {
        self.revocations.as_ref()
    }

    /// The subject of the first of these cookies whose session is live or has expired recently.
    pub fn owner<'c>(&self, mut cookies: impl Iterator<Item = &'c [u8]>) -> Option<Arc<str>> {
        cookies.find_map(|cookie| self.recent_owner(std::iter::once(cookie)))
    }

    /// The subject of the sessions of these cookies, if they are live or have expired less than one
    /// idle time ago. `None` for revoked sessions, and for sessions of two people.
    pub fn recent_owner<'c>(&self, cookies: impl Iterator<Item = &'c [u8]>) -> Option<Arc<str>> {
        let now = self.clock.now();
        let mut owners = cookies
            .filter_map(RecordKey::parse)
            .filter_map(|key| self.recent_owner_of(&key, now));
        let first = owners.next()?;
        owners.all(|other| other == first).then_some(first)
    }

    fn recent_owner_of(&self, key: &RecordKey, now: Moment) -> Option<Arc<str>> {
        let is_recent = |deadlines| now < self.remembered_until(deadlines);
        if let Some(sign_in) = self.sign_ins.get(key) {
            let is_owned = !sign_in.is_revoked() && is_recent(sign_in.deadlines());
            return is_owned.then(|| Arc::from(&*sign_in.principal().subject));
        }
        if let Some(session) = self.apps.get(key) {
            let is_owned = !session.is_revoked() && is_recent(session.deadlines());
            return is_owned.then(|| Arc::from(&*session.sign_in().principal().subject));
        }
        self.recently_expired.subject(key, now)
    }

    fn remembered_until(&self, deadlines: &Deadlines) -> Moment {
        Moment(
            deadlines
                .expires_at()
                .saturating_add(millis(self.settings.idle)),
        )
    }

    /// The sign-in of a key, live or not.
    pub(super) fn sign_in_by_key(&self, key: &RecordKey) -> Option<Arc<SignIn>> {
        self.sign_ins.get(key)
    }

    /// The app session of a key, live or not.
    pub(super) fn app_session_by_key(&self, key: &RecordKey) -> Option<Arc<AppSession>> {
        self.apps.get(key)
    }

    /// All sign-ins, live or not.
    pub(super) fn sign_ins(&self) -> impl Iterator<Item = Arc<SignIn>> {
        self.sign_ins.iter()
    }

    /// All app sessions, live or not.
    pub(super) fn app_sessions(&self) -> impl Iterator<Item = Arc<AppSession>> {
        self.apps.iter()
    }

    /// The sign-ins of each person.
    pub(super) fn by_subject(&self) -> &BySubject {
        &self.by_subject
    }

    /// The metrics of sessions.
    pub fn metrics(&self) -> &SessionMetrics {
        &self.metrics
    }

    /// The clock of all deadlines.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Notifies streams that may have to end.
    pub(super) fn policy_changes(&self) -> &PolicyChanges {
        &self.policy_changes
    }

    /// A session expires after this long without use.
    pub(super) fn idle(&self) -> Duration {
        self.settings.idle
    }

    /// The interval of the identity checks.
    pub fn recheck(&self) -> Duration {
        self.settings.recheck
    }

    /// Whether any sign-in would be live at that moment without further use.
    pub fn any_live_at(&self, moment: Moment) -> bool {
        self.sign_ins().any(|sign_in| sign_in.is_live(moment))
    }

    /// The number of records, expired ones included. Runs moka's housekeeping: for the control
    /// runtime, not for a data thread.
    pub fn count(&self) -> u64 {
        self.sign_ins.count() + self.apps.count()
    }

    /// Removes expired and revoked records, a batch at a time. Runs on the control runtime.
    ///
    /// Cancel safety: may be dropped at any point.
    pub(super) async fn sweep(&self) {
        let mut seen = 0;
        for session in self.apps.iter() {
            if !session.is_live(self.clock.now()) {
                if !session.is_revoked() {
                    self.remember_expired(session.key(), session.sign_in(), session.deadlines());
                }
                self.apps.remove(&session.key());
            }
            seen += 1;
            if seen % SWEEP_BATCH == 0 {
                self.yield_in_sweep().await;
            }
        }
        for sign_in in self.sign_ins.iter() {
            if !sign_in.is_live(self.clock.now()) {
                if !sign_in.is_revoked() {
                    self.remember_expired(sign_in.key(), &sign_in, sign_in.deadlines());
                }
                self.sign_ins.remove(&sign_in);
            }
            seen += 1;
            if seen % SWEEP_BATCH == 0 {
                self.sign_ins.run_housekeeping();
                tokio::task::yield_now().await;
            }
        }
        self.by_subject.sweep(self.clock.now());
        let count = i64::try_from(self.count()).unwrap_or(i64::MAX);
        self.metrics.records.set(count);
    }

    /// Runs the housekeeping of app sessions and lets other tasks run.
    pub(super) async fn yield_in_sweep(&self) {
        self.apps.run_housekeeping();
        tokio::task::yield_now().await;
    }

    fn remember_expired(&self, key: RecordKey, sign_in: &SignIn, deadlines: &Deadlines) {
        let until = self.remembered_until(deadlines);
        if self.clock.now() < until {
            let subject = Arc::from(&*sign_in.principal().subject);
            self.recently_expired.insert(key, subject, until);
        }
    }

    fn new_sign_in(
        &self,
        key: RecordKey,
        principal: Arc<Principal>,
        tokens: ProviderTokens,
    ) -> SignIn {
        let started_at = match &self.revocations {
            Some(revocations) => revocations.start_after_revocation(&key),
            None => self.clock.wall_seconds(),
        };
        let now = self.clock.now();
        SignIn::new(key, principal, tokens, now, started_at, &self.settings)
    }

    /// Indexes a sign-in by its person; the person's oldest one may be revoked for it.
    fn index(&self, sign_in: &Arc<SignIn>) {
        if let Some(oldest) = self.by_subject.insert(sign_in, self.clock.now()) {
            self.revoke(&oldest);
        }
    }
}

/// The only item; `None` for two: with two valid cookies the user is unknown.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    match (items.next(), items.next()) {
        (Some(item), None) => Some(item),
        (None | Some(_), _) => None,
    }
}

mod recent_sign_in;
#[cfg(test)]
mod tests;
