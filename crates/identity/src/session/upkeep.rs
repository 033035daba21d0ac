//! What the shared store is told in the background: use, at most once a minute and at least once
//! before anything would lapse; what it lost; and what was ended while it was away. In return it
//! says what happened elsewhere.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    record::{AppSession, SignIn},
    redis::{RecordKind, Redis, StoredState, all_of, link::StoreError},
    store::Sessions,
};
use crate::model::clock::millis;

/// What could not be told although there is a connection is tried again after this long.
const SOON: Duration = Duration::from_secs(1);
/// Use is told at most this often.
const PACE: Duration = Duration::from_secs(60);
/// Records that are told of at once.
const AT_ONCE: usize = 64;
/// Records looked at before others may run.
const BATCH: usize = 512;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteScope {
    /// What is due.
    Due,
    /// All there is.
    All,
    /// What the store does not know.
    Ahead,
}

/// Tells what was ended, as soon as it was, and what could not be told again and again. Never ends.
pub async fn keep_ending(sessions: &Arc<Sessions>, redis: &Redis) {
    let pace = PACE.min(sessions.idle() / 10);
    loop {
        tokio::select! {
            () = redis.has_endings() => {}
            () = sessions.clock().sleep(pace / 4) => {}
            () = tokio::time::sleep(SOON), if redis.link().is_up() && redis.owes() => {}
        }
        // A new connection announces by itself what waits. Without one, every try would fail at
        // once, and this loop would spin.
        if redis.link().is_up() {
            redis.tell_endings().await;
            sessions.end_what_is_owed(redis).await;
        }
    }
}

/// Tells of use, and everything when the store may have forgotten. Never ends.
pub async fn keep_telling(sessions: &Arc<Sessions>, redis: &Redis) {
    let pace = PACE.min(sessions.idle() / 10);
    let mut next = sessions.now().after(pace / 4);
    // Until what could not be told is told again, longer from time to time: it may be what cannot
    // be.
    let mut again: Option<(Duration, Instant)> = None;
    loop {
        let which = tokio::select! {
            () = redis.forgot() => WriteScope::All,
            () = sessions.clock().sleep_until(next) => WriteScope::Due,
            () = until(again.map(|(_, when)| when)) => WriteScope::All,
        };
        // Whether it forgot is asked for at every turn: it may have been emptied without a word.
        let _ = redis.is_settled().await;
        if which == WriteScope::All {
            redis.tell_endings_again();
            // What was announced while there was no connection was missed.
            sessions.end_what_was_revoked(redis).await;
        }
        let told = tell(sessions, redis, which).await;
        if which == WriteScope::All {
            let pause = again.map_or(SOON, |(pause, _)| (2 * pause).min(PACE));
            again = (!told).then(|| (pause, Instant::now() + pause));
        }
        if sessions.now() >= next {
            next = sessions.now().after(pace / 4);
        }
    }
}

async fn until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Tells the store once; says whether all was told.
pub async fn tell(sessions: &Sessions, redis: &Redis, which: WriteScope) -> bool {
    if !redis.link().is_up() {
        return false;
    }
    let (now, pace) = (sessions.now(), millis(PACE.min(sessions.idle() / 10)));
    let is_meant = |due: bool, ahead: bool| match which {
        WriteScope::Due => due,
        WriteScope::All => true,
        WriteScope::Ahead => ahead,
    };
    let (mut told, mut sign_ins) = (true, Vec::new());
    for (seen, sign_in) in sessions.every().enumerate() {
        let (window, live) = (
            sign_in.window(),
            sign_in.is_live(now) && sign_in.tokens.console.is_none(),
        );
        let changed = !sign_in.is_told();
        if live
            && is_meant(
                changed || window.is_due(now, pace),
                changed || window.is_ahead(),
            )
        {
            sign_ins.push(sign_in);
        }
        if seen % BATCH == 0 {
            tokio::task::yield_now().await;
        }
    }
    for some in sign_ins.chunks(BATCH) {
        say_so(redis, which).await;
        let some = some.iter().cloned();
        let done = all_of(
            some.map(|sign_in| tell_sign_in(sessions, redis, sign_in)),
            AT_ONCE,
        )
        .await;
        told &= done.into_iter().all(|told| told);
    }
    let mut apps = Vec::new();
    for (seen, session) in sessions.every_app().enumerate() {
        let window = session.window();
        let live = session.is_live(now) && session.sign_in().tokens.console.is_none();
        if live && is_meant(window.is_due(now, pace), window.is_ahead()) {
            apps.push(session);
        }
        if seen % BATCH == 0 {
            tokio::task::yield_now().await;
        }
    }
    for some in apps.chunks(BATCH) {
        say_so(redis, which).await;
        let some = some.iter().cloned();
        let done = all_of(
            some.map(|session| tell_app(sessions, redis, session)),
            AT_ONCE,
        )
        .await;
        told &= done.into_iter().all(|told| told);
    }
    told
}

/// While an emptied store is told what it lost, nobody is to believe that something is not there.
async fn say_so(redis: &Redis, which: WriteScope) {
    if which == WriteScope::All && matches!(redis.is_settled().await, Ok(false)) {
        redis.says_that_it_tells().await;
    }
}

async fn tell_sign_in(sessions: &Sessions, redis: &Redis, sign_in: Arc<SignIn>) -> bool {
    if !sign_in.is_told() {
        sessions.keep(&sign_in).await;
        return sign_in.is_told() || sign_in.is_ended();
    }
    let now = sessions.now();
    match redis
        .touch(RecordKind::SignIn, sign_in.key(), sign_in.time_left(now))
        .await
    {
        Ok(StoredState::Live(idle, version)) => {
            sign_in.window().extend(now, idle);
            match version.cmp(&sign_in.version()) {
                Ordering::Greater => sessions.reread(&sign_in).await,
                // The store lost a change that it was told.
                Ordering::Less => sessions.keep(&sign_in).await,
                Ordering::Equal => {}
            }
        }
        Ok(StoredState::Missing) => {
            sign_in.window().forget_told();
            sessions.keep(&sign_in).await;
        }
        Ok(StoredState::Ended) => sessions.end_here(&sign_in),
        Err(StoreError::Unavailable) => return false,
        // Not to be mended from here.
        Err(StoreError::WrongType) => return true,
    }
    sign_in.is_told() || sign_in.is_ended()
}

async fn tell_app(sessions: &Sessions, redis: &Redis, session: Arc<AppSession>) -> bool {
    if !session.window().is_told() {
        sessions.keep_app(&session).await;
        return session.window().is_told() || session.is_ended();
    }
    let now = sessions.now();
    match redis
        .touch(
            RecordKind::AppSession,
            session.key(),
            session.time_left(now),
        )
        .await
    {
        Ok(StoredState::Live(idle, _)) => session.window().extend(now, idle),
        Ok(StoredState::Missing | StoredState::Ended) => {
            session.window().forget_told();
            sessions.keep_app(&session).await;
        }
        Err(StoreError::Unavailable) => return false,
        Err(StoreError::WrongType) => return true,
    }
    session.window().is_told() || session.is_ended()
}
