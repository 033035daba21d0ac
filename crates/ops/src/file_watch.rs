//! Polling of files that other programs replace while the process runs: certificates, session
//! keys, the handoff file, service tokens, the configuration.
//!
//! The files are few and small, and polling works on every file system. Notifications do not: a
//! mounted Secret or ConfigMap is replaced as a symlink, and network file systems do not report
//! changes by other machines.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use ludgate_model::clock::Clock;

/// Time between two looks at a file.
pub const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Calls `check` every [`POLL_INTERVAL`], for as long as the process runs. `check` compares the
/// content itself.
pub async fn poll(clock: Clock, check: impl FnMut()) {
    poll_every(POLL_INTERVAL, clock, check).await;
}

/// As [`poll`], for a file whose changes must take effect sooner.
pub async fn poll_every(interval: Duration, clock: Clock, mut check: impl FnMut()) {
    loop {
        clock.sleep(interval).await;
        check();
    }
}

/// A text file with the content of the last look.
#[derive(Debug)]
pub struct WatchedFile {
    path: PathBuf,
    content: Option<String>,
}

impl WatchedFile {
    /// Reads the file for the first time.
    pub fn new(path: &Path) -> WatchedFile {
        WatchedFile {
            path: path.to_owned(),
            content: fs::read_to_string(path).ok(),
        }
    }

    /// Reads the file again. The flag says whether the content is the same as before: a file that
    /// is being written differs from one look to the next.
    pub fn read(&mut self) -> (io::Result<String>, bool) {
        let read = fs::read_to_string(&self.path);
        let before = std::mem::replace(&mut self.content, read.as_ref().ok().cloned());
        (read, self.content == before)
    }

    /// The content of the last look; `None`: it was unreadable.
    pub fn content(&self) -> Option<&str> {
        self.content.as_deref()
    }

    /// The path as configured.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_file_that_differs_from_the_last_look_is_not_settled() {
        let name = format!("ludgate-file-watch-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, "one").expect("a file");
        let mut file = WatchedFile::new(&path);
        assert_eq!(file.content(), Some("one"));
        assert!(file.read().1, "nothing changed");
        fs::write(&path, "two").expect("a file");
        let (text, is_settled) = file.read();
        assert_eq!(text.expect("readable"), "two");
        assert!(!is_settled && file.read().1);
        fs::remove_file(&path).expect("removed");
        let (text, is_settled) = file.read();
        assert!(text.is_err() && !is_settled && file.content().is_none());
    }

    #[tokio::test]
    async fn a_file_is_checked_at_each_interval() {
        let (clock, manual_clock) = Clock::manual();
        let checks = AtomicUsize::new(0);
        let polling = poll(clock, || {
            checks.fetch_add(1, Ordering::Relaxed);
        });
        tokio::pin!(polling);
        for expected in 0..3 {
            let pending = std::future::poll_fn(|context| {
                std::task::Poll::Ready(polling.as_mut().poll(context).is_pending())
            });
            assert!(pending.await);
            assert_eq!(checks.load(Ordering::Relaxed), expected);
            manual_clock.advance(POLL_INTERVAL);
        }
    }
}
