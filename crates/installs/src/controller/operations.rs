//! The Helm processes of this replica: at most one per release.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::jiff::Timestamp;
use ludgate_cluster::crd::installation_status::InstallationOperation;
use tokio_util::sync::CancellationToken;

use super::{attempts::Work, metrics::InstallationMetrics};
use crate::{
    applied_digest::AppliedDigest, plan::RunningUpgrade, status::format_time, stuck::OperationKind,
};

/// A release of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReleaseKey {
    /// The name of the target.
    pub(super) target: String,
    pub(super) namespace: String,
    pub(super) release: String,
}

/// The processes that run, of all scopes. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RunningOperations {
    running: Arc<Mutex<HashMap<ReleaseKey, RunningOperation>>>,
    metrics: InstallationMetrics,
}

/// A process that runs or is about to start.
#[derive(Clone, Debug)]
pub(super) struct RunningOperation {
    pub(super) kind: OperationKind,
    /// The UID of the installation.
    pub(super) owner: String,
    /// What the status of the installation says.
    pub(super) record: InstallationOperation,
    pub(super) cancel: CancellationToken,
    /// What it applies; `None`: it is no upgrade.
    digest: Option<AppliedDigest>,
    since: Timestamp,
}

impl RunningOperation {
    /// The operation as an upgrade; `None`: it is none.
    pub(super) fn upgrade(&self) -> Option<RunningUpgrade<'_>> {
        let digest = self.digest.as_ref()?;
        let since = self.since;
        Some(RunningUpgrade { digest, since })
    }
}

/// The right to run a process for a release. On drop the release is free again.
#[derive(Debug)]
pub(super) struct OperationPermit {
    operations: RunningOperations,
    key: ReleaseKey,
    pub(super) operation: RunningOperation,
}

impl RunningOperations {
    /// Without any process.
    pub fn new(metrics: InstallationMetrics) -> RunningOperations {
        RunningOperations {
            running: Arc::default(),
            metrics,
        }
    }

    /// The right to run a process; `None` while another one runs for this release.
    pub(super) fn begin(
        &self,
        key: ReleaseKey,
        work: &Work,
        owner: &str,
        now: Timestamp,
    ) -> Option<OperationPermit> {
        let mut running = self.running();
        if running.contains_key(&key) {
            return None;
        }
        let operation = RunningOperation {
            kind: work.kind(),
            owner: owner.to_owned(),
            record: InstallationOperation {
                // Each `RandomState` has its own key.
                id: format!("{:016x}", RandomState::new().hash_one(owner)),
                since: format_time(now),
            },
            cancel: CancellationToken::new(),
            digest: work.digest().cloned(),
            since: now,
        };
        running.insert(key.clone(), operation.clone());
        self.metrics.set_running(running.len());
        Some(OperationPermit {
            operations: self.clone(),
            key,
            operation,
        })
    }

    /// The process of a release.
    pub(super) fn get(&self, key: &ReleaseKey) -> Option<RunningOperation> {
        self.running().get(key).cloned()
    }

    /// Whether a process runs for another release of the same namespace.
    pub(super) fn has_others(&self, key: &ReleaseKey) -> bool {
        let running = self.running();
        running.keys().any(|other| {
            other.target == key.target
                && other.namespace == key.namespace
                && other.release != key.release
        })
    }

    fn running(&self) -> MutexGuard<'_, HashMap<ReleaseKey, RunningOperation>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OperationPermit {
    fn drop(&mut self) {
        let mut running = self.operations.running();
        running.remove(&self.key);
        self.operations.metrics.set_running(running.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_one_process_at_a_time() {
        let operations = RunningOperations::default();
        let key = |release: &str| ReleaseKey {
            target: "self".into(),
            namespace: "t".into(),
            release: release.into(),
        };
        let now = Timestamp::UNIX_EPOCH;
        let begin = |release: &str, owner: &str| {
            operations.begin(key(release), &Work::Uninstall, owner, now)
        };
        let first = begin("a", "1").expect("free");
        assert!(begin("a", "2").is_none());
        assert!(!operations.has_others(&key("a")));
        let other = begin("b", "2").expect("another release");
        assert!(operations.has_others(&key("a")));
        let elsewhere = ReleaseKey {
            namespace: "u".into(),
            ..key("a")
        };
        assert!(!operations.has_others(&elsewhere));
        let running = operations.get(&key("a")).expect("it runs");
        assert_eq!(running.owner, "1");
        assert_eq!(running.record, first.operation.record);
        assert_eq!(running.record.since, "1970-01-01T00:00:00Z");
        assert_ne!(running.record.id, other.operation.record.id);
        running.cancel.cancel();
        assert!(first.operation.cancel.is_cancelled());
        drop(first);
        assert!(operations.get(&key("a")).is_none());
        assert!(begin("a", "2").is_some());
    }
}
