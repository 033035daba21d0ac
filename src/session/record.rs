//! The records: a sign-in, the app sessions that stand on it, and their deadlines.
//!
//! The truth about time is in the record, on the injected clock: `idle` slides with use, at most once a
//! second; `lifetime` never moves. An app session never outlives its sign-in.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, Guard};

use super::{
    Settings,
    console_token::{ConsoleToken, Short},
    cookie::RecordKey,
};
use crate::model::{
    app::AppId,
    clock::{Moment, millis},
    place::Place,
    principal::Principal,
    secret::Secret,
};

/// The sliding deadline is written at most this often, in milliseconds.
const SLIDE_EVERY: u64 = 1000;
/// App sessions one sign-in may have: of all apps together, and of one app at one place. One more ends the oldest,
/// so that a client that never keeps its cookie fills nothing, and locks nobody out either.
const MOST_SESSIONS: usize = 256;
const MOST_OF_ONE: usize = 64;

/// Both deadlines of a record, in milliseconds of the clock.
#[derive(Debug)]
struct Window {
    idle: u64,
    idle_deadline: AtomicU64,
    absolute_deadline: u64,
}

impl Window {
    fn open(now: Moment, idle: Duration, absolute_deadline: u64) -> Window {
        let idle = millis(idle);
        let idle_deadline = AtomicU64::new(now.0.saturating_add(idle).min(absolute_deadline));
        Window { idle, idle_deadline, absolute_deadline }
    }

    fn is_open(&self, now: Moment) -> bool {
        now.0 < self.idle_deadline.load(Ordering::Relaxed) && now.0 < self.absolute_deadline
    }

    fn slide(&self, now: Moment) -> bool {
        // What is over stays over: a byte that comes late does not bring a session back.
        if !self.is_open(now) {
            return false;
        }
        let next = now.0.saturating_add(self.idle).min(self.absolute_deadline);
        let current = self.idle_deadline.load(Ordering::Relaxed);
        // Relaxed and unsynchronised on purpose: a lost race costs one slide of under a second.
        let due = next >= current.saturating_add(SLIDE_EVERY);
        if due {
            self.idle_deadline.store(next, Ordering::Relaxed);
        }
        due
    }
}

/// What a finished sign-in leaves behind for later: refresh and sign-out at the provider.
#[derive(Debug, Default)]
pub struct ProviderTokens {
    /// For `id_token_hint`.
    pub id_token: Option<Secret>,
    /// To read the membership again.
    pub refresh_token: Option<Secret>,
    /// The provider's own session id (`sid`), for back-channel sign-out.
    pub session_id: Option<Box<str>>,
    /// The Arvados token that began it: kept to ask again whether it still holds.
    pub arvados: Option<Secret>,
    /// What is remembered of the console's token that began it, or that proved it last.
    pub console: Option<ConsoleToken>,
}

/// One person, signed in with one browser.
#[derive(Debug)]
pub struct SignIn {
    key: RecordKey,
    principal: ArcSwap<Principal>,
    /// Tokens, each sent to nobody but who gave it out.
    pub tokens: ProviderTokens,
    window: Window,
    ended: AtomicBool,
    minted: Mutex<Minted>,
    /// When the person was last proved, in milliseconds of the clock.
    proved: AtomicU64,
}

/// The app sessions that a sign-in has made. Locked only when one is made and at sign-out.
#[derive(Debug, Default)]
struct Minted {
    /// The oldest first.
    sessions: VecDeque<(RecordKey, AppId, Place)>,
    /// Those on paths, whose cookies the site can take away again.
    apps: BTreeSet<AppId>,
}

impl SignIn {
    /// A sign-in that begins now.
    pub fn begin(
        key: RecordKey,
        principal: Arc<Principal>,
        tokens: ProviderTokens,
        now: Moment,
        settings: &Settings,
    ) -> SignIn {
        let absolute = now.after(settings.lifetime).0;
        SignIn {
            key,
            principal: ArcSwap::new(principal),
            tokens,
            window: Window::open(now, settings.idle, absolute),
            ended: AtomicBool::new(false),
            minted: Mutex::default(),
            proved: AtomicU64::new(now.0),
        }
    }

    /// The key of its record.
    pub fn key(&self) -> RecordKey {
        self.key
    }

    /// The person as last described by who vouches for them.
    pub fn principal(&self) -> Guard<Arc<Principal>> {
        self.principal.load()
    }

    /// Replaces the description: they were asked about again.
    pub fn describe(&self, principal: Arc<Principal>) {
        self.principal.store(principal);
    }

    /// Whether it counts now.
    pub fn is_live(&self, now: Moment) -> bool {
        !self.ended.load(Ordering::Acquire) && self.window.is_open(now)
    }

    /// It was used.
    pub fn touch(&self, now: Moment) -> bool {
        self.window.slide(now)
    }

    /// Ends it, and with it every app session; gives back whether it was still going.
    pub fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// Whether the proof is older than this; says so to one caller only, who is to ask for another. Should
    /// that one fail, the next is due as much later.
    pub fn is_proof_due(&self, now: Moment, recheck: Duration) -> bool {
        let proved = self.proved.load(Ordering::Relaxed);
        now.0 >= proved.saturating_add(millis(recheck))
            && self.proved.compare_exchange(proved, now.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether the proof is older than this.
    pub fn is_proof_old(&self, now: Moment, recheck: Duration) -> bool {
        now.0 >= self.proved.load(Ordering::Relaxed).saturating_add(millis(recheck))
    }

    /// A token of the console has proved the person again.
    pub fn prove(&self, principal: Arc<Principal>, token: Short, expires: i64, now: Moment) {
        self.describe(principal);
        if let Some(console) = &self.tokens.console {
            console.replace(token, expires);
        }
        self.proved.store(now.0, Ordering::Relaxed);
    }

    /// Notes an app session that was made; gives back the one that must go for it.
    pub fn note_session(&self, key: RecordKey, app: &AppId, place: &Place) -> Option<RecordKey> {
        let mut minted = self.minted.lock().unwrap_or_else(PoisonError::into_inner);
        if *place == Place::Site {
            minted.apps.insert(app.clone());
        }
        let same = |(_, of, at): &(RecordKey, AppId, Place)| of == app && at == place;
        let too_many = minted.sessions.iter().filter(|session| same(session)).count() >= MOST_OF_ONE;
        let oldest = if too_many {
            minted.sessions.iter().position(same).and_then(|at| minted.sessions.remove(at))
        } else if minted.sessions.len() >= MOST_SESSIONS {
            minted.sessions.pop_front()
        } else {
            None
        };
        minted.sessions.push_back((key, app.clone(), *place));
        oldest.map(|(key, _, _)| key)
    }

    /// The apps on paths that were given a cookie, so that sign-out can take it away.
    pub fn apps(&self) -> Vec<AppId> {
        let minted = self.minted.lock().unwrap_or_else(PoisonError::into_inner);
        minted.apps.iter().cloned().collect()
    }

    /// Roughly how many bytes it holds, for the store's bound.
    pub fn weight(&self) -> u32 {
        let person = self.principal.load();
        let groups: usize = person.groups().iter().map(|g| g.as_str().len() + 24).sum();
        let token = |t: &Option<Secret>| t.as_ref().map_or(0, |t| t.expose().len());
        let ProviderTokens { id_token, refresh_token, arvados, session_id: _, console: _ } = &self.tokens;
        let tokens = token(id_token) + token(refresh_token) + token(arvados);
        // The groups stand twice: sorted, and as a header value.
        u32::try_from(1024 + 2 * groups + tokens).unwrap_or(u32::MAX)
    }
}

/// The session of one person with one app at one place.
#[derive(Debug)]
pub struct AppSession {
    app: AppId,
    place: Place,
    sign_in: Arc<SignIn>,
    window: Window,
}

impl AppSession {
    /// A session that begins now and ends no later than its sign-in.
    pub fn begin(app: AppId, place: Place, sign_in: Arc<SignIn>, now: Moment, idle: Duration) -> AppSession {
        let window = Window::open(now, idle, sign_in.window.absolute_deadline);
        AppSession { app, place, sign_in, window }
    }

    /// Whether it was made for this app at this place; at any other it is no session.
    pub fn is_for(&self, app: &AppId, place: &Place) -> bool {
        self.app == *app && self.place == *place
    }

    /// The sign-in it stands on.
    pub fn sign_in(&self) -> &Arc<SignIn> {
        &self.sign_in
    }

    /// Whether it counts now.
    pub fn is_live(&self, now: Moment) -> bool {
        self.window.is_open(now) && self.sign_in.is_live(now)
    }

    /// It was used: it and its sign-in live on. Says whether the sign-in's deadline moved.
    pub fn touch(&self, now: Moment) -> bool {
        self.window.slide(now);
        self.sign_in.touch(now)
    }
}
