//! Which images the drop-down list of a form shows.

use chrono::{DateTime, NaiveTime, TimeDelta, Utc};

use crate::tag::{ImageKind, ImageTag, TagVersion};

/// Conditions for the images of one kind. An image must meet all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageFilter {
    /// At most so many, the newest first.
    pub number: Option<usize>,
    /// For images with a date: at most so old.
    pub age: Option<TimeDelta>,
    /// For images with a build number: at least this one.
    pub cutoff_build: Option<u64>,
    /// For images with a date: not older than this.
    pub cutoff_date: Option<DateTime<Utc>>,
    /// For images with the version of a release: at least this one.
    pub cutoff_version: Option<TagVersion>,
}

/// Conditions for each kind. Aliases and unknown tags are always shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DropdownFilter {
    /// For releases.
    pub release: ImageFilter,
    /// For weeklies.
    pub weekly: ImageFilter,
    /// For dailies.
    pub daily: ImageFilter,
    /// For release candidates.
    pub release_candidate: ImageFilter,
    /// For experimental images.
    pub experimental: ImageFilter,
}

impl DropdownFilter {
    fn for_kind(&self, kind: ImageKind) -> Option<&ImageFilter> {
        match kind {
            ImageKind::Release => Some(&self.release),
            ImageKind::Weekly => Some(&self.weekly),
            ImageKind::Daily => Some(&self.daily),
            ImageKind::Candidate => Some(&self.release_candidate),
            ImageKind::Experimental => Some(&self.experimental),
            ImageKind::Alias | ImageKind::Unknown => None,
        }
    }

    /// Of tags in the order of menus, those that are shown at a time.
    pub fn apply<'t>(
        &self,
        tags: impl Iterator<Item = &'t ImageTag>,
        now: DateTime<Utc>,
    ) -> Vec<&'t ImageTag> {
        let mut counts = [0; ImageKind::ALL.len()];
        let mut shown = Vec::new();
        for tag in tags {
            let Some(filter) = self.for_kind(tag.kind) else {
                shown.push(tag);
                continue;
            };
            let Some(count) = counts.get_mut(tag.kind as usize) else {
                continue;
            };
            if filter.number.is_none_or(|number| *count < number) && filter.passes(tag, now) {
                *count += 1;
                shown.push(tag);
            }
        }
        shown
    }
}

impl ImageFilter {
    fn passes(&self, tag: &ImageTag, now: DateTime<Utc>) -> bool {
        let oldest = self.age.and_then(|age| now.checked_sub_signed(age));
        // An image is as old as the start of its day.
        let date = tag.date.map(|date| date.and_time(NaiveTime::MIN).and_utc());
        let not_before = |cutoff: Option<DateTime<Utc>>| match (date, cutoff) {
            (Some(date), Some(cutoff)) => date >= cutoff,
            _ => true,
        };
        let version = tag.version.filter(|_| tag.is_semantic);
        not_before(oldest)
            && not_before(self.cutoff_date)
            && at_least(tag.build, self.cutoff_build)
            && at_least(version, self.cutoff_version)
    }
}

fn at_least<T: PartialOrd>(own: Option<T>, cutoff: Option<T>) -> bool {
    match (own, cutoff) {
        (Some(own), Some(cutoff)) => own >= cutoff,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone;

    use super::*;
    use crate::images::TagList;

    fn version(major: u64, minor: u64, patch: u64) -> Option<TagVersion> {
        Some(TagVersion {
            major,
            minor,
            patch,
            candidate: None,
        })
    }

    fn shown(tags: &[&str], with_architectures: bool, filter: &DropdownFilter) -> Vec<String> {
        let now = Utc.with_ymd_and_hms(2025, 2, 19, 17, 0, 0).unwrap();
        let tags = TagList::parse(tags, &["recommended", "recommended-amd64"], None);
        let candidates = tags
            .iter()
            .filter(|tag| with_architectures || tag.architecture.is_none());
        let shown = filter.apply(candidates, now).into_iter();
        shown.map(|tag| tag.tag.clone()).collect()
    }

    const TAGS: [&str; 25] = [
        "unknown",
        "r28_0_1-amd64",
        "recommended",
        "exp_w_2025_05",
        "recommended-amd64",
        "r29_2_1_rsp2742",
        "r27_0_0_rc1",
        "r29_2_1_rsp2332",
        "d_2025_02_16",
        "r28_0_1",
        "r28_0_0",
        "w_2025_07-arm64",
        "r27_0_0",
        "w_2025_04",
        "r26_0_0",
        "w_2025_06",
        "w_2025_07",
        "w_2025_05",
        "d_2025_02_19",
        "d_2025_02_17",
        "d_2025_02_18",
        "r28_0_0_rc1",
        "r28_0_0_rc2-amd64",
        "exp_w_2025_07",
        "exp_w_2025_06",
    ];

    fn policy() -> DropdownFilter {
        DropdownFilter {
            release: ImageFilter {
                cutoff_build: Some(2600),
                cutoff_version: version(27, 0, 0),
                ..ImageFilter::default()
            },
            weekly: ImageFilter {
                age: Some(TimeDelta::weeks(2)),
                ..ImageFilter::default()
            },
            daily: ImageFilter {
                age: Some(TimeDelta::days(2)),
                number: Some(4),
                ..ImageFilter::default()
            },
            release_candidate: ImageFilter {
                cutoff_version: version(25, 3, 1),
                number: Some(1),
                ..ImageFilter::default()
            },
            experimental: ImageFilter {
                cutoff_date: Some(Utc.with_ymd_and_hms(2025, 2, 7, 0, 0, 0).unwrap()),
                ..ImageFilter::default()
            },
        }
    }

    #[test]
    fn each_kind_has_its_own_conditions() {
        let expected = [
            "recommended",
            "r29_2_1_rsp2742",
            "r28_0_1",
            "r28_0_0",
            "r27_0_0",
            "w_2025_07",
            "w_2025_06",
            "d_2025_02_19",
            "d_2025_02_18",
            "r28_0_0_rc1",
            "exp_w_2025_07",
            "unknown",
        ];
        assert_eq!(shown(&TAGS, false, &policy()), expected);
    }

    #[test]
    fn images_of_one_architecture_count_if_they_are_listed() {
        let shown = shown(&TAGS, true, &policy());
        assert!(shown.contains(&"r28_0_0_rc2-amd64".to_owned()));
        assert!(!shown.contains(&"r28_0_0_rc1".to_owned()));
        assert_eq!(shown.len(), 15);
    }

    #[test]
    fn a_version_is_only_compared_with_versions_of_releases() {
        let filter = ImageFilter {
            cutoff_version: version(28, 0, 1),
            ..ImageFilter::default()
        };
        let policy = DropdownFilter {
            release: filter.clone(),
            weekly: filter.clone(),
            daily: ImageFilter::default(),
            release_candidate: filter.clone(),
            experimental: filter,
        };
        let tags = [
            "r28_0_1",
            "r28_0_0",
            "w_2025_07",
            "w_2025_06",
            "r28_0_2_rc1",
            "r27_0_1_rc1",
            "exp_w_2025_07",
            "exp_r28_0_1_exp",
            "exp_r28_0_0_exp",
        ];
        let expected = [
            "r28_0_1",
            "w_2025_07",
            "w_2025_06",
            "r28_0_2_rc1",
            "exp_w_2025_07",
            "exp_r28_0_1_exp",
        ];
        assert_eq!(shown(&tags, false, &policy), expected);
    }

    #[test]
    fn the_number_zero_hides_a_kind() {
        let policy = DropdownFilter {
            weekly: ImageFilter {
                number: Some(0),
                ..ImageFilter::default()
            },
            ..DropdownFilter::default()
        };
        assert_eq!(
            shown(&["w_2025_07", "r28_0_1"], false, &policy),
            ["r28_0_1"]
        );
    }
}
