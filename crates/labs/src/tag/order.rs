//! Which of two images of one kind is newer.

use std::cmp::Ordering;

use super::parsed::{ImageTag, TagVersion};

impl ImageTag {
    /// Compares two tags of one kind: the greater is the newer. `None` if their kinds differ.
    ///
    /// A missing number is the oldest. An image of all architectures is newer than one of a single
    /// architecture, so that it is first in a menu.
    pub fn compare(&self, other: &ImageTag) -> Option<Ordering> {
        (self.kind == other.kind).then(|| self.compare_within_kind(other))
    }

    pub(crate) fn compare_within_kind(&self, other: &ImageTag) -> Ordering {
        let first = match (self.version, other.version) {
            (Some(own), Some(others)) => own.cmp(&others),
            _ => self.base.cmp(&other.base),
        };
        let architecture = |tag: &ImageTag| (tag.architecture.is_none(), tag.architecture.clone());
        first
            .then(self.cycle.cmp(&other.cycle))
            .then(self.cycle_build.cmp(&other.cycle_build))
            .then(self.build.cmp(&other.build))
            .then_with(|| self.extra.cmp(&other.extra))
            .then_with(|| architecture(self).cmp(&architecture(other)))
    }
}

impl Ord for TagVersion {
    fn cmp(&self, other: &TagVersion) -> Ordering {
        // A candidate is older than its release, and rc10 is newer than rc2.
        let key = |version: &TagVersion| {
            (
                version.major,
                version.minor,
                version.patch,
                version.candidate.unwrap_or(u64::MAX),
            )
        };
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for TagVersion {
    fn partial_cmp(&self, other: &TagVersion) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
