//! The steps of a plan.

use k8s_openapi::jiff::Timestamp;

use crate::{
    applied_digest::{AppliedDigest, InputDigest},
    release_name::ReleaseNameTaken,
    stuck::StuckAction,
    validation::field_error::FieldError,
    withdrawal::Withdrawal,
};

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The installation is as it should be.
    Nothing,
    /// Only a change of the objects helps. The status says why.
    Hold(Hold),
    /// Observe again at this time; `None`: when an operation ends or a watch reports something.
    Wait(Option<Timestamp>),
    /// Protect the installation from removal before its uninstall.
    AddFinalizer,
    /// Let the deleted installation go.
    RemoveFinalizer,
    /// Delete the installation, since its version is withdrawn.
    DeleteInstallation(Withdrawal),
    /// Write the interval of the definition to the spec.
    SetInterval(String),
    /// End the operation that runs, since the installation was deleted or changed: terminate its
    /// process, and kill it after 10 seconds.
    Cancel,
    /// Remove the release for good.
    Uninstall,
    /// Delete the namespace that was created for the app.
    DeleteNamespace,
    /// Repair the stuck release, as [`crate::retry::Recovery`] says.
    Repair(StuckAction),
    /// Write zero failures: the count is wrong.
    ResetFailures,
    /// Fetch the chart.
    Download(InputDigest),
    /// Create or label the namespace.
    PrepareNamespace,
    /// Install or upgrade the release to this digest.
    Upgrade(AppliedDigest),
    /// Nothing changed: report success for this digest.
    RecordApplied(AppliedDigest),
}

/// Why only a change helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The target is paused.
    Paused,
    /// The object breaks rules.
    Invalid(Vec<FieldError>),
    /// The app was never installed, and its definition or version is absent.
    NotFound(Withdrawal),
    /// The app runs, and its definition or version is gone.
    Withdrawn(Withdrawal),
    /// The release belongs to another installation.
    NameTaken(ReleaseNameTaken),
}
