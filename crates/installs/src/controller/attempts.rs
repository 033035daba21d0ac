//! What the controller remembers of each installation: pauses, the chart on the disk, the end of an
//! operation, and the status that was written last. Nothing of it survives the process: a new one
//! observes the cluster and tries again.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use ludgate_cluster::crd::installation_status::ApplicationInstallationStatus;
use tempfile::TempDir;
use tokio_util::sync::DropGuard;

use crate::{
    applied_digest::{AppliedDigest, InputDigest},
    plan::{Downloaded, RetryTimes},
    retry::{self, Recovery},
    source::SourceError,
    stuck::OperationKind,
};

/// What an operation does.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// It installs or upgrades.
    Apply {
        digest: AppliedDigest,
        is_atomic: bool,
    },
    /// It repairs a stuck release.
    Repair(Recovery),
    /// It removes the release for good.
    Uninstall,
}

impl Work {
    pub(super) fn kind(&self) -> OperationKind {
        match self {
            Work::Apply { .. } => OperationKind::Apply,
            Work::Repair(_) => OperationKind::Repair,
            Work::Uninstall => OperationKind::Uninstall,
        }
    }

    /// What it applies; `None`: it is no upgrade.
    pub(super) fn digest(&self) -> Option<&AppliedDigest> {
        match self {
            Work::Apply { digest, .. } => Some(digest),
            Work::Repair(_) | Work::Uninstall => None,
        }
    }
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The chart, its values or its objects.
    Failed,
    /// The API server or another operation.
    Disturbed,
    /// The account of the namespace may not do it.
    NotPermitted,
    /// It was cancelled.
    Cancelled,
}

/// A failure, with a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OperationFailure {
    pub(super) kind: FailureKind,
    pub(super) message: String,
}

/// An operation that ended, until the status says so.
#[derive(Clone, Debug)]
pub(super) struct EndedOperation {
    pub(super) work: Work,
    pub(super) result: Result<(), OperationFailure>,
    /// The generation of the spec that it began with. The spec may have changed since.
    pub(super) generation: i64,
}

/// A chart on the disk. Its folder is removed on drop.
#[derive(Debug)]
pub(super) struct ChartOnDisk {
    pub(super) downloaded: Downloaded,
    pub(super) path: PathBuf,
    pub(super) _folder: TempDir,
}

/// A download that runs. On drop it is cancelled.
#[derive(Debug)]
pub(super) struct RunningDownload {
    pub(super) inputs: InputDigest,
    pub(super) number: u64,
    pub(super) _cancel: DropGuard,
}

/// Attempts of one kind without success.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    count: u32,
    until: Timestamp,
}

/// A status that was written, and the version of the object with it.
#[derive(Clone, Debug)]
pub(super) struct WrittenStatus {
    pub(super) version: String,
    pub(super) status: ApplicationInstallationStatus,
}

/// What is remembered of one installation.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    uid: String,
    apply: Option<Attempts>,
    repair: Option<Attempts>,
    uninstall: Option<Attempts>,
    pub(super) chart: Option<Arc<ChartOnDisk>>,
    pub(super) download: Option<RunningDownload>,
    pub(super) failed_download: Option<SourceError>,
    pub(super) ended: Option<EndedOperation>,
    written: Option<WrittenStatus>,
}

impl Remembered {
    /// When failed steps are tried again.
    pub(super) fn retry_times(&self) -> RetryTimes {
        let until = |attempts: Option<Attempts>| attempts.map(|attempts| attempts.until);
        RetryTimes {
            apply: until(self.apply),
            repair: until(self.repair),
            uninstall: until(self.uninstall),
        }
    }

    /// A step of this kind failed.
    pub(super) fn failed(&mut self, kind: OperationKind, now: Timestamp) {
        let attempts = self.attempts(kind);
        let count = attempts.map_or(1, |attempts| attempts.count.saturating_add(1));
        let pause = SignedDuration::try_from(retry::delay(count)).unwrap_or(SignedDuration::ZERO);
        let until = now.checked_add(pause).unwrap_or(now);
        *attempts = Some(Attempts { count, until });
    }

    /// A step of this kind succeeded, or is to be tried at once.
    pub(super) fn reset(&mut self, kind: OperationKind) {
        *self.attempts(kind) = None;
    }

    fn attempts(&mut self, kind: OperationKind) -> &mut Option<Attempts> {
        match kind {
            OperationKind::Apply => &mut self.apply,
            OperationKind::Repair => &mut self.repair,
            OperationKind::Uninstall => &mut self.uninstall,
        }
    }

    /// Keeps a status until the watch reports the object with it.
    pub(super) fn wrote(&mut self, written: WrittenStatus) {
        self.written = Some(written);
    }

    /// The status that was written after this version of the object; `None`: the object is newer.
    pub(super) fn status_after(&mut self, version: &str) -> Option<ApplicationInstallationStatus> {
        let written = self.written.as_ref()?;
        // Versions of an API server on etcd are numbers that grow.
        let number = |version: &str| version.parse::<u64>().ok();
        let is_older = match (number(version), number(&written.version)) {
            (Some(seen), Some(written)) => seen < written,
            (_, _) => false,
        };
        if !is_older {
            self.written = None;
            return None;
        }
        Some(written.status.clone())
    }
}

/// What is remembered, by the namespaces and names of installations.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<String, Remembered>>);

impl Memory {
    /// Reads or changes what is remembered of an installation. Another one of this name begins
    /// without memories.
    pub(super) fn with<R>(
        &self,
        key: &str,
        uid: &str,
        change: impl FnOnce(&mut Remembered) -> R,
    ) -> R {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let remembered = all.entry(key.to_owned()).or_default();
        if remembered.uid != uid {
            *remembered = Remembered {
                uid: uid.to_owned(),
                ..Remembered::default()
            };
        }
        change(remembered)
    }

    /// Forgets an installation that is gone.
    pub(super) fn forget(&self, key: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_by_kind_and_end_with_a_success_or_another_object() {
        let memory = Memory::default();
        let now = Timestamp::UNIX_EPOCH;
        let times = |uid: &str| memory.with("n/a", uid, |it| it.retry_times());
        assert_eq!(times("1"), RetryTimes::default());
        for seconds in [10, 20, 40] {
            memory.with("n/a", "1", |it| it.failed(OperationKind::Apply, now));
            let wanted = now + SignedDuration::from_secs(seconds);
            assert_eq!(times("1").apply, Some(wanted));
        }
        assert_eq!(times("1").uninstall, None);
        memory.with("n/a", "1", |it| it.reset(OperationKind::Apply));
        assert_eq!(times("1"), RetryTimes::default());
        memory.with("n/a", "1", |it| it.failed(OperationKind::Repair, now));
        assert_eq!(times("2"), RetryTimes::default());
    }

    #[test]
    fn a_written_status_counts_until_the_watch_has_it() {
        let status = ApplicationInstallationStatus {
            failures: 2,
            ..ApplicationInstallationStatus::default()
        };
        for (seen, is_older) in [("9", true), ("10", false), ("11", false), ("x", false)] {
            let mut remembered = Remembered::default();
            remembered.wrote(WrittenStatus {
                version: "10".into(),
                status: status.clone(),
            });
            let found = remembered.status_after(seen);
            assert_eq!(found.is_some(), is_older, "{seen}");
            assert_eq!(remembered.status_after(seen).is_some(), is_older, "{seen}");
        }
    }
}
