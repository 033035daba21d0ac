//! Helm's releases: one object per revision, oldest first in a history.

use ludgate_cluster::crd::installation_status::{HelmRelease, HelmReleaseInfo};

/// Longest notes of a release, in bytes.
pub(crate) const MAX_NOTES: usize = 4096;

/// The state of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReleaseStatus {
    /// Helm does not say, or a word of a later version.
    #[default]
    Unknown,
    /// This revision is in use.
    Deployed,
    /// The release was removed, and its history kept.
    Uninstalled,
    /// A later revision is in use.
    Superseded,
    /// The operation failed.
    Failed,
    /// An uninstall runs, or was interrupted.
    Uninstalling,
    /// A first installation runs, or was interrupted.
    PendingInstall,
    /// An upgrade runs, or was interrupted.
    PendingUpgrade,
    /// A rollback runs, or was interrupted.
    PendingRollback,
}

impl ReleaseStatus {
    /// All states.
    pub const ALL: [ReleaseStatus; 9] = [
        ReleaseStatus::Unknown,
        ReleaseStatus::Deployed,
        ReleaseStatus::Uninstalled,
        ReleaseStatus::Superseded,
        ReleaseStatus::Failed,
        ReleaseStatus::Uninstalling,
        ReleaseStatus::PendingInstall,
        ReleaseStatus::PendingUpgrade,
        ReleaseStatus::PendingRollback,
    ];

    /// Helm's word for the state.
    pub fn as_str(self) -> &'static str {
        match self {
            ReleaseStatus::Unknown => "unknown",
            ReleaseStatus::Deployed => "deployed",
            ReleaseStatus::Uninstalled => "uninstalled",
            ReleaseStatus::Superseded => "superseded",
            ReleaseStatus::Failed => "failed",
            ReleaseStatus::Uninstalling => "uninstalling",
            ReleaseStatus::PendingInstall => "pending-install",
            ReleaseStatus::PendingUpgrade => "pending-upgrade",
            ReleaseStatus::PendingRollback => "pending-rollback",
        }
    }

    /// The state that Helm names. Other words are unknown states.
    pub fn parse(text: &str) -> ReleaseStatus {
        let named = |status: &ReleaseStatus| status.as_str() == text;
        ReleaseStatus::ALL
            .into_iter()
            .find(named)
            .unwrap_or_default()
    }

    /// Whether an operation holds Helm's lock on the release.
    pub fn is_pending(self) -> bool {
        match self {
            ReleaseStatus::PendingInstall
            | ReleaseStatus::PendingUpgrade
            | ReleaseStatus::PendingRollback => true,
            ReleaseStatus::Unknown
            | ReleaseStatus::Deployed
            | ReleaseStatus::Uninstalled
            | ReleaseStatus::Superseded
            | ReleaseStatus::Failed
            | ReleaseStatus::Uninstalling => false,
        }
    }
}

/// One revision of a release, without its chart and manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// The name of the release.
    pub name: String,
    /// The namespace of the release.
    pub namespace: String,
    /// The number of the revision, from 1.
    pub revision: i64,
    /// The state of the revision.
    pub status: ReleaseStatus,
    /// What happened, in Helm's words.
    pub description: String,
    /// The name of the chart.
    pub chart_name: String,
    /// The version of the chart.
    pub chart_version: String,
    /// The version of the app in the chart.
    pub app_version: String,
    /// When the first revision was deployed, in RFC 3339.
    pub first_deployed: Option<String>,
    /// When this revision was deployed, in RFC 3339.
    pub last_deployed: Option<String>,
    /// When the release was uninstalled, in RFC 3339.
    pub deleted: Option<String>,
    /// The notes of the chart.
    pub notes: Option<String>,
    /// The UID of the installation that the release's labels name.
    pub owner: Option<String>,
}

impl Release {
    /// The release as the status of an installation shows it.
    pub fn to_status(&self) -> HelmRelease {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let notes = self.notes.as_deref().unwrap_or_default();
        HelmRelease {
            name: some(&self.name),
            version: self.revision,
            info: Some(HelmReleaseInfo {
                first_deployed: self.first_deployed.clone(),
                last_deployed: self.last_deployed.clone(),
                deleted: self.deleted.clone(),
                description: some(&self.description),
                status: Some(self.status.as_str().to_owned()),
                notes: some(&notes[..notes.floor_char_boundary(MAX_NOTES)]),
            }),
        }
    }
}

/// The newest revision of a history in any order.
pub fn latest(history: &[Release]) -> Option<&Release> {
    history.iter().max_by_key(|release| release.revision)
}

#[cfg(test)]
mod tests {
    use ludgate_cluster::crd::installation_status::RELEASE_STATUSES;

    use super::*;

    #[test]
    fn each_state_has_helms_word_and_other_words_are_unknown() {
        assert_eq!(
            ReleaseStatus::ALL.map(ReleaseStatus::as_str),
            RELEASE_STATUSES
        );
        for status in ReleaseStatus::ALL {
            assert_eq!(ReleaseStatus::parse(status.as_str()), status);
            let is_pending = status.as_str().starts_with("pending-");
            assert_eq!(status.is_pending(), is_pending, "{status:?}");
        }
        for text in ["", "Deployed", "pending-test"] {
            assert_eq!(
                ReleaseStatus::parse(text),
                ReleaseStatus::Unknown,
                "{text:?}"
            );
        }
    }

    #[test]
    fn the_status_of_an_installation_shows_the_newest_revision() {
        let release = |revision: i64, status: ReleaseStatus| Release {
            name: "apps-app-1".into(),
            revision,
            status,
            notes: Some("ä".repeat(MAX_NOTES)),
            ..Release::default()
        };
        let history = [
            release(3, ReleaseStatus::Deployed),
            release(1, ReleaseStatus::Superseded),
        ];
        let shown = latest(&history).expect("a release").to_status();
        assert_eq!(
            (shown.name.as_deref(), shown.version),
            (Some("apps-app-1"), 3)
        );
        let info = shown.info.expect("info");
        assert_eq!(info.status.as_deref(), Some("deployed"));
        assert_eq!(info.description, None);
        assert_eq!(info.notes.map(|notes| notes.len()), Some(MAX_NOTES));
        assert_eq!(latest(&[]), None);
    }
}
