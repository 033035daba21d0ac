//! The records: a sign-in, the app sessions that stand on it, and their deadlines.
//!
//! The truth about time is in the record, on the injected clock: `idle` slides with use, at most
//! once a second; `lifetime` never moves. An app session never outlives its sign-in.

pub mod window;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};

use super::{
    SessionSettings,
    console_token::{ConsoleToken, TokenFingerprint},
    cookie::RecordKey,
    written::Remaining,
};
use crate::model::{
    app::AppId,
    clock::{Moment, millis},
    principal::Principal,
    secret::Secret,
    vhost::VirtualHost,
};

use window::Deadlines;

/// App sessions one sign-in may have: of all apps together, and of one app at one place. One more
/// ends the oldest, so that a client that never keeps its cookie fills nothing, and locks nobody
/// out either.
const MOST_SESSIONS: usize = 256;
const MOST_OF_ONE: usize = 64;

/// What a finished sign-in leaves behind for later: refresh and sign-out at the provider.
#[derive(Debug, Default)]
pub struct ProviderTokens {
    /// For `id_token_hint`.
    pub id_token: Option<Secret>,
    /// To read the membership again.
    pub refresh_token: ArcSwapOption<Secret>,
    /// The provider's own session id (`sid`), for back-channel sign-out.
    pub session_id: Option<Box<str>>,
    /// The Arvados token that began it: kept to ask again whether it still holds.
    pub arvados: Option<Secret>,
    /// What is remembered of the console's token that began it, or that proved it last.
    pub console: Option<ConsoleToken>,
}

impl ProviderTokens {
    /// Whether the sign-in stands on a token of another system, and has no cookie of its own.
    pub fn is_for_token(&self) -> bool {
        self.arvados.is_some() || self.console.is_some()
    }
}

/// One person, signed in with one browser.
#[derive(Debug)]
pub struct SignIn {
    key: RecordKey,
    principal: ArcSwap<Principal>,
    /// TokenEndpointResponse, each sent to nobody but who gave it out.
    pub tokens: ProviderTokens,
    window: Deadlines,
    ended: AtomicBool,
    minted: Mutex<Minted>,
    /// When the person was last proved, in milliseconds of the clock.
    proved: AtomicU64,
    /// From when on the next proof is counted: the last, or the last try, likewise.
    asked: AtomicU64,
    /// Somebody asks for another proof now.
    asking: AtomicBool,
    /// It was loaded from the shared store with a proof older than `recheck`, and the person was
    /// not proved since.
    needs_proof: AtomicBool,
    /// The provider's last answer did not identify the person.
    unprovable: AtomicBool,
    /// Grows with every change of what it says: of two, the higher is the newer.
    version: AtomicU64,
    /// The version that the shared store has; 0: none.
    told: AtomicU64,
    /// When it began, by the wall clock in seconds.
    begun: i64,
    /// Held while what it says and its version change together.
    changing: Mutex<()>,
}

/// The app sessions that a sign-in has made. Locked only when one is made and at sign-out.
#[derive(Debug, Default)]
struct Minted {
    /// The oldest first; those that are gone drop out when the next is made.
    sessions: VecDeque<Weak<AppSession>>,
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
        settings: &SessionSettings,
    ) -> SignIn {
        let absolute = now.after(settings.lifetime).0;
        SignIn {
            key,
            principal: ArcSwap::new(principal),
            tokens,
            window: Deadlines::open(now, settings.idle, absolute),
            ended: AtomicBool::new(false),
            minted: Mutex::default(),
            proved: AtomicU64::new(now.0),
            asked: AtomicU64::new(now.0),
            asking: AtomicBool::new(false),
            needs_proof: AtomicBool::new(false),
            unprovable: AtomicBool::new(false),
            version: AtomicU64::new(1),
            told: AtomicU64::new(0),
            begun: 0,
            changing: Mutex::default(),
        }
    }

    /// As which version the shared store has it, from where it comes.
    pub fn at_version(self, version: u64) -> SignIn {
        SignIn {
            version: AtomicU64::new(version),
            told: AtomicU64::new(version),
            ..self
        }
    }

    /// When it began by the wall clock, in seconds: what was ended before is another.
    pub fn begun_at(self, begun: i64) -> SignIn {
        SignIn { begun, ..self }
    }

    /// When it began by the wall clock, in seconds.
    pub fn begun(&self) -> i64 {
        self.begun
    }

    /// One that another process has begun, and when the person was last proved there.
    pub fn restore(
        key: RecordKey,
        (principal, tokens): (Arc<Principal>, ProviderTokens),
        now: Moment,
        settings: &SessionSettings,
        (left, proved): (Remaining, Moment),
    ) -> SignIn {
        let window = Deadlines::restore(now, settings.idle, left);
        let (proved, asked) = (AtomicU64::new(proved.0), AtomicU64::new(proved.0));
        SignIn {
            window,
            proved,
            asked,
            ..SignIn::begin(key, principal, tokens, now, settings)
        }
    }

    /// The same, but not valid for group and owner rules until the provider has confirmed the
    /// person again: write access to the shared store is enough to restore an old record. Without
    /// effect on sessions without a refresh token, which cannot be checked again, and on those of
    /// another system's token, which is checked by itself.
    pub fn requiring_proof(self) -> SignIn {
        let can_be = self.tokens.refresh_token.load().is_some() && !self.tokens.is_for_token();
        SignIn {
            needs_proof: AtomicBool::new(can_be),
            ..self
        }
    }

    /// Whether it waits for such a proof.
    pub fn needs_proof(&self) -> bool {
        self.needs_proof.load(Ordering::Acquire)
    }

    /// Records whether the provider's answer failed to identify the person.
    pub fn note_unprovable(&self, is_unprovable: bool) {
        self.unprovable.store(is_unprovable, Ordering::Release);
    }

    /// Whether asking the provider again would not help: the person must sign in again.
    pub fn is_unprovable(&self) -> bool {
        self.unprovable.load(Ordering::Acquire)
    }

    /// Whether a check at the provider is under way.
    pub fn is_being_proved(&self) -> bool {
        self.asking.load(Ordering::Acquire)
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
    pub fn describe(&self, principal: Arc<Principal>, now: Moment) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.principal.store(principal);
        self.proved.store(now.0, Ordering::Relaxed);
        self.needs_proof.store(false, Ordering::Release);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// The provider gave another refresh token for the one that was used.
    pub fn renew_token(&self, token: Secret) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.tokens.refresh_token.store(Some(Arc::new(token)));
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Another process has asked about them: takes what it learned, unless that is known here. Says
    /// whether it was new.
    pub fn adopt(
        &self,
        version: u64,
        principal: Arc<Principal>,
        refresh_token: Option<Arc<Secret>>,
        (proved, is_fresh): (Moment, bool),
    ) -> bool {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if version <= self.version.load(Ordering::Acquire) {
            return false;
        }
        self.principal.store(principal);
        self.tokens.refresh_token.store(refresh_token);
        self.version.store(version, Ordering::Release);
        self.told.store(version, Ordering::Release);
        self.proved.store(proved.0, Ordering::Relaxed);
        self.asked.store(proved.0, Ordering::Relaxed);
        if is_fresh {
            self.needs_proof.store(false, Ordering::Release);
        }
        true
    }

    /// Its version; of two, the higher is the newer.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The shared store has this version.
    pub fn told(&self, version: u64) {
        self.told.store(version, Ordering::Release);
    }

    /// Whether the shared store has what it says now.
    pub fn is_told(&self) -> bool {
        self.window.is_told() && self.told.load(Ordering::Acquire) == self.version()
    }

    /// When the person was last proved.
    pub fn proved(&self) -> Moment {
        Moment(self.proved.load(Ordering::Relaxed))
    }

    /// Its deadlines.
    pub fn window(&self) -> &Deadlines {
        &self.window
    }

    /// Whether it was ended, rather than left alone.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether it counts now.
    pub fn is_live(&self, now: Moment) -> bool {
        !self.ended.load(Ordering::Acquire) && self.window.is_open(now)
    }

    /// Milliseconds until it ends if it is not used, and until it ends whatever happens.
    pub fn time_left(&self, now: Moment) -> Remaining {
        self.window.left(now)
    }

    /// It was used.
    pub fn touch(&self, now: Moment) -> bool {
        self.window.slide(now)
    }

    /// Ends it, and with it every app session; gives back whether it was still going.
    pub fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// Whether the proof is older than this; says so to one caller only, who is to ask for another.
    /// Should that one fail, the next is due as much later.
    pub fn is_proof_due(&self, now: Moment, recheck: Duration) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        // Up to a tenth sooner, each at its own: people who signed in together are not asked about
        // together.
        let sooner = millis(recheck) / 10 * u64::from(self.key.spread()) / 256;
        now.0 >= asked.saturating_add(millis(recheck) - sooner)
            && self
                .asked
                .compare_exchange(asked, now.0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// For who is about to ask for another proof; `None` while somebody else does: a token that
    /// works once must not be presented twice, however long the first takes.
    pub fn ask(self: &Arc<Self>) -> Option<IdentityCheckGuard> {
        (!self.asking.swap(true, Ordering::AcqRel)).then(|| IdentityCheckGuard(self.clone()))
    }

    /// The proof could not be had: the next is due sooner than otherwise.
    pub fn postpone(&self, now: Moment, recheck: Duration, retry: Duration) {
        let due = now.after(retry).0.saturating_sub(millis(recheck));
        self.asked.store(due, Ordering::Relaxed);
    }

    /// Whether the proof is older than this.
    pub fn is_proof_old(&self, now: Moment, recheck: Duration) -> bool {
        now.0
            >= self
                .asked
                .load(Ordering::Relaxed)
                .saturating_add(millis(recheck))
    }

    /// A token of the console has proved the person again.
    pub fn prove(
        &self,
        principal: Arc<Principal>,
        token: TokenFingerprint,
        expires: i64,
        now: Moment,
    ) {
        self.describe(principal, now);
        if let Some(console) = &self.tokens.console {
            console.replace(token, expires);
        }
        self.asked.store(now.0, Ordering::Relaxed);
    }

    /// Notes an app session that was made; gives back the one that must go for it.
    pub fn note_session(&self, session: &Arc<AppSession>) -> Option<RecordKey> {
        let mut minted = self.minted.lock().unwrap_or_else(PoisonError::into_inner);
        let (app, vhost) = (session.app(), session.vhost());
        if *vhost == VirtualHost::Site && !minted.apps.contains(app) {
            minted.apps.insert(app.clone());
        }
        // Brought anew it is still one.
        minted.sessions.retain(|other| {
            other
                .upgrade()
                .is_some_and(|other| other.key != session.key)
        });
        let same = |other: &Weak<AppSession>| {
            other
                .upgrade()
                .is_some_and(|other| other.is_for(app, vhost))
        };
        let too_many = minted
            .sessions
            .iter()
            .filter(|session| same(session))
            .count()
            >= MOST_OF_ONE;
        let oldest = if too_many {
            minted
                .sessions
                .iter()
                .position(same)
                .and_then(|at| minted.sessions.remove(at))
        } else if minted.sessions.len() >= MOST_SESSIONS {
            minted.sessions.pop_front()
        } else {
            None
        };
        minted.sessions.push_back(Arc::downgrade(session));
        oldest
            .and_then(|oldest| oldest.upgrade())
            .map(|oldest| oldest.key)
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
        let ProviderTokens {
            id_token,
            refresh_token,
            arvados,
            session_id: _,
            console: _,
        } = &self.tokens;
        let refresh = refresh_token
            .load()
            .as_ref()
            .map_or(0, |token| token.expose().len());
        let tokens = token(id_token) + refresh + token(arvados);
        // The groups stand twice: sorted, and as a header value.
        u32::try_from(1024 + 2 * groups + tokens).unwrap_or(u32::MAX)
    }
}

/// A proof is being asked for; until this is dropped nobody else asks.
#[derive(Debug)]
pub struct IdentityCheckGuard(Arc<SignIn>);

impl Drop for IdentityCheckGuard {
    fn drop(&mut self) {
        self.0.asking.store(false, Ordering::Release);
    }
}

/// The session of one person with one app at one place.
#[derive(Debug)]
pub struct AppSession {
    key: RecordKey,
    app: AppId,
    /// Where, unless at the site. Apart, because a label takes more than all the rest.
    elsewhere: Option<Box<VirtualHost>>,
    sign_in: Arc<SignIn>,
    window: Deadlines,
    ended: AtomicBool,
    /// In which second of the clock it was last used.
    used: AtomicU32,
    /// When it began, by the wall clock in seconds.
    begun: i64,
}

impl AppSession {
    /// A session that begins now and ends no later than its sign-in.
    pub fn begin(
        key: RecordKey,
        (app, vhost): (AppId, VirtualHost),
        sign_in: Arc<SignIn>,
        now: Moment,
        idle: Duration,
    ) -> AppSession {
        let window = Deadlines::open(now, idle, sign_in.window.absolute_deadline());
        let elsewhere = (vhost != VirtualHost::Site).then(|| Box::new(vhost));
        let (ended, used) = (AtomicBool::new(false), AtomicU32::new(0));
        AppSession {
            key,
            app,
            elsewhere,
            sign_in,
            window,
            ended,
            used,
            begun: 0,
        }
    }

    /// When it began by the wall clock, in seconds.
    pub fn begun_at(self, begun: i64) -> AppSession {
        AppSession { begun, ..self }
    }

    /// When it began by the wall clock, in seconds.
    pub fn begun(&self) -> i64 {
        self.begun
    }

    /// Whether it was made for this app at this place; at any other it is no session.
    pub fn is_for(&self, app: &AppId, vhost: &VirtualHost) -> bool {
        self.app == *app && self.vhost() == vhost
    }

    /// The sign-in it stands on.
    pub fn sign_in(&self) -> &Arc<SignIn> {
        &self.sign_in
    }

    /// Whether it counts now.
    pub fn is_live(&self, now: Moment) -> bool {
        !self.ended.load(Ordering::Acquire) && self.window.is_open(now) && self.sign_in.is_live(now)
    }

    /// One that another process has begun.
    pub fn restore(
        key: RecordKey,
        at: (AppId, VirtualHost),
        sign_in: Arc<SignIn>,
        now: Moment,
        (idle, left): (Duration, Remaining),
    ) -> AppSession {
        let window = Deadlines::restore(now, idle, left);
        AppSession {
            window,
            ..AppSession::begin(key, at, sign_in, now, idle)
        }
    }

    /// Milliseconds until it ends if it is not used, and until it ends whatever happens.
    pub fn time_left(&self, now: Moment) -> Remaining {
        self.window.left(now)
    }

    /// Its deadlines.
    pub fn window(&self) -> &Deadlines {
        &self.window
    }

    /// Whether it was ended, or its sign-in was, rather than left alone.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.sign_in.is_ended()
    }

    /// The key of its record.
    pub fn key(&self) -> RecordKey {
        self.key
    }

    /// Where.
    pub fn vhost(&self) -> &VirtualHost {
        self.elsewhere.as_deref().unwrap_or(&VirtualHost::Site)
    }

    /// WriteScope app it is for.
    pub fn app(&self) -> &AppId {
        &self.app
    }

    /// Ends it; the sign-in goes on, and may open the app anew.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// It was used: it and its sign-in live on. Says so once a second to whoever keeps the order of
    /// use.
    pub fn touch(&self, now: Moment) -> bool {
        self.window.slide(now);
        self.sign_in.touch(now);
        // Truncated on purpose: whether it is another second is all that is asked.
        let second = (now.0 / 1000) as u32;
        let another = self.used.load(Ordering::Relaxed) != second;
        if another {
            self.used.store(second, Ordering::Relaxed);
        }
        another
    }
}
