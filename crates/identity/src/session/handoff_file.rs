//! The handoff file carries sessions over a restart: a process that stops writes it, and the next
//! one reads it once.
//!
//! The file holds tokens, so it is sealed with the configured keys, and only its owner can read it.
//! Sessions age while no process runs.

use std::{collections::HashMap, fs, io, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    app_session_id::AppSessionId,
    cookie::RecordKey,
    keys::{KeyRing, Purpose},
    record::AppSession,
    remaining::Remaining,
    store::SessionStore,
    stored::{StoredAppSession, StoredSignIn},
};
use crate::ops::private_file;

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 4 << 30;

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct HandoffRecords {
    /// When it was written, in seconds since 1970.
    written: i64,
    sign_ins: Vec<HandoffSignIn>,
}

#[derive(Debug, Serialize, Deserialize)]
struct HandoffSignIn {
    sign_in: StoredSignIn,
    #[serde(rename = "left")]
    remaining: Remaining,
    apps: Vec<(StoredAppSession, Remaining)>,
}

/// The file and the keys that seal it.
#[derive(Debug)]
pub struct HandoffFile<'f> {
    path: &'f Path,
    keys: &'f KeyRing,
}

impl<'f> HandoffFile<'f> {
    /// The file at this path, which need not exist.
    pub fn new(path: &'f Path, keys: &'f KeyRing) -> HandoffFile<'f> {
        HandoffFile { path, keys }
    }

    /// Writes all live sessions. Returns the number of sign-ins. `wall_seconds` is now, since 1970.
    ///
    /// # Errors
    /// When the file cannot be written; then there is none.
    pub fn write(&self, store: &SessionStore, wall_seconds: i64) -> io::Result<usize> {
        let records = HandoffRecords {
            written: wall_seconds,
            sign_ins: live_records(store),
        };
        let plain = serde_json::to_vec(&records)?;
        let sealed = self
            .keys
            .seal(Purpose::Sessions, &plain)
            .map_err(io::Error::other)?;
        private_file::replace(self.path, sealed.as_bytes())?;
        Ok(records.sign_ins.len())
    }

    /// Restores the sessions of the file, if there is one. The file is removed first, so that it is
    /// used once. Returns the number of sign-ins that are still live.
    ///
    /// # Errors
    /// When the file cannot be read, removed or unsealed.
    pub fn restore(&self, store: &SessionStore, wall_seconds: i64) -> io::Result<Option<usize>> {
        let sealed = match fs::metadata(self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
            Ok(metadata) if metadata.len() > MAX_FILE => {
                return Err(io::Error::other("the file is too large"));
            }
            Ok(_) => fs::read_to_string(self.path),
        };
        fs::remove_file(self.path)?;
        let plain = self
            .keys
            .open(Purpose::Sessions, &sealed?)
            .map_err(io::Error::other)?;
        let records: HandoffRecords = serde_json::from_slice(&plain)?;
        // A clock that was set back must not extend a session.
        let passed = u64::try_from(wall_seconds.saturating_sub(records.written))
            .unwrap_or(0)
            .saturating_mul(1000);
        let restored = records
            .sign_ins
            .into_iter()
            .filter_map(|sign_in| restore_sign_in(store, sign_in, passed))
            .count();
        Ok(Some(restored))
    }
}

fn live_records(store: &SessionStore) -> Vec<HandoffSignIn> {
    let now = store.clock().now();
    let mut apps: HashMap<RecordKey, Vec<Arc<AppSession>>> = HashMap::new();
    for session in store.app_sessions().filter(|session| session.is_live(now)) {
        let key = session.sign_in().key();
        apps.entry(key).or_default().push(session);
    }
    let live = store.sign_ins().filter(|sign_in| sign_in.is_live(now));
    live.filter_map(|sign_in| {
        let sessions = apps.remove(&sign_in.key()).unwrap_or_default();
        Some(HandoffSignIn {
            sign_in: StoredSignIn::from_sign_in(&sign_in)?,
            remaining: sign_in.remaining(now),
            apps: sessions
                .iter()
                .map(|session| {
                    let stored = StoredAppSession::from_session(session);
                    (stored, session.remaining(now))
                })
                .collect(),
        })
    })
    .collect()
}

fn restore_sign_in(store: &SessionStore, record: HandoffSignIn, passed: u64) -> Option<()> {
    let remaining = record.remaining.after(passed)?;
    let key = record.sign_in.key();
    let (principal, tokens) = record.sign_in.into_parts();
    let sign_in = store.restore_sign_in(key, principal, tokens, remaining);
    for (session, remaining) in record.apps {
        if let (Some((app, vhost)), Some(remaining)) =
            (session.app_and_vhost(), remaining.after(passed))
        {
            let id = AppSessionId {
                key: session.key(),
                app,
                vhost,
                started_at: sign_in.started_at(),
                own_idle: session.own_idle(),
            };
            store.restore_app_session(id, &sign_in, remaining);
        }
    }
    Some(())
}
