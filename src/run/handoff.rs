//! The session handoff file: sessions that one process writes when it stops and the next restores.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::task::AbortHandle;

use crate::{
    gateway::Gateway,
    model::clock::Clock,
    ops::file_watch,
    session::{Sessions, handoff_file, keys::KeyRing},
};

/// The handoff file of this process.
pub(super) struct Handoff {
    file: SharedFile,
    /// Polls for the file of a previous process. Must end before this process writes its own.
    polling: AbortHandle,
}

#[derive(Clone)]
struct SharedFile {
    path: PathBuf,
    keys: Arc<KeyRing>,
    sessions: Arc<Sessions>,
    clock: Clock,
    /// Whether this process has written the file. Aborting the task does not end a poll that runs,
    /// which would restore and remove what is for the next process.
    is_written: Arc<Mutex<bool>>,
}

impl Handoff {
    /// Restores the file, and polls for it: the previous process may stop only after this one has
    /// started.
    pub(super) fn start(path: PathBuf, keys: Arc<KeyRing>, gateway: &Gateway) -> Handoff {
        let file = SharedFile {
            path,
            keys,
            sessions: gateway.sessions.clone(),
            clock: gateway.clock.clone(),
            is_written: Arc::default(),
        };
        file.restore();
        let polled = file.clone();
        let clock = file.clock.clone();
        let polling = tokio::spawn(file_watch::poll(clock, move || polled.restore()));
        Handoff {
            file,
            polling: polling.abort_handle(),
        }
    }

    /// Writes the sessions for the next process.
    pub(super) fn write(self) {
        self.polling.abort();
        self.file.write();
    }
}

impl SharedFile {
    fn open(&self) -> handoff_file::HandoffFile<'_> {
        handoff_file::HandoffFile::new(&self.path, &self.keys)
    }

    fn restore(&self) {
        let is_written = self.is_written.lock();
        let is_written = is_written.unwrap_or_else(PoisonError::into_inner);
        if *is_written {
            return;
        }
        let now = self.clock.wall_seconds();
        match self.open().restore(&self.sessions.store, now) {
            Ok(None) => {}
            Ok(Some(sign_ins)) => {
                tracing::info!(sign_ins, "restored sessions from the handoff file");
            }
            Err(error) => {
                tracing::error!(%error, file = %self.path.display(), "cannot read the session handoff file");
            }
        }
    }

    fn write(&self) {
        let is_written = self.is_written.lock();
        let mut is_written = is_written.unwrap_or_else(PoisonError::into_inner);
        *is_written = true;
        let now = self.clock.wall_seconds();
        match self.open().write(&self.sessions.store, now) {
            Ok(sign_ins) => tracing::info!(sign_ins, "wrote the session handoff file"),
            Err(error) => {
                tracing::error!(%error, file = %self.path.display(), "cannot write the session handoff file");
            }
        }
    }
}
