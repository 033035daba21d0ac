//! The memory store: bounded, shared by all threads, and nothing on it waits.
//!
//! moka bounds the number of records (LRU: a new sign-in is never the one that is refused); it is given no
//! time-to-idle, because every look-up would slide it. Whether a record counts is in the record alone.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use moka::{notification::RemovalCause, ops::compute::Op, policy::EvictionPolicy, sync::Cache};

use super::{
    Settings,
    cookie::{NewId, NoRandomness, RecordKey},
    handover::Tickets,
    key_is_hash::KeyIsHash,
    record::{AppSession, ProviderTokens, SignIn},
};
use crate::{
    lifecycle::streams::Alarm,
    model::{
        app::AppId,
        clock::{Clock, Moment},
        place::Place,
        principal::Principal,
    },
    telemetry::metrics::Metrics,
};

/// Records looked at before the sweep lets others run.
const SWEEP_BATCH: usize = 512;
/// Sign-ins one person may have at once; one more ends the oldest, so that nobody can push others out.
const PER_PERSON: usize = 50;
/// What one app session record holds, with its place in the table, in bytes.
const APP_SESSION_WEIGHT: u32 = 600;

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

/// All sessions of the process.
#[derive(Debug)]
pub struct Sessions {
    sign_ins: Cache<RecordKey, Arc<SignIn>, KeyIsHash>,
    apps: Cache<RecordKey, Arc<AppSession>, KeyIsHash>,
    /// The sign-ins of each person, oldest first. Locked at a sign-in and by the sweep, never for a request.
    people: Mutex<HashMap<Box<str>, VecDeque<Weak<SignIn>>>>,
    /// What a sign-in takes with it from the site to an app's own host.
    pub tickets: Tickets,
    settings: Settings,
    clock: Clock,
    alarm: Alarm,
    metrics: Arc<Metrics>,
}

impl Sessions {
    /// An empty store.
    pub fn new(settings: Settings, clock: Clock, alarm: Alarm, metrics: Arc<Metrics>) -> Sessions {
        Sessions {
            sign_ins: Cache::builder()
                .max_capacity(settings.sign_in_bytes)
                .eviction_policy(EvictionPolicy::lru())
                .weigher(|_, sign_in: &Arc<SignIn>| sign_in.weight())
                // One that had to make room is over for its app sessions too, which hold it by themselves:
                // otherwise they would live on where sign-out no longer finds them.
                .eviction_listener(|_, sign_in, cause| {
                    if cause != RemovalCause::Replaced {
                        sign_in.end();
                    }
                })
                .build_with_hasher(KeyIsHash),
            apps: Cache::builder()
                .max_capacity(settings.app_session_bytes)
                .eviction_policy(EvictionPolicy::lru())
                .weigher(|_, _| APP_SESSION_WEIGHT)
                .build_with_hasher(KeyIsHash),
            people: Mutex::default(),
            tickets: Tickets::new(),
            settings,
            clock,
            alarm,
            metrics,
        }
    }

    /// Finds the session that counts for an app at a place: its own if one is presented, else the sign-in.
    ///
    /// Several cookies of one name are candidates; exactly one must hold. An app session whose sign-in is
    /// not the one presented with it counts as absent.
    pub fn find<'c>(
        &self,
        app_cookies: impl Iterator<Item = &'c [u8]>,
        sign_in_cookies: impl Iterator<Item = &'c [u8]>,
        app: &AppId,
        place: &Place,
        now: Moment,
    ) -> Option<Live> {
        let mut presented = 0;
        let sign_in_keys: [Option<RecordKey>; 4] = {
            let mut keys = sign_in_cookies.inspect(|_| presented += 1).filter_map(RecordKey::of);
            std::array::from_fn(|_| keys.next())
        };
        let matches_sign_in =
            |session: &AppSession| presented == 0 || sign_in_keys.contains(&Some(session.sign_in().key()));
        let session =
            only(app_cookies.filter_map(RecordKey::of).filter_map(|key| self.apps.get(&key)).filter(
                |session| session.is_for(app, place) && session.is_live(now) && matches_sign_in(session),
            ));
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
        self.metrics.lookup(if sign_in.is_some() { "sign_in" } else { "none" });
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
                .filter_map(RecordKey::of)
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
        let sign_in = SignIn::begin(id.key(), principal, tokens, self.clock.now(), &self.settings);
        let sign_in = Arc::new(sign_in);
        self.sign_ins.insert(id.key(), sign_in.clone());
        if let Some(oldest) = self.remember(&sign_in) {
            self.end(&oldest);
        }
        Ok((id, sign_in))
    }

    /// Begins the sign-in that a token of another system stands for. It has no cookie of its own: whoever
    /// presents the token again finds it, and its app sessions stand on it.
    pub fn begin_for_token(
        &self,
        key: RecordKey,
        principal: Arc<Principal>,
        tokens: ProviderTokens,
    ) -> Arc<SignIn> {
        // What is over must not be found in place of what begins.
        if let Some(old) = self.sign_ins.get(&key).filter(|old| !old.is_live(self.clock.now())) {
            self.end(&old);
        }
        // Of many who come with one token at once, one begins, and all get that one.
        let began = std::cell::Cell::new(false);
        let sign_in = self.sign_ins.get_with(key, || {
            began.set(true);
            Arc::new(SignIn::begin(key, principal, tokens, self.clock.now(), &self.settings))
        });
        if began.get()
            && let Some(oldest) = self.remember(&sign_in)
        {
            self.end(&oldest);
        }
        sign_in
    }

    /// The live sign-in of a token.
    pub fn find_for_token(&self, key: &RecordKey, now: Moment) -> Option<Arc<SignIn>> {
        self.sign_ins.get(key).filter(|sign_in| sign_in.is_live(now))
    }

    /// How long a proof of who somebody is holds before it is asked for again.
    pub fn recheck(&self) -> std::time::Duration {
        self.settings.recheck
    }

    /// Notes whose sign-in it is; gives back the one that must go for it.
    fn remember(&self, sign_in: &Arc<SignIn>) -> Option<Arc<SignIn>> {
        let now = self.clock.now();
        let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = people.entry(sign_in.principal().subject.clone()).or_default();
        mine.retain(|other| other.upgrade().is_some_and(|other| other.is_live(now)));
        mine.push_back(Arc::downgrade(sign_in));
        if mine.len() > PER_PERSON { mine.pop_front().and_then(|oldest| oldest.upgrade()) } else { None }
    }

    /// Makes the session of one app at one place; of too many of one sign-in the oldest ends. `None` when the
    /// system has no random bytes.
    pub fn mint(
        &self,
        sign_in: &Arc<SignIn>,
        app: &AppId,
        place: &Place,
    ) -> Option<(NewId, Arc<AppSession>)> {
        let id = NewId::random().ok()?;
        let (now, idle) = (self.clock.now(), self.settings.idle);
        let session = AppSession::begin(app.clone(), *place, sign_in.clone(), now, idle);
        let session = Arc::new(session);
        self.apps.insert(id.key(), session.clone());
        if let Some(oldest) = sign_in.note_session(id.key(), app, place) {
            self.apps.invalidate(&oldest);
        }
        Some((id, session))
    }

    /// An authorised request, or bytes that count as use: the deadlines move on.
    pub fn touch(&self, live: &Live, now: Moment) {
        let moved = match live {
            Live::App(session) => session.touch(now),
            Live::SignIn(sign_in) => sign_in.touch(now),
        };
        if moved {
            // Once a second at most: keeps the sign-in young in the LRU order although only its app
            // session is looked up.
            let _ = self.sign_ins.get(&live.sign_in().key());
        }
    }

    /// Ends a sign-in, its app sessions and its streams.
    pub fn end(&self, sign_in: &SignIn) {
        sign_in.end();
        self.forget(sign_in);
        self.alarm.ring();
    }

    /// Ends what a person's tokens of another system have begun, in whichever browser.
    pub fn end_for_tokens_of(&self, subject: &str) {
        let theirs: Vec<Arc<SignIn>> = {
            let people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
            people.get(subject).into_iter().flatten().filter_map(Weak::upgrade).collect()
        };
        for sign_in in theirs.iter().filter(|sign_in| sign_in.tokens.arvados.is_some()) {
            self.end(sign_in);
        }
    }

    /// Ends what a person's tokens of the console have begun, in whichever browser; gives back the apps on paths whose
    /// sessions went with it.
    pub fn end_for_console_tokens_of(&self, subject: &str) -> Vec<AppId> {
        let theirs: Vec<Arc<SignIn>> = {
            let people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
            people.get(subject).into_iter().flatten().filter_map(Weak::upgrade).collect()
        };
        let by_console = theirs.iter().filter(|sign_in| sign_in.tokens.console.is_some());
        by_console.inspect(|sign_in| self.end(sign_in)).flat_map(|sign_in| sign_in.apps()).collect()
    }

    /// Takes this very sign-in out of the table, and not one that has begun under the same key since.
    fn forget(&self, sign_in: &SignIn) {
        let _ = self.sign_ins.entry(sign_in.key()).and_compute_with(|found| match found {
            Some(found) if std::ptr::eq(Arc::as_ptr(found.value()), sign_in) => Op::Remove,
            Some(_) | None => Op::Nop,
        });
    }

    /// Whether any sign-in would still count at that moment, were it not used until then.
    pub fn any_live_at(&self, moment: Moment) -> bool {
        self.sign_ins.iter().any(|(_, sign_in)| sign_in.is_live(moment))
    }

    /// How many records are held, expired ones included. Does moka's housekeeping: for
    /// the control runtime, not for a data thread.
    pub fn count(&self) -> u64 {
        self.sign_ins.run_pending_tasks();
        self.apps.run_pending_tasks();
        self.sign_ins.entry_count() + self.apps.entry_count()
    }

    /// Forgets what no longer counts, a batch at a time. Runs on the control runtime.
    ///
    /// Cancel safety: may be dropped at any point.
    pub async fn sweep(&self) {
        let mut seen = 0;
        for (key, session) in &self.apps {
            if !session.is_live(self.clock.now()) {
                self.apps.invalidate(&*key);
            }
            seen += 1;
            if seen % SWEEP_BATCH == 0 {
                tokio::task::yield_now().await;
            }
        }
        for (_, sign_in) in &self.sign_ins {
            if !sign_in.is_live(self.clock.now()) {
                self.forget(&sign_in);
            }
            seen += 1;
            if seen % SWEEP_BATCH == 0 {
                tokio::task::yield_now().await;
            }
        }
        let now = self.clock.now();
        self.tickets.sweep(now);
        self.people.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, sign_ins| {
            sign_ins.retain(|sign_in| sign_in.upgrade().is_some_and(|sign_in| sign_in.is_live(now)));
            !sign_ins.is_empty()
        });
        self.metrics.sessions.set(i64::try_from(self.count()).unwrap_or(i64::MAX));
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
