//! Tags in the order of menus: by kind, the newest of each kind first.

use std::collections::BTreeSet;

use crate::tag::{ImageKind, ImageTag};

/// How many of the newest images of a kind are wanted, and which besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) releases: usize,
    pub(crate) weeklies: usize,
    pub(crate) dailies: usize,
    pub(crate) tags: BTreeSet<String>,
}

/// Tags in the order of menus, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagList(Vec<ImageTag>);

impl TagList {
    /// Reads tags. Those in `aliases` are aliases; with a `cycle`, tags of others are left out.
    pub fn parse(
        tags: &[impl AsRef<str>],
        aliases: &[impl AsRef<str>],
        cycle: Option<u64>,
    ) -> TagList {
        let aliases: BTreeSet<&str> = aliases.iter().map(AsRef::as_ref).collect();
        let tags: BTreeSet<&str> = tags.iter().map(AsRef::as_ref).collect();
        let parsed = tags.into_iter().map(|tag| match aliases.contains(tag) {
            true => ImageTag::alias(tag),
            false => ImageTag::parse(tag),
        });
        let of_cycle = parsed.filter(|tag| cycle.is_none_or(|cycle| tag.cycle == Some(cycle)));
        let mut tags: Vec<ImageTag> = of_cycle.collect();
        tags.sort_by(in_menu_order);
        TagList(tags)
    }

    /// All tags, also those of one architecture.
    pub fn iter(&self) -> impl Iterator<Item = &ImageTag> {
        self.0.iter()
    }

    /// The tags of images that have all architectures.
    pub fn general(&self) -> impl Iterator<Item = &ImageTag> {
        self.iter().filter(|tag| tag.architecture.is_none())
    }
}

/// By kind, then the newest first.
pub(crate) fn in_menu_order(one: &ImageTag, other: &ImageTag) -> std::cmp::Ordering {
    one.kind
        .cmp(&other.kind)
        .then_with(|| other.compare_within_kind(one))
        .then_with(|| one.tag.cmp(&other.tag))
}

impl Wanted {
    /// Which of the tags, in the order of menus, are wanted.
    pub(crate) fn select<'t>(&self, tags: impl Iterator<Item = &'t ImageTag>) -> BTreeSet<String> {
        let (mut releases, mut weeklies, mut dailies) =
            (self.releases, self.weeklies, self.dailies);
        let mut selected = BTreeSet::new();
        for tag in tags {
            let left = match tag.kind {
                ImageKind::Release => Some(&mut releases),
                ImageKind::Weekly => Some(&mut weeklies),
                ImageKind::Daily => Some(&mut dailies),
                ImageKind::Alias
                | ImageKind::Candidate
                | ImageKind::Experimental
                | ImageKind::Unknown => None,
            };
            let is_newest = match left.filter(|_| tag.architecture.is_none()) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    true
                }
                _ => false,
            };
            if is_newest || self.tags.contains(&tag.tag) {
                selected.insert(tag.tag.clone());
            }
        }
        selected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SORTED: [&str; 20] = [
        "r21_0_1",
        "r20_0_1_c0027.001",
        "w_2077_46",
        "w_2077_46-amd64",
        "w_2077_45",
        "w_2077_44",
        "w_2077_43",
        "w_2077_42",
        "w_2077_40_c0027.001",
        "w_2077_40_c0026.001",
        "w_2077_40_c0026.001-amd64",
        "d_2077_10_21",
        "d_2077_10_20",
        "r22_0_1_rc1-arm64",
        "r22_0_0_rc1",
        "exp_w_2021_22",
        "recommended_c0027",
        "recommended",
        "latest_c0027-arm64",
        "latest-arm64",
    ];

    fn names<'t>(tags: impl Iterator<Item = &'t ImageTag>) -> Vec<&'t str> {
        tags.map(|tag| tag.tag.as_str()).collect()
    }

    fn shuffled() -> Vec<&'static str> {
        // Seven has no common divisor with twenty, so each tag comes once.
        (0..SORTED.len())
            .map(|at| SORTED[at * 7 % SORTED.len()])
            .collect()
    }

    #[test]
    fn tags_are_listed_by_kind_and_the_newest_first() {
        let list = TagList::parse(&shuffled(), &[""; 0], None);
        assert_eq!(names(list.iter()), SORTED);
        assert!(list.general().all(|tag| !tag.tag.contains('-')));
    }

    #[test]
    fn a_cycle_leaves_out_all_other_tags() {
        let list = TagList::parse(&shuffled(), &[""; 0], Some(27));
        assert_eq!(
            names(list.general()),
            [
                "r20_0_1_c0027.001",
                "w_2077_40_c0027.001",
                "recommended_c0027"
            ]
        );
    }

    #[test]
    fn the_newest_of_each_kind_and_the_named_tags_are_selected() {
        let list = TagList::parse(&shuffled(), &["recommended", "recommended_c0027"], None);
        assert_eq!(list.iter().next().unwrap().tag, "recommended_c0027");
        let wanted = Wanted {
            releases: 1,
            weeklies: 3,
            dailies: 1,
            tags: ["recommended".to_owned(), "w_2077_45".to_owned()].into(),
        };
        let selected = wanted.select(list.iter());
        let expected = [
            "d_2077_10_21",
            "r21_0_1",
            "recommended",
            "w_2077_44",
            "w_2077_45",
            "w_2077_46",
        ];
        assert_eq!(selected, expected.map(str::to_owned).into());
    }
}
