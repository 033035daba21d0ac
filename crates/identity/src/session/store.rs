//! The memory store: bounded, shared by all threads, and nothing on it waits.
//!
//! moka bounds the number of records (LRU: a new sign-in is never the one that is refused); it is
//! given no time-to-idle, because every look-up would slide it. Whether a record counts is in the
//! record alone.

mod app_sessions;
mod endings;
mod lapsed;
mod people;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use moka::{notification::RemovalCause, ops::compute::Op, policy::EvictionPolicy, sync::Cache};

use super::{
    SessionSettings,
    cookie::{NewId, NoRandomness, RecordKey},
    handover::Tickets,
    key_is_hash::KeyIsHash,
    metrics::SessionMetrics,
    record::{AppSession, ProviderTokens, SignIn},
    redis::Redis,
    written::Remaining,
};
use crate::model::{
    app::AppId,
    clock::{Clock, Moment, millis},
    policy_changes::PolicyChanges,
    principal::Principal,
    vhost::VirtualHost,
};
use app_sessions::AppSessions;
use lapsed::RecentlyExpired;
use people::BySubject;

/// Records looked at before the sweep lets others run, and settles what it took out, or the next
/// request would have to: as many as moka takes in before it has whoever comes next do it.
const SWEEP_BATCH: usize = 64;
/// Things that are good once, and are remembered; each is of use for minutes.
const MAX_USED: u64 = 100_000;

/// A live session that was found on a request.
#[derive(Clone, Debug)]
pub enum Live {
    /// The app's own session.
    App(Arc<AppSession>),
    /// Only the sign-in: the app has no session yet.
    SignIn(Arc<SignIn>),
}

impl Live {
    /// The sign-in behind it.
    pub fn sign_in(&self) -> &Arc<SignIn> {
        match self {
            Live::App(session) => session.sign_in(),
            Live::SignIn(sign_in) => sign_in,
        }
    }

    /// Whether it counts now.
    pub fn is_live(&self, now: Moment) -> bool {
        match self {
            Live::App(session) => session.is_live(now),
            Live::SignIn(sign_in) => sign_in.is_live(now),
        }
    }
}

/// Who begins something, with the tokens that prove it.
pub type Begun = (Arc<Principal>, ProviderTokens);

/// All sessions of the process.
#[derive(Debug)]
pub struct Sessions {
    sign_ins: Cache<RecordKey, Arc<SignIn>, KeyIsHash>,
    apps: AppSessions,
    /// The sign-ins of each person, oldest first. Locked at a sign-in and by the sweep, never for a
    /// request.
    people: Mutex<BySubject>,
    /// What a sign-in takes with it from the site to an app's own host.
    pub tickets: Tickets,
    /// What is good once, and was used.
    pub(super) used: Cache<RecordKey, ()>,
    /// Whose sessions ended by themselves a while ago.
    lapsed: RecentlyExpired,
    settings: SessionSettings,
    clock: Clock,
    policy_changes: PolicyChanges,
    metrics: Arc<SessionMetrics>,
    /// Where replicas share them; `None`: nowhere.
    redis: Option<Redis>,
}

impl Sessions {
    /// An empty store.
    pub fn new(
        settings: SessionSettings,
        clock: Clock,
        policy_changes: PolicyChanges,
        metrics: Arc<SessionMetrics>,
    ) -> Sessions {
        Sessions {
            sign_ins: Cache::builder()
                .max_capacity(settings.sign_in_bytes)
                .eviction_policy(EvictionPolicy::lru())
                .weigher(|_, sign_in: &Arc<SignIn>| sign_in.weight())
                // One that had to make room is over for its app sessions too, which hold it by
                // themselves: otherwise they would live on where sign-out no longer finds them.
                .eviction_listener(|_, sign_in, cause| {
                    if cause != RemovalCause::Replaced {
                        sign_in.end();
                    }
                })
                .build_with_hasher(KeyIsHash),
            apps: AppSessions::new(settings.app_session_bytes),
            people: Mutex::default(),
            tickets: Tickets::new(),
            used: Cache::builder()
                .max_capacity(MAX_USED)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            lapsed: RecentlyExpired::default(),
            settings,
            clock,
            policy_changes,
            metrics,
            redis: None,
        }
    }

    /// What is counted of them.
    pub fn metrics(&self) -> &SessionMetrics {
        &self.metrics
    }

    /// The same, shared with replicas.
    #[must_use]
    pub fn sharing(self, redis: Redis) -> Sessions {
        Sessions {
            redis: Some(redis),
            ..self
        }
    }

    /// What replicas share, if they do.
    pub fn redis(&self) -> Option<&Redis> {
        self.redis.as_ref()
    }

    /// Finds the session that counts for an app at a place: its own if one is presented, else the
    /// sign-in.
    ///
    /// Several cookies of one name are candidates; exactly one must hold. An app session whose
    /// sign-in is not the one presented with it counts as absent. On the site it needs that
    /// sign-in's cookie beside it: its own has no `__Host-` prefix there, so a page on a sibling
    /// host could set it in a browser that is signed out, whose person would then work in another
    /// person's session. A session that a token has begun has no such cookie.
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
            self.metrics.lookup("app");
            return Some(Live::App(session));
        }
        let sign_in = only(
            sign_in_keys
                .iter()
                .flatten()
                .filter_map(|key| self.sign_ins.get(key))
                .filter(|sign_in| sign_in.is_live(now)),
        );
        self.metrics
            .lookup(if sign_in.is_some() { "sign_in" } else { "none" });
        sign_in.map(Live::SignIn)
    }

    /// Finds the sign-in that one of the cookies names.
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

    /// Begins a sign-in under a new id.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn begin(
        &self,
        principal: Arc<Principal>,
        tokens: ProviderTokens,
    ) -> Result<(NewId, Arc<SignIn>), NoRandomness> {
        let id = NewId::random()?;
        let sign_in = Arc::new(self.new_sign_in(id.key(), (principal, tokens)));
        self.sign_ins.insert(id.key(), sign_in.clone());
        self.make_room_for(&sign_in);
        Ok((id, sign_in))
    }

    /// A sign-in that another process has begun, under its key.
    pub fn begin_restored(
        &self,
        key: RecordKey,
        principal: Arc<Principal>,
        tokens: ProviderTokens,
        left: Remaining,
    ) -> Arc<SignIn> {
        let now = self.clock.now();
        // Who it is of is to be proved again soon.
        let due = Moment(now.0.saturating_sub(millis(self.settings.recheck)));
        let sign_in = SignIn::restore(key, (principal, tokens), now, &self.settings, (left, due));
        let sign_in = Arc::new(sign_in.begun_at(self.clock.wall_seconds()));
        self.sign_ins.insert(key, sign_in.clone());
        self.make_room_for(&sign_in);
        sign_in
    }

    /// A sign-in that another replica has begun then, as the shared store has it. Of many who bring
    /// one at once all get the same.
    pub(super) fn begin_brought(
        &self,
        key: RecordKey,
        (principal, tokens): Begun,
        (left, proved): (Remaining, Moment),
        (begun, version): (i64, u64),
    ) -> Arc<SignIn> {
        let now = self.clock.now();
        let brought = SignIn::restore(
            key,
            (principal, tokens),
            now,
            &self.settings,
            (left, proved),
        );
        let brought = brought.begun_at(begun).at_version(version);
        let is_fresh = self.is_fresh(proved);
        let brought = Arc::new(if is_fresh {
            brought
        } else {
            brought.requiring_proof()
        });
        let kept = self
            .sign_ins
            .entry(key)
            .and_compute_with(|found| match found {
                Some(found) if !found.value().is_ended() => Op::Nop,
                Some(_) | None => Op::Put(brought.clone()),
            });
        let kept = kept
            .into_entry()
            .map_or_else(|| brought.clone(), |entry| entry.into_value());
        if Arc::ptr_eq(&kept, &brought) {
            self.make_room_for(&kept);
        }
        kept
    }

    /// Whether a proof of that moment still holds.
    pub(super) fn is_fresh(&self, proved: Moment) -> bool {
        self.clock.now() < proved.after(self.settings.recheck)
    }

    fn new_sign_in(&self, key: RecordKey, (principal, tokens): Begun) -> SignIn {
        let begun = match &self.redis {
            Some(redis) => redis.begins(&key),
            None => self.clock.wall_seconds(),
        };
        SignIn::begin(key, principal, tokens, self.clock.now(), &self.settings).begun_at(begun)
    }

    /// Notes whose it is; of too many of one person the oldest ends.
    fn make_room_for(&self, sign_in: &Arc<SignIn>) {
        if let Some(oldest) = self.remember(sign_in) {
            self.end(&oldest);
        }
    }

    /// An app session that another process has made.
    pub fn mint_restored(
        &self,
        key: RecordKey,
        sign_in: &Arc<SignIn>,
        (app, vhost): (AppId, VirtualHost),
        (left, begun): (Remaining, i64),
    ) {
        let (now, idle) = (self.clock.now(), self.settings.idle);
        let session = AppSession::restore(key, (app, vhost), sign_in.clone(), now, (idle, left));
        let session = self.apps.insert(Arc::new(session.begun_at(begun)));
        self.forget_app(sign_in.note_session(&session));
    }

    /// One that made room for another.
    fn forget_app(&self, key: Option<RecordKey>) {
        let Some(key) = key else { return };
        self.apps.remove(&key);
        if let Some(redis) = &self.redis {
            redis.forget_app(key);
        }
    }

    /// This moment.
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Time.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What is rung when something ends.
    pub(super) fn policy_changes(&self) -> &PolicyChanges {
        &self.policy_changes
    }

    /// A session ends after so long without use.
    pub(super) fn idle(&self) -> Duration {
        self.settings.idle
    }

    /// The sign-in of a key, whether it still counts or not.
    pub(super) fn sign_in_by_key(&self, key: &RecordKey) -> Option<Arc<SignIn>> {
        self.sign_ins.get(key)
    }

    /// The app session of a key, whether it still counts or not.
    pub(super) fn app_by_key(&self, key: &RecordKey) -> Option<Arc<AppSession>> {
        self.apps.get(key)
    }

    /// Every app session, whether it still counts or not.
    pub(super) fn every_app(&self) -> impl Iterator<Item = Arc<AppSession>> {
        self.apps.iter()
    }

    /// Every sign-in, whether it still counts or not.
    pub fn every(&self) -> impl Iterator<Item = Arc<SignIn>> {
        self.sign_ins.iter().map(|(_, sign_in)| sign_in)
    }

    /// Every app session, by the sign-in it stands on.
    pub fn app_sessions_by_sign_in(&self) -> HashMap<RecordKey, Vec<Arc<AppSession>>> {
        let mut sessions: HashMap<RecordKey, Vec<Arc<AppSession>>> = HashMap::new();
        for session in self.apps.iter() {
            sessions
                .entry(session.sign_in().key())
                .or_default()
                .push(session);
        }
        sessions
    }

    /// Begins the sign-in that a token of another system stands for. It has no cookie of its own:
    /// whoever presents the token again finds it, and its app sessions stand on it.
    pub fn begin_for_token(
        &self,
        key: RecordKey,
        principal: Arc<Principal>,
        tokens: ProviderTokens,
    ) -> Arc<SignIn> {
        // What is over must not be found in place of what begins.
        if let Some(old) = self
            .sign_ins
            .get(&key)
            .filter(|old| !old.is_live(self.clock.now()))
        {
            self.end_here(&old);
        }
        // Of many who come with one token at once, one begins, and all get that one.
        let began = std::cell::Cell::new(false);
        let sign_in = self.sign_ins.get_with(key, || {
            began.set(true);
            Arc::new(self.new_sign_in(key, (principal, tokens)))
        });
        if began.get() {
            self.make_room_for(&sign_in);
        }
        sign_in
    }

    /// The live sign-in of a token.
    pub fn find_for_token(&self, key: &RecordKey, now: Moment) -> Option<Arc<SignIn>> {
        self.sign_ins
            .get(key)
            .filter(|sign_in| sign_in.is_live(now))
    }

    /// How long a proof of who somebody is holds before it is asked for again.
    pub fn recheck(&self) -> Duration {
        self.settings.recheck
    }

    /// Makes the session of one app at one place; of too many of one sign-in the oldest ends.
    /// `None` when the system has no random bytes.
    pub fn mint(
        &self,
        sign_in: &Arc<SignIn>,
        app: &AppId,
        vhost: &VirtualHost,
    ) -> Option<(NewId, Arc<AppSession>)> {
        let id = NewId::random().ok()?;
        let (now, idle) = (self.clock.now(), self.settings.idle);
        let session =
            AppSession::begin(id.key(), (app.clone(), *vhost), sign_in.clone(), now, idle);
        let session = self
            .apps
            .insert(Arc::new(session.begun_at(self.clock.wall_seconds())));
        self.forget_app(sign_in.note_session(&session));
        Some((id, session))
    }

    /// An authorised request, or bytes that count as use: the deadlines move on.
    pub fn touch(&self, live: &Live, now: Moment) {
        let moved = match live {
            Live::App(session) => session.touch(now),
            Live::SignIn(sign_in) => sign_in.touch(now),
        };
        if moved {
            // Once a second at most: keeps both young in the order of use, of which looking them up
            // says nothing.
            let _ = self.sign_ins.get(&live.sign_in().key());
            if let Live::App(session) = live {
                self.apps.keep_young(session);
            }
        }
    }

    /// Whether any sign-in would still count at that moment, were it not used until then.
    pub fn any_live_at(&self, moment: Moment) -> bool {
        self.sign_ins
            .iter()
            .any(|(_, sign_in)| sign_in.is_live(moment))
    }

    /// How many records are held, expired ones included. Does moka's housekeeping: for
    /// the control runtime, not for a data thread.
    pub fn count(&self) -> u64 {
        self.sign_ins.run_pending_tasks();
        self.sign_ins.entry_count() + self.apps.count()
    }

    /// Forgets what no longer counts, a batch at a time. Runs on the control runtime.
    ///
    /// Cancel safety: may be dropped at any point.
    pub async fn sweep(&self) {
        let mut seen = 0;
        for session in self.apps.iter() {
            if !session.is_live(self.clock.now()) {
                self.lapse(
                    session.key(),
                    session.sign_in(),
                    session.window(),
                    session.is_ended(),
                );
                self.apps.remove(&session.key());
            }
            seen += 1;
            if seen % SWEEP_BATCH == 0 {
                self.apps.settle();
                tokio::task::yield_now().await;
            }
        }
        for (_, sign_in) in &self.sign_ins {
            if !sign_in.is_live(self.clock.now()) {
                self.lapse(
                    sign_in.key(),
                    &sign_in,
                    sign_in.window(),
                    sign_in.is_ended(),
                );
                self.forget(&sign_in);
            }
            seen += 1;
            if seen % SWEEP_BATCH == 0 {
                self.sign_ins.run_pending_tasks();
                tokio::task::yield_now().await;
            }
        }
        let now = self.clock.now();
        self.tickets.sweep(now);
        self.sweep_people(now);
        self.metrics
            .records
            .set(i64::try_from(self.count()).unwrap_or(i64::MAX));
    }
}

/// The only item, or none when there are two: two valid answers to "who is it" are no answer.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    match (items.next(), items.next()) {
        (Some(item), None) => Some(item),
        (None | Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests;
