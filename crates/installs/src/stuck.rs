//! Releases that an interrupted operation left behind, and how they are repaired.

use crate::release::{Release, ReleaseStatus, latest};

/// What repairs a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StuckAction {
    /// No operation was interrupted.
    Nothing,
    /// Go back to this revision, the newest that was in use.
    Rollback(i64),
    /// No revision was ever in use: remove the release, so that it can be installed again.
    Uninstall,
    /// An uninstall was interrupted. Helm accepts a second one, and no upgrade.
    UninstallAgain,
}

/// What repairs a release with this history, if no operation runs on it.
pub fn repair(history: &[Release]) -> StuckAction {
    let Some(latest) = latest(history) else {
        return StuckAction::Nothing;
    };
    if latest.status == ReleaseStatus::Uninstalling {
        return StuckAction::UninstallAgain;
    }
    if !latest.status.is_pending() {
        return StuckAction::Nothing;
    }
    let successful = history.iter().filter(|release| was_in_use(release));
    match successful.map(|release| release.revision).max() {
        Some(revision) => StuckAction::Rollback(revision),
        None => StuckAction::Uninstall,
    }
}

/// Whether the revision was installed completely. A failed rollback also marks interrupted and
/// failed revisions as superseded; their descriptions tell them apart.
fn was_in_use(release: &Release) -> bool {
    match release.status {
        ReleaseStatus::Deployed => true,
        ReleaseStatus::Superseded => {
            let description = release.description.as_str();
            let was_interrupted = description.starts_with("Preparing ")
                || description.starts_with("Initial install underway");
            !was_interrupted && !description.contains("\" failed: ")
        }
        ReleaseStatus::Unknown
        | ReleaseStatus::Uninstalled
        | ReleaseStatus::Failed
        | ReleaseStatus::Uninstalling
        | ReleaseStatus::PendingInstall
        | ReleaseStatus::PendingUpgrade
        | ReleaseStatus::PendingRollback => false,
    }
}

/// What a process of this replica does with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// It installs or upgrades.
    Apply,
    /// It repairs the release.
    Repair,
    /// It removes the release for good.
    Uninstall,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, status and description.
    type Revision<'a> = (i64, &'a str, &'a str);

    fn history(revisions: &[Revision<'_>]) -> Vec<Release> {
        let release = |(revision, status, description): &Revision<'_>| Release {
            revision: *revision,
            status: ReleaseStatus::parse(status),
            description: (*description).to_owned(),
            ..Release::default()
        };
        revisions.iter().map(release).collect()
    }

    #[test]
    fn a_release_goes_back_to_the_newest_revision_that_was_in_use() {
        let upgrade_failed = "Upgrade \"X\" failed: timed out";
        let rollback_failed = "Rollback \"X\" failed: timed out";
        let cases: [(&[Revision<'_>], StuckAction); 14] = [
            (
                &[(1, "superseded", ""), (2, "pending-upgrade", "")],
                StuckAction::Rollback(1),
            ),
            (
                &[(1, "deployed", ""), (2, "pending-rollback", "")],
                StuckAction::Rollback(1),
            ),
            (
                &[
                    (1, "deployed", ""),
                    (2, "superseded", ""),
                    (3, "pending-upgrade", ""),
                ],
                StuckAction::Rollback(2),
            ),
            (
                &[
                    (1, "superseded", "Install complete"),
                    (2, "superseded", "Preparing upgrade"),
                    (3, "failed", rollback_failed),
                    (4, "pending-upgrade", "Preparing upgrade"),
                ],
                StuckAction::Rollback(1),
            ),
            (
                &[
                    (1, "superseded", "Install complete"),
                    (2, "superseded", upgrade_failed),
                    (3, "failed", rollback_failed),
                    (4, "pending-upgrade", "Preparing upgrade"),
                ],
                StuckAction::Rollback(1),
            ),
            (
                &[
                    (1, "superseded", "Install complete"),
                    (2, "superseded", "Upgrade complete"),
                    (3, "failed", rollback_failed),
                    (4, "pending-upgrade", "Preparing upgrade"),
                ],
                StuckAction::Rollback(2),
            ),
            (
                &[(1, "failed", ""), (2, "pending-upgrade", "")],
                StuckAction::Uninstall,
            ),
            (&[(1, "pending-install", "")], StuckAction::Uninstall),
            (
                &[(
                    7,
                    "uninstalling",
                    "Deletion in progress (or silently failed)",
                )],
                StuckAction::UninstallAgain,
            ),
            (
                &[
                    (2, "superseded", "Rollback to 1"),
                    (3, "pending-upgrade", ""),
                ],
                StuckAction::Rollback(2),
            ),
            (&[], StuckAction::Nothing),
            (&[(1, "deployed", "")], StuckAction::Nothing),
            (
                &[(1, "deployed", ""), (2, "failed", "")],
                StuckAction::Nothing,
            ),
            (&[(1, "uninstalled", "")], StuckAction::Nothing),
        ];
        for (revisions, wanted) in cases {
            let mut releases = history(revisions);
            assert_eq!(repair(&releases), wanted, "{revisions:?}");
            releases.reverse();
            assert_eq!(repair(&releases), wanted, "the order of {revisions:?}");
        }
    }
}
