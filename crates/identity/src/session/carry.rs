//! Over a restart: what a process that stops knows of who is signed in, sealed in a file that the
//! next one reads once.
//!
//! The file holds tokens, so it is sealed with the keys of the configuration and readable by its
//! owner alone. Time goes on while nobody runs: what was left of each session is less by that.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{
    keys::{KeyRing, Purpose},
    store::Sessions,
    written::{Remaining, StoredAppSession, StoredSignIn},
};

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 4 << 30;

/// Everything, as it stands in the file.
#[derive(Debug, Serialize, Deserialize)]
struct HandoffRecords {
    /// When it was written, in seconds since 1970.
    written: i64,
    sign_ins: Vec<HandoffSignIn>,
}

#[derive(Debug, Serialize, Deserialize)]
struct HandoffSignIn {
    sign_in: StoredSignIn,
    left: Remaining,
    apps: Vec<(StoredAppSession, Remaining)>,
}

impl Sessions {
    /// Writes who is signed in; gives back how many sign-ins.
    ///
    /// # Errors
    /// When the file cannot be written; there is then none.
    pub fn hand_over(&self, file: &Path, keys: &KeyRing, wall_seconds: i64) -> io::Result<usize> {
        let carried = HandoffRecords {
            written: wall_seconds,
            sign_ins: self.carried(),
        };
        let plain = serde_json::to_vec(&carried)?;
        let sealed = keys
            .seal(Purpose::Sessions, &plain)
            .map_err(io::Error::other)?;
        let aside = file.with_extension("new");
        // Made anew, so that nobody has prepared who may read it, or where it leads.
        let _ = fs::remove_file(&aside);
        let written = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&aside);
        written.and_then(|mut new| {
            new.write_all(sealed.as_bytes())?;
            new.sync_all()
        })?;
        fs::rename(&aside, file)?;
        Ok(carried.sign_ins.len())
    }

    /// Takes what another process has written, if there is something, and removes the file before
    /// anything is made of it: it is good once. Gives back how many sign-ins go on.
    ///
    /// # Errors
    /// When it cannot be read or removed, or is not ours.
    pub fn take_over(
        &self,
        file: &Path,
        keys: &KeyRing,
        wall_seconds: i64,
    ) -> io::Result<Option<usize>> {
        let sealed = match fs::metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
            Ok(about) if about.len() > MAX_FILE => {
                return Err(io::Error::other("the file is too large"));
            }
            Ok(_) => fs::read_to_string(file),
        };
        fs::remove_file(file)?;
        let plain = keys
            .open(Purpose::Sessions, &sealed?)
            .map_err(io::Error::other)?;
        let carried: HandoffRecords = serde_json::from_slice(&plain)?;
        // A clock that was set back makes nothing longer.
        let passed = u64::try_from(wall_seconds.saturating_sub(carried.written))
            .unwrap_or(0)
            .saturating_mul(1000);
        Ok(Some(
            carried
                .sign_ins
                .into_iter()
                .filter_map(|sign_in| self.restored(sign_in, passed))
                .count(),
        ))
    }

    fn carried(&self) -> Vec<HandoffSignIn> {
        let now = self.now();
        let mut apps = self.app_sessions_by_sign_in();
        let live = self.every().filter(|sign_in| sign_in.is_live(now));
        live.filter_map(|sign_in| {
            let theirs = apps.remove(&sign_in.key()).unwrap_or_default().into_iter();
            Some(HandoffSignIn {
                sign_in: StoredSignIn::of(&sign_in)?,
                left: sign_in.time_left(now),
                apps: theirs
                    .filter(|session| session.is_live(now))
                    .map(|session| (StoredAppSession::of(&session), session.time_left(now)))
                    .collect(),
            })
        })
        .collect()
    }

    fn restored(&self, carried: HandoffSignIn, passed: u64) -> Option<()> {
        let left = carried.left.after(passed)?;
        let key = carried.sign_in.key();
        let (person, tokens) = carried.sign_in.read();
        let sign_in = self.begin_restored(key, person, tokens, left);
        for (app, left) in carried.apps {
            if let (Some((id, vhost)), Some(left)) = (app.read(), left.after(passed)) {
                self.mint_restored(app.key(), &sign_in, (id, vhost), (left, sign_in.begun()));
            }
        }
        Some(())
    }
}
