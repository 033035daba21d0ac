//! Sessions that replicas share: memory in front, Redis behind (behaviour row 29).
//!
//! Whoever is in memory costs no round trip. What is presented and not in memory is brought from
//! the store; what begins here is written there before the browser hears of it; what ends here is
//! told. While the store is away, what is in memory goes on, and whoever is not in memory is asked
//! to come back, not to sign in. Without a store all this does nothing.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    bind::BindHash,
    cookie::{NewId, NoRandomness, RecordKey},
    handover::{Ticket, TicketError},
    record::{AppSession, SignIn},
    redis::{
        Announcement, Redis, ReplicatedSignIn, StoredState, link::StoreError, people::RefreshLock,
    },
    store::Sessions,
    upkeep,
    written::{Remaining, StoredVirtualHost},
};
use crate::model::{
    app::AppId,
    clock::{Moment, millis},
    vhost::VirtualHost,
};

/// The store cannot be asked now; what it would say is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUnavailable;

/// The right to ask the provider about somebody.
pub enum RefreshLockAttempt {
    /// It is ours, until [`Sessions::give_turn_back`].
    Ours(Option<RefreshLock>),
    /// Another replica has asked, and what it learned is in force here now.
    Adopted,
    /// Another replica asks now.
    Theirs,
    /// It cannot be had while the store is away.
    Unavailable,
}

/// A ticket as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct StoredTicket {
    #[serde(rename = "place")]
    vhost: StoredVirtualHost,
    app: String,
    bind: String,
    sign_in: [u8; 32],
    target: String,
}

impl From<StoreError> for StoreUnavailable {
    fn from(_: StoreError) -> StoreUnavailable {
        StoreUnavailable
    }
}

impl Sessions {
    /// Whether the store that replicas share can be asked now.
    pub fn is_store_up(&self) -> bool {
        self.redis().is_some_and(|redis| redis.link().is_up())
    }

    /// Whether replicas share them.
    pub fn are_shared(&self) -> bool {
        self.redis().is_some()
    }

    /// Puts in memory what the store says, or adds it to what is there.
    pub(super) fn take_in(
        &self,
        redis: &Redis,
        key: RecordKey,
        stored: ReplicatedSignIn,
        left: Remaining,
    ) -> Option<Arc<SignIn>> {
        let (now, wall) = (self.now(), self.clock().wall_seconds());
        let age = u64::try_from(wall.saturating_sub(stored.proved))
            .unwrap_or(0)
            .saturating_mul(1000);
        let proved = Moment(now.0.saturating_sub(age));
        let (version, begun) = (stored.version, stored.begun);
        let (person, tokens) = stored.sign_in.read();
        let known = self
            .sign_in_by_key(&key)
            .filter(|sign_in| !sign_in.is_ended());
        let refresh = tokens.refresh_token.load_full();
        let sign_in = match known {
            Some(known) => known,
            None => self.begin_brought(
                key,
                (person.clone(), tokens),
                (left, proved),
                (begun, version),
            ),
        };
        // Of two who bring it at once one may have read it before it changed.
        if sign_in.adopt(version, person, refresh, (proved, self.is_fresh(proved))) {
            self.policy_changes().notify();
        }
        sign_in.told(version);
        sign_in.window().extend(now, left.idle);
        // It may have been ended while it was on its way here.
        if redis.is_ended(&key, begun) {
            self.end_here(&sign_in);
            return None;
        }
        Some(sign_in)
    }

    /// Brings what a person has begun anywhere, so that it can be listed or ended.
    ///
    /// # Errors
    /// [`StoreUnavailable`] when it cannot be asked for.
    pub async fn bring_all_of(
        &self,
        subject: Option<&str>,
        session: Option<&str>,
    ) -> Result<(), StoreUnavailable> {
        let Some(redis) = self.redis() else {
            return Ok(());
        };
        // An emptied store may not have been told yet whose they are.
        if !redis.is_settled().await? {
            return Err(StoreUnavailable);
        }
        let mut keys = Vec::new();
        if let Some(subject) = subject {
            keys.extend(redis.of_subject(subject).await?);
        }
        if let Some(session) = session {
            keys.extend(redis.of_session(session).await?);
        }
        for key in keys {
            self.bring_sign_in(redis, key).await?;
        }
        Ok(())
    }

    /// Ends what the provider says is over, on every replica; gives back how many. Those that
    /// cannot be asked for now are ended when they can.
    ///
    /// # Errors
    /// [`StoreUnavailable`] then; what is in memory has ended.
    pub async fn end_by_provider_everywhere(
        &self,
        subject: Option<&str>,
        session: Option<&str>,
    ) -> Result<usize, StoreUnavailable> {
        let ended = self.end_by_provider(subject, session);
        if let Err(away) = self
            .bring_all_of(subject.filter(|_| session.is_none()), session)
            .await
        {
            if let Some(redis) = self.redis() {
                redis.owe((subject.map(str::to_owned), session.map(str::to_owned)));
            }
            return Err(away);
        }
        Ok(ended + self.end_by_provider(subject, session))
    }

    /// Ends what could not be asked for when the provider said that it was over.
    pub(super) async fn end_what_is_owed(&self, redis: &Redis) {
        for (subject, session) in redis.owed() {
            // DeferredLogout again when it fails again.
            let _ = self
                .end_by_provider_everywhere(subject.as_deref(), session.as_deref())
                .await;
        }
    }

    /// Ends a sign-in by its key although it may be known to other replicas only.
    pub fn end_by_key(&self, key: RecordKey) {
        match (self.sign_in_by_key(&key), self.redis()) {
            (Some(sign_in), _) => self.end(&sign_in),
            (None, Some(redis)) => redis.end(key, None),
            (None, None) => {}
        }
    }

    /// Writes a sign-in that begins or has changed, so that other replicas know it. When the store
    /// is away that is done later.
    pub async fn keep(&self, sign_in: &Arc<SignIn>) {
        let Some(redis) = self.redis() else { return };
        match redis.save_sign_in(sign_in).await {
            Ok((told, over)) => {
                match told {
                    StoredState::Ended => self.end_here(sign_in),
                    StoredState::Live(_, stored) if stored > sign_in.version() => {
                        self.reread(sign_in).await
                    }
                    StoredState::Live(..) | StoredState::Missing => {}
                }
                for key in over {
                    if let Some(sign_in) = self.sign_in_by_key(&key) {
                        self.end_here(&sign_in);
                    }
                }
            }
            Err(StoreError::Unavailable | StoreError::WrongType) => sign_in.window().forget_told(),
        }
    }

    /// Writes an app session that begins, and the sign-in it stands on if that is not there.
    pub async fn keep_app(&self, session: &Arc<AppSession>) {
        let Some(redis) = self.redis() else { return };
        let sign_in = session.sign_in();
        if sign_in.tokens.console.is_some() {
            return;
        }
        if !sign_in.is_told() {
            self.keep(sign_in).await;
        }
        if redis.save_app(session).await.is_err() {
            session.window().forget_told();
        }
    }

    /// Tells the other replicas that somebody was described anew.
    pub async fn keep_changed(&self, sign_in: &Arc<SignIn>) {
        let Some(redis) = self.redis() else { return };
        self.keep(sign_in).await;
        let _ = redis.announce(&Announcement::Changed(sign_in.key())).await;
    }

    /// The right to ask the provider about somebody: of all replicas one has it.
    pub async fn take_turn(&self, sign_in: &Arc<SignIn>) -> RefreshLockAttempt {
        let Some(redis) = self.redis() else {
            return RefreshLockAttempt::Ours(None);
        };
        match self.turn_at(redis, sign_in).await {
            Ok(turn) => turn,
            Err(StoreError::Unavailable | StoreError::WrongType) => RefreshLockAttempt::Unavailable,
        }
    }

    async fn turn_at(
        &self,
        redis: &Redis,
        sign_in: &Arc<SignIn>,
    ) -> Result<RefreshLockAttempt, StoreError> {
        // A connection so young may come before what the others have to tell.
        if redis.is_young() || !redis.is_settled().await? {
            return Ok(RefreshLockAttempt::Unavailable);
        }
        let Some(lock) = redis.lock(sign_in.key()).await? else {
            return Ok(RefreshLockAttempt::Theirs);
        };
        // Read under the lock: what another replica stored before it gave it back is there.
        match redis.load_sign_in(sign_in.key()).await? {
            Some((stored, left)) => {
                let key = sign_in.key();
                self.take_in(redis, key, stored, left);
                // Another replica has asked while this one was about to: here now, or just before
                // by what it announced.
                let recent = sign_in.proved().after(self.recheck() / 2);
                if self.now() < recent {
                    redis.unlock(lock).await;
                    return Ok(RefreshLockAttempt::Adopted);
                }
            }
            None => self.keep(sign_in).await,
        }
        // A token that works once only is not spent unless what comes of it can be kept.
        if !sign_in.is_told() {
            self.keep(sign_in).await;
        }
        if sign_in.is_told() {
            return Ok(RefreshLockAttempt::Ours(Some(lock)));
        }
        redis.unlock(lock).await;
        Ok(RefreshLockAttempt::Unavailable)
    }

    /// Gives the right back; not while what came of it could not be kept: another would present a
    /// token that was used.
    pub async fn give_turn_back(&self, sign_in: &SignIn, lock: Option<RefreshLock>) {
        if let (Some(redis), Some(lock)) = (self.redis(), lock)
            && (sign_in.is_told() || sign_in.is_ended())
        {
            redis.unlock(lock).await;
        }
    }

    /// Whether something that is good once comes for the first time, anywhere. From then on it is
    /// used.
    ///
    /// # Errors
    /// [`StoreUnavailable`] when others cannot be asked; it is used here then.
    pub async fn first_use(
        &self,
        token: &str,
        kept_for: std::time::Duration,
    ) -> Result<bool, StoreUnavailable> {
        if !self
            .used
            .entry(RecordKey::from_name(token))
            .or_insert(())
            .is_fresh()
        {
            return Ok(false);
        }
        let Some(redis) = self.redis() else {
            return Ok(true);
        };
        Ok(redis.is_first(token, millis(kept_for)).await?)
    }

    /// What was begun with a token that is good once could not be finished: it may come again.
    pub async fn forget_first(&self, token: &str) {
        self.used.invalidate(&RecordKey::from_name(token));
        if let Some(redis) = self.redis() {
            redis.forget_first(token).await;
        }
    }

    /// Ends what another replica had revoked while there was no connection.
    pub(super) async fn end_what_was_revoked(&self, redis: &Redis) {
        let apps: HashSet<AppId> = self
            .every_app()
            .map(|session| session.app().clone())
            .collect();
        for app in apps {
            match redis.app_ended(&app).await {
                Ok(i64::MIN) | Err(StoreError::WrongType) => {}
                Ok(when) => {
                    self.end_of_app_here(&app, when).await;
                }
                Err(StoreError::Unavailable) => return,
            }
        }
    }

    /// Waits until the other replicas can know that a sign-in has ended, if they can be told now.
    pub async fn tell_ending_of(&self, sign_in: &SignIn) {
        if let Some(redis) = self.redis() {
            redis.tell_ending_of(sign_in.key()).await;
        }
    }

    /// Gives out a ticket that any replica may take.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub async fn give_ticket(&self, ticket: Ticket) -> Result<NewId, NoRandomness> {
        if let Some(redis) = self.redis() {
            let id = NewId::random()?;
            let stored = StoredTicket {
                vhost: StoredVirtualHost::of(&ticket.vhost),
                app: ticket.app.to_string(),
                bind: ticket.bind.as_str().to_owned(),
                sign_in: ticket.sign_in.key().0,
                target: ticket.target.clone(),
            };
            if redis.give_ticket(id.key(), &stored).await.is_ok() {
                return Ok(id);
            }
        }
        self.tickets.give(ticket)
    }

    /// Takes a ticket, whoever gave it out: whatever comes of it, it is gone.
    ///
    /// # Errors
    /// Why it is not good here and now.
    pub async fn take_ticket<'c>(
        &self,
        presented: &str,
        vhost: &VirtualHost,
        bind_cookies: impl Iterator<Item = &'c [u8]>,
    ) -> Result<Ticket, TicketError> {
        let key = RecordKey::parse(presented.as_bytes()).ok_or(TicketError::Unknown)?;
        let now = self.now();
        if let Some(redis) = self.redis()
            && let Ok(Some(stored)) = redis.take_ticket::<StoredTicket>(key).await
        {
            let sign_in = self
                .bring_sign_in(redis, RecordKey(stored.sign_in))
                .await
                .ok()
                .flatten();
            let (place_of, app) = (stored.vhost.read(), AppId::of_record(&stored.app));
            if let (Some(place_of), Some(app), Some(bind)) =
                (place_of, app, BindHash::parse(&stored.bind))
            {
                let sign_in = sign_in.ok_or(TicketError::SignedOut)?;
                let ticket = Ticket {
                    vhost: place_of,
                    app,
                    bind,
                    sign_in,
                    target: stored.target,
                    made: now,
                };
                return ticket.check(vhost, bind_cookies, now);
            }
        }
        self.tickets.take(presented, vhost, bind_cookies, now)
    }

    /// Another replica announced something.
    pub fn hear(self: &Arc<Self>, text: &[u8]) {
        let Some(redis) = self.redis() else { return };
        match Announcement::read(text) {
            Some(Announcement::Ended(key, when)) => {
                redis.was_ended(key, when);
                if let Some(sign_in) = self
                    .sign_in_by_key(&key)
                    .filter(|sign_in| sign_in.begun() <= when)
                {
                    self.end_here(&sign_in);
                }
            }
            Some(Announcement::Changed(key)) => {
                if let Some(known) = self.sign_in_by_key(&key) {
                    let this = self.clone();
                    tokio::spawn(async move { this.reread(&known).await });
                }
            }
            Some(Announcement::EndedApp(app, when)) => {
                redis.app_was_ended(&app, when);
                let this = self.clone();
                tokio::spawn(async move { this.end_of_app_here(&app, when).await });
            }
            Some(Announcement::Emptied) => redis.tell_all_again(),
            None => tracing::debug!("something was announced that is not understood"),
        }
    }

    /// Reads again what another replica has changed.
    pub(super) async fn reread(&self, known: &Arc<SignIn>) {
        let Some(redis) = self.redis() else { return };
        if let Ok(Some((stored, left))) = redis.load_sign_in(known.key()).await {
            self.take_in(redis, known.key(), stored, left);
        }
    }

    /// Keeps the connection and what the store was told up to date; never ends. For the control
    /// runtime.
    pub async fn keep_up(self: Arc<Self>) {
        let Some(redis) = self.redis() else { return };
        tokio::join!(
            redis.link().keep(|news| self.news(news)),
            upkeep::keep_ending(&self, redis),
            upkeep::keep_telling(&self, redis),
        );
    }

    fn news(self: &Arc<Self>, news: super::redis::link::LinkEvent) {
        use super::redis::link::LinkEvent;
        match news {
            LinkEvent::Announced(text) => self.hear(&text),
            LinkEvent::Connected => {
                if let Some(redis) = self.redis() {
                    redis.is_new();
                }
            }
        }
    }

    /// Tells the store all that it was not told yet; for a process that stops.
    pub async fn tell_the_rest(&self) {
        let Some(redis) = self.redis() else { return };
        redis.tell_endings().await;
        self.end_what_is_owed(redis).await;
        let _ = upkeep::tell(self, redis, upkeep::WriteScope::Ahead).await;
    }
}
