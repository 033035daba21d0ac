//! What the controller knows about one installation.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use ludgate_cluster::crd::{
    definition::ApplicationDefinition,
    installation::{ApplicationInstallation, CLEANUP_FINALIZER},
    installation_status::ApplicationInstallationStatus,
};

use super::step::Step;
use crate::{
    applied_digest::{AppliedDigest, InputDigest},
    conditions, defaulting,
    deploy_options::{self, EffectiveOptions},
    release::{Release, ReleaseStatus, latest},
    stuck::{OperationKind, StuckAction},
};

/// The cluster of the app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetState {
    /// Apps can be installed.
    #[default]
    Ready,
    /// An administrator paused it.
    Paused,
    /// It has no node.
    NoNodes,
}

/// The namespace of the app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceState {
    /// There is one.
    pub exists: bool,
    /// It is being deleted.
    pub is_terminating: bool,
    /// It has the labels and annotations of the installation.
    pub is_prepared: bool,
    /// It was created for this installation.
    pub is_created_here: bool,
    /// Other installations have their app in it too.
    pub is_shared: bool,
}

impl NamespaceState {
    /// What the namespace needs before an upgrade; `None`: nothing. `creates`: the installation
    /// asks for its creation.
    pub(super) fn step(self, creates: bool) -> Option<Step> {
        if self.is_terminating {
            return Some(Step::Wait(None));
        }
        let needs = creates && !(self.exists && self.is_prepared);
        needs.then_some(Step::PrepareNamespace)
    }
}

/// When failed steps are tried again; `None`: at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryTimes {
    /// A download, an installation or an upgrade.
    pub apply: Option<Timestamp>,
    /// The repair of a stuck release.
    pub repair: Option<Timestamp>,
    /// The last uninstall.
    pub uninstall: Option<Timestamp>,
}

/// An upgrade that a process of this replica performs.
#[derive(Clone, Copy, Debug)]
pub struct RunningUpgrade<'a> {
    /// What it applies.
    pub digest: &'a AppliedDigest,
    /// Its start.
    pub since: Timestamp,
}

/// A chart on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downloaded {
    /// What it was fetched for.
    pub inputs: InputDigest,
    /// The digest of the chart.
    pub chart: String,
}

/// What is known about one installation.
#[derive(Clone, Copy, Debug)]
pub struct ObservedInstallation<'a> {
    /// The object.
    pub installation: &'a ApplicationInstallation,
    /// The definition that it names; `None`: there is none.
    pub definition: Option<&'a ApplicationDefinition>,
    /// The cluster of the app.
    pub target: TargetState,
    /// The namespace of the app.
    pub namespace: NamespaceState,
    /// The revisions of the release.
    pub history: &'a [Release],
    /// The operation that runs for the installation. Only the leader reconciles, and the processes
    /// of earlier leaders have ended, so it is always one of this replica.
    pub running: Option<OperationKind>,
    /// The upgrade, if it is one.
    pub upgrade: Option<RunningUpgrade<'a>>,
    /// The chart that was fetched last; `None`: none since the last upgrade.
    pub downloaded: Option<&'a Downloaded>,
    /// When failed steps are tried again.
    pub retry: RetryTimes,
    /// Whether the interval since the last upgrade is over.
    pub is_interval_due: bool,
    /// The time.
    pub now: Timestamp,
}

impl<'a> ObservedInstallation<'a> {
    pub(super) fn status(&self) -> Option<&'a ApplicationInstallationStatus> {
        self.installation.status.as_ref()
    }

    pub(super) fn uid(&self) -> &'a str {
        self.installation
            .metadata
            .uid
            .as_deref()
            .unwrap_or_default()
    }

    pub(super) fn generation(&self) -> i64 {
        self.installation.metadata.generation.unwrap_or_default()
    }

    pub(super) fn has_finalizer(&self) -> bool {
        let mut finalizers = self.installation.finalizers().iter();
        finalizers.any(|finalizer| finalizer == CLEANUP_FINALIZER)
    }

    /// The name of the release in the status.
    pub(super) fn recorded_release(&self) -> Option<&'a str> {
        let release = self.status()?.helm_release.as_ref()?;
        release.name.as_deref()
    }

    /// `Ready` is true for the current spec.
    pub(super) fn is_ready(&self) -> bool {
        let generation = self.generation();
        self.status()
            .is_some_and(|status| conditions::is_ready(&status.conditions, generation))
    }

    /// The spec changed since the last attempt: each sets `Accepted`.
    pub(super) fn is_changed(&self) -> bool {
        let status = self.status();
        let accepted = status.and_then(|status| status.conditions.get(conditions::ACCEPTED));
        accepted.is_some_and(|accepted| accepted.observed_generation != self.generation())
    }

    pub(super) fn options(&self) -> EffectiveOptions {
        let definition = self.definition.map(|definition| &definition.spec);
        deploy_options::effective(&self.installation.spec, definition)
    }

    /// The newest revision is in use, and it is the one that the status names.
    pub(super) fn is_deployed(&self) -> bool {
        let latest = latest(self.history);
        let status = self.status();
        let recorded = status.and_then(|status| status.helm_release.as_ref());
        latest.is_some_and(|latest| {
            latest.status == ReleaseStatus::Deployed
                && recorded.is_some_and(|recorded| recorded.version == latest.revision)
        })
    }

    /// Whether a release that needs this action counts as stuck. The pending release of a ready
    /// installation may belong to a person who runs Helm.
    pub(super) fn may_be_stuck(&self, action: StuckAction) -> bool {
        let failures = self.status().map_or(0, |status| status.failures);
        match action {
            StuckAction::Nothing => false,
            StuckAction::UninstallAgain => self.namespace.exists,
            StuckAction::Rollback(_) | StuckAction::Uninstall => {
                self.namespace.exists && !(self.is_ready() && failures == 0)
            }
        }
    }

    /// The digest of the last upgrade.
    pub(super) fn applied(&self) -> Option<AppliedDigest> {
        AppliedDigest::parse(self.status()?.applied_digest.as_deref()?)
    }

    pub(super) fn has_applied(&self, digest: &AppliedDigest) -> bool {
        self.applied().is_some_and(|applied| applied == *digest)
    }

    pub(super) fn creates_namespace(&self) -> bool {
        let own = self
            .installation
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default();
        let definition = self.definition.map(|definition| &definition.spec);
        defaulting::target_namespace(&self.installation.spec, own, definition).create
    }
}
