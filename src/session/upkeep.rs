//! What the shared store is told in the background: use, at most once a minute and at least once before anything would lapse;
//! what it lost; and what was ended while it was away. In return it says what happened elsewhere.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    cookie::RecordKey,
    record::{AppSession, SignIn},
    redis::{Redis, Table, Told},
    shared::all_of,
    store::Sessions,
};
use crate::model::clock::millis;

/// Use is told at most this often.
const PACE: Duration = Duration::from_secs(60);
/// Records that are told of at once.
const AT_ONCE: usize = 64;
/// Records looked at before others may run.
const BATCH: usize = 512;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// What is due.
    Due,
    /// All there is.
    All,
    /// What the store does not know.
    Ahead,
}

/// Never ends.
pub async fn keep_telling(sessions: &Arc<Sessions>, redis: &Redis) {
    let pace = PACE.min(sessions.idle() / 10);
    let mut next = sessions.now().after(pace / 4);
    loop {
        let which = tokio::select! {
            () = redis.untold.notified() => None,
            () = sessions.clock().sleep_until(next) => Some(Which::Due),
        };
        redis.tell_endings().await;
        sessions.end_what_is_owed(redis).await;
        // Whether it forgot is asked for too: it may have been emptied without a word.
        let _ = redis.is_settled().await;
        if redis.retell.swap(false, Ordering::AcqRel) {
            // Both: what the store forgot is put back, and what was ended meanwhile ends.
            tell(sessions, redis, Which::All).await;
        } else if let Some(which) = which {
            tell(sessions, redis, which).await;
        }
        if sessions.now() >= next {
            next = sessions.now().after(pace / 4);
        }
    }
}

/// Tells the store once.
pub async fn tell(sessions: &Sessions, redis: &Redis, which: Which) {
    if !redis.link().is_up() {
        return;
    }
    let (now, pace) = (sessions.now(), millis(PACE.min(sessions.idle() / 10)));
    let is_meant = |due: bool, ahead: bool| match which {
        Which::Due => due,
        Which::All => true,
        Which::Ahead => ahead,
    };
    let mut sign_ins = Vec::new();
    for (seen, sign_in) in sessions.every().enumerate() {
        let (window, live) = (sign_in.window(), sign_in.is_live(now) && sign_in.tokens.console.is_none());
        let changed = !sign_in.is_told();
        if live && is_meant(changed || window.is_due(now, pace), changed || window.is_ahead()) {
            sign_ins.push(sign_in);
        }
        if seen % BATCH == 0 {
            tokio::task::yield_now().await;
        }
    }
    all_of(sign_ins.into_iter().map(|sign_in| tell_sign_in(sessions, redis, sign_in)), AT_ONCE).await;
    let mut apps = Vec::new();
    for (seen, (key, session)) in sessions.every_app().enumerate() {
        let window = session.window();
        let live = session.is_live(now) && session.sign_in().tokens.console.is_none();
        if live && is_meant(window.is_due(now, pace), window.is_ahead()) {
            apps.push((key, session));
        }
        if seen % BATCH == 0 {
            tokio::task::yield_now().await;
        }
    }
    all_of(apps.into_iter().map(|(key, session)| tell_app(sessions, redis, key, session)), AT_ONCE).await;
}

async fn tell_sign_in(sessions: &Sessions, redis: &Redis, sign_in: Arc<SignIn>) {
    if !sign_in.is_told() {
        sessions.keep(&sign_in).await;
        return;
    }
    let now = sessions.now();
    match redis.touch(Table::SignIns, sign_in.key(), sign_in.time_left(now)).await {
        Ok(Told::Left(idle, version)) => {
            sign_in.window().extend(now, idle);
            if version > sign_in.version() {
                sessions.reread(&sign_in).await;
            }
        }
        Ok(Told::Missing) => {
            sign_in.window().forget_told();
            sessions.keep(&sign_in).await;
        }
        Ok(Told::Ended) => sessions.end_here(&sign_in),
        Err(_) => {}
    }
}

async fn tell_app(sessions: &Sessions, redis: &Redis, key: RecordKey, session: Arc<AppSession>) {
    if !session.window().is_told() {
        sessions.keep_app(key, &session).await;
        return;
    }
    let now = sessions.now();
    match redis.touch(Table::Apps, key, session.time_left(now)).await {
        Ok(Told::Left(idle, _)) => session.window().extend(now, idle),
        Ok(Told::Missing | Told::Ended) => {
            session.window().forget_told();
            sessions.keep_app(key, &session).await;
        }
        Err(_) => {}
    }
}
