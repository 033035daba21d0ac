//! Images with their digests, and which are other names of which.

use std::collections::{BTreeMap, BTreeSet};

use super::tag_list::{Wanted, in_menu_order};
use crate::tag::{ImageKind, ImageTag, title};

/// An image of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabImage {
    /// Its tag.
    pub tag: ImageTag,
    /// Host of the registry, with its port if that is not the default.
    pub registry: String,
    /// What the registry calls the image.
    pub repository: String,
    /// The digest, with its algorithm.
    pub digest: String,
    /// Size in bytes, if a node reports it.
    pub size: Option<u64>,
    /// Other tags of the same digest.
    pub aliases: BTreeSet<String>,
    /// Of an alias, the tag that it is a name of.
    pub alias_target: Option<String>,
    /// Nodes that have the image.
    pub nodes: BTreeSet<String>,
}

impl LabImage {
    /// The reference with the tag.
    pub fn reference(&self) -> String {
        format!("{}/{}:{}", self.registry, self.repository, self.tag.tag)
    }

    /// The reference with tag and digest.
    pub fn pinned_reference(&self) -> String {
        format!("{}@{}", self.reference(), self.digest)
    }

    /// Takes over what the tag does not say from the image that it is a name of.
    fn resolve(&mut self, target: &ImageTag) {
        self.alias_target = Some(target.tag.clone());
        let tag = &mut self.tag;
        tag.kind = ImageKind::Alias;
        tag.cycle = target.cycle;
        if tag.architecture.is_none() {
            tag.architecture.clone_from(&target.architecture);
        }
        if tag.date.is_none() {
            tag.date = target.date;
        }
        // Parentheses within parentheses are hard to read.
        let mut inner = target.display_name.replace(" (", ", ").replace(')', "");
        let architecture = tag.architecture.as_ref().map(|name| format!(" [{name}]"));
        if let Some(architecture) = &architecture {
            inner = inner.replace(architecture, "");
        }
        let base = title(tag.base.as_deref().unwrap_or(&tag.tag));
        tag.display_name = format!("{base} ({inner}){}", architecture.unwrap_or_default());
    }
}

/// Images in the order of menus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageList {
    images: Vec<LabImage>,
    /// Place of the image that stands for a digest. It is no alias, if there is one that is not.
    by_digest: BTreeMap<String, usize>,
}

impl ImageList {
    /// Lists images and finds out which are aliases. Of several with one digest, the first that is
    /// no alias is the one that the aliases are names of.
    pub fn new(mut images: Vec<LabImage>) -> ImageList {
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, image) in images.iter().enumerate() {
            groups.entry(image.digest.clone()).or_default().push(at);
        }
        let mut standing = BTreeSet::new();
        for group in groups.values() {
            let tags: Vec<ImageTag> = group
                .iter()
                .filter_map(|at| Some(images.get(*at)?.tag.clone()))
                .collect();
            let target = tags.iter().find(|tag| !tag.kind.may_be_alias());
            if let Some(stands) = target.or(tags.first()) {
                standing.insert(stands.tag.clone());
            }
            for at in group {
                let Some(image) = images.get_mut(*at) else {
                    continue;
                };
                if let Some(target) = target.filter(|_| image.tag.kind.may_be_alias()) {
                    image.resolve(target);
                }
                let others = tags.iter().map(|tag| tag.tag.clone());
                let own = image.tag.tag.clone();
                image.aliases.extend(others.filter(|other| *other != own));
            }
        }
        ImageList::sorted(images, &standing)
    }

    fn sorted(mut images: Vec<LabImage>, standing: &BTreeSet<String>) -> ImageList {
        images.sort_by(|one, other| in_menu_order(&one.tag, &other.tag));
        let mut by_digest = BTreeMap::new();
        for (at, image) in images.iter().enumerate() {
            // In a selection the image that stood for a digest may be missing.
            if standing.contains(&image.tag.tag) {
                by_digest.insert(image.digest.clone(), at);
            } else {
                by_digest.entry(image.digest.clone()).or_insert(at);
            }
        }
        ImageList { images, by_digest }
    }

    /// The wanted images. They keep aliases that are not among them.
    pub(crate) fn select(&self, wanted: &Wanted) -> ImageList {
        let selected = wanted.select(self.images.iter().map(|image| &image.tag));
        let images = self.images.iter();
        let images = images.filter(|image| selected.contains(&image.tag.tag));
        let standing = self.one_per_digest().map(|image| image.tag.tag.clone());
        ImageList::sorted(images.cloned().collect(), &standing.collect())
    }

    /// All images, also those of one architecture.
    pub fn iter(&self) -> impl Iterator<Item = &LabImage> {
        self.images.iter()
    }

    /// The images that have all architectures.
    pub fn general(&self) -> impl Iterator<Item = &LabImage> {
        self.iter().filter(|image| image.tag.architecture.is_none())
    }

    /// One image of each digest, in the order of menus.
    pub(crate) fn one_per_digest(&self) -> impl Iterator<Item = &LabImage> {
        let images = self.images.iter().enumerate();
        images.filter_map(|(at, image)| {
            (self.by_digest.get(&image.digest) == Some(&at)).then_some(image)
        })
    }

    /// The image of a tag.
    pub fn get(&self, tag: &str) -> Option<&LabImage> {
        self.iter().find(|image| image.tag.tag == tag)
    }

    /// The image that stands for a digest.
    pub fn with_digest(&self, digest: &str) -> Option<&LabImage> {
        self.images.get(*self.by_digest.get(digest)?)
    }

    /// The newest image of a kind that has all architectures.
    pub fn latest(&self, kind: ImageKind) -> Option<&LabImage> {
        self.general().find(|image| image.tag.kind == kind)
    }

    /// Whether an alias in this list is a name of the image.
    pub(crate) fn has_alias(&self, image: &LabImage) -> bool {
        let is_name = |alias: &LabImage| {
            alias.tag.kind == ImageKind::Alias
                && alias.alias_target.as_deref() == Some(image.tag.tag.as_str())
        };
        image.tag.kind != ImageKind::Alias && self.iter().any(is_name)
    }

    /// Whether the image is an alias, and what it is a name of is in this list.
    pub(crate) fn has_target(&self, image: &LabImage) -> bool {
        let target = image.alias_target.as_deref();
        target.is_some_and(|target| self.get(target).is_some())
    }

    /// Records that a node has the image of a digest, and the size in bytes that it reports.
    pub(crate) fn mark_cached(&mut self, digest: &str, node: &str, size: Option<u64>) {
        // Most images of a node are none of ours.
        if !self.by_digest.contains_key(digest) {
            return;
        }
        let images = self.images.iter_mut();
        for image in images.filter(|image| image.digest == digest) {
            image.nodes.insert(node.to_owned());
            image.size = size.or(image.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(tag: &str, digest: &str) -> LabImage {
        LabImage {
            tag: ImageTag::parse(tag),
            registry: "registry.test".to_owned(),
            repository: "lab".to_owned(),
            digest: digest.to_owned(),
            size: None,
            aliases: BTreeSet::new(),
            alias_target: None,
            nodes: BTreeSet::new(),
        }
    }

    #[test]
    fn an_unknown_tag_with_a_known_digest_becomes_an_alias() {
        let list = ImageList::new(vec![
            image("latest_weekly", "a:1"),
            image("w_2077_43", "a:1"),
            image("latest_daily", "a:2"),
        ]);
        let alias = list.get("latest_weekly").unwrap();
        assert_eq!(alias.tag.kind, ImageKind::Alias);
        assert_eq!(alias.tag.display_name, "Latest Weekly (Weekly 2077_43)");
        assert_eq!(alias.alias_target.as_deref(), Some("w_2077_43"));
        assert_eq!(list.with_digest("a:1").unwrap().tag.tag, "w_2077_43");
        assert_eq!(
            list.get("latest_daily").unwrap().tag.kind,
            ImageKind::Unknown
        );
    }

    #[test]
    fn the_name_of_an_alias_has_no_nested_parentheses_and_one_architecture() {
        let list = ImageList::new(vec![
            image("w_2077_43_c0050.002_rsp3-amd64", "a:1"),
            image("recommended_c0050", "a:1"),
        ]);
        let alias = list.get("recommended_c0050").unwrap();
        assert_eq!(
            alias.tag.display_name,
            "Recommended (Weekly 2077_43, SAL Cycle 0050, Build 002, RSP Build 3) [amd64]"
        );
        assert!(list.general().next().is_none());
    }

    #[test]
    fn several_images_of_one_digest_name_each_other() {
        let list = ImageList::new(vec![
            image("w_2077_43", "a:1"),
            image("d_2077_10_23", "a:1"),
            image("recommended", "a:1"),
        ]);
        let names =
            |tag: &str| -> Vec<String> { list.get(tag).unwrap().aliases.iter().cloned().collect() };
        assert_eq!(names("recommended"), ["d_2077_10_23", "w_2077_43"]);
        assert_eq!(names("w_2077_43"), ["d_2077_10_23", "recommended"]);
        assert!(list.has_alias(list.get("w_2077_43").unwrap()));
        assert!(!list.has_alias(list.get("d_2077_10_23").unwrap()));
        assert_eq!(list.one_per_digest().count(), 1);
    }
}
