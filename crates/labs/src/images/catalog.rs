//! All that is known about images at one time: the tags of the registry, the digests of some, and
//! the nodes that have them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ClusterNode, Eligibility, ImageList, ImageReference, LabImage, TagList, Toleration,
    tag_list::Wanted,
};
use crate::{
    config::ImagesConfig,
    dialect::Dialect,
    error::LabError,
    options::{ImageChoice, ImageClass},
    tag::{ImageKind, ImageTag},
};

/// An image of a registry that lists digests together with their tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryImage {
    /// The digest, with its algorithm.
    pub digest: String,
    /// All its tags.
    pub tags: Vec<String>,
}

/// A node, as far as images are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CatalogNode {
    pub(super) name: String,
    pub(super) eligibility: Eligibility,
}

/// The images of labs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageCatalog {
    registry: String,
    repository: String,
    pub(super) recommended_tag: String,
    /// All tags, in the order of menus.
    pub(super) tags: Vec<ImageTag>,
    /// All images whose digests are known.
    pub(super) images: ImageList,
    /// Those that are pulled beforehand.
    pub(super) wanted: ImageList,
    /// The nodes with the labels of labs.
    pub(super) nodes: Vec<CatalogNode>,
}

/// The image that a person chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageResolution {
    /// It is known.
    Image(Box<LabImage>),
    /// The registry has to say which digest its tag has.
    NeedsDigest(Box<UnresolvedImage>),
}

/// An image without its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnresolvedImage {
    registry: String,
    repository: String,
    tag: ImageTag,
}

impl UnresolvedImage {
    /// The tag to look up.
    pub fn tag(&self) -> &str {
        &self.tag.tag
    }

    /// The image, with the digest of the registry.
    pub fn with_digest(self, digest: String) -> LabImage {
        LabImage {
            tag: self.tag,
            registry: self.registry,
            repository: self.repository,
            digest,
            size: None,
            aliases: BTreeSet::new(),
            alias_target: None,
            nodes: BTreeSet::new(),
        }
    }
}

impl ImageCatalog {
    /// Of a registry's tags, those whose digests [`ImageCatalog::from_tags`] needs.
    pub fn tags_to_look_up(config: &ImagesConfig, tags: &[String]) -> Vec<String> {
        let tags = TagList::parse(tags, &config.aliases(), config.cycle);
        wanted(config).select(tags.general()).into_iter().collect()
    }

    /// Of a registry that lists tags only. Wanted tags without a digest are as good as unknown.
    pub fn from_tags(
        config: &ImagesConfig,
        tags: &[String],
        digests: &BTreeMap<String, String>,
    ) -> ImageCatalog {
        let tags = TagList::parse(tags, &config.aliases(), config.cycle);
        let wanted = wanted(config).select(tags.general());
        let images = tags.iter().filter(|tag| wanted.contains(&tag.tag));
        let images = images.filter_map(|tag| {
            let digest = digests.get(&tag.tag)?;
            Some(unresolved(config, tag.clone()).with_digest(digest.clone()))
        });
        let images = ImageList::new(images.collect());
        ImageCatalog {
            wanted: images.clone(),
            images,
            tags: tags.iter().cloned().collect(),
            ..ImageCatalog::empty(config)
        }
    }

    /// Of a registry that lists digests with their tags.
    pub fn from_listing(config: &ImagesConfig, listing: &[RegistryImage]) -> ImageCatalog {
        let aliases = config.aliases();
        let mut images = Vec::new();
        let mut seen = BTreeSet::new();
        for image in listing {
            for tag in TagList::parse(&image.tags, &aliases, None).iter() {
                // A tag has one digest, whatever the registry lists.
                if !seen.insert(tag.tag.clone()) {
                    continue;
                }
                images.push(unresolved(config, tag.clone()).with_digest(image.digest.clone()));
            }
        }
        images.retain(|image| {
            config
                .cycle
                .is_none_or(|cycle| image.tag.cycle == Some(cycle))
        });
        let images = ImageList::new(images);
        ImageCatalog {
            wanted: images.select(&wanted(config)),
            tags: images.iter().map(|image| image.tag.clone()).collect(),
            images,
            ..ImageCatalog::empty(config)
        }
    }

    fn empty(config: &ImagesConfig) -> ImageCatalog {
        ImageCatalog {
            registry: config.source.registry(),
            repository: config.source.repository(),
            recommended_tag: config.recommended_tag.clone(),
            tags: Vec::new(),
            images: ImageList::default(),
            wanted: ImageList::default(),
            nodes: Vec::new(),
        }
    }

    /// Adds the nodes with the labels of labs, and the images that they have.
    #[must_use]
    pub fn with_nodes<'n>(
        mut self,
        nodes: impl IntoIterator<Item = &'n ClusterNode>,
        selector: &BTreeMap<String, String>,
        tolerations: &[Toleration],
    ) -> ImageCatalog {
        let nodes = nodes.into_iter();
        for node in nodes.filter(|node| node.is_selected(selector)) {
            self.nodes.push(CatalogNode {
                name: node.name.clone(),
                eligibility: node.eligibility(tolerations),
            });
            for image in &node.images {
                if let Some(digest) = image.digest() {
                    self.images.mark_cached(&digest, &node.name, image.size);
                    self.wanted.mark_cached(&digest, &node.name, image.size);
                }
            }
        }
        self.nodes.sort_by(|one, other| one.name.cmp(&other.name));
        self
    }

    /// Records that an image was pulled to a node, before the node reports it.
    pub fn mark_pulled(&mut self, digest: &str, node: &str) {
        self.images.mark_cached(digest, node, None);
        self.wanted.mark_cached(digest, node, None);
    }

    /// Names of the nodes to which images are pulled.
    pub(super) fn eligible_nodes(&self) -> BTreeSet<&str> {
        let nodes = self.nodes.iter();
        let eligible = nodes.filter(|node| node.eligibility == Eligibility::Eligible);
        eligible.map(|node| node.name.as_str()).collect()
    }

    pub(super) fn is_everywhere(&self, image: &LabImage) -> bool {
        let mut nodes = self.eligible_nodes().into_iter();
        nodes.all(|node| image.nodes.contains(node))
    }

    /// The reference of a tag in this registry.
    pub(super) fn reference(&self, tag: &str) -> String {
        format!("{}/{}:{tag}", self.registry, self.repository)
    }

    /// The image that a person chose.
    ///
    /// # Errors
    /// [`LabError::UnknownImage`] or [`LabError::InvalidReference`], with the field of the form.
    pub fn resolve(
        &self,
        choice: &ImageChoice,
        dialect: Dialect,
    ) -> Result<ImageResolution, LabError> {
        let field = choice.field(dialect);
        match choice {
            ImageChoice::List(reference) | ImageChoice::Dropdown(reference) => {
                self.resolve_reference(reference, field)
            }
            ImageChoice::Class(class) => self.resolve_class(*class, field),
            ImageChoice::Tag(tag) => self.resolve_tag(tag).ok_or_else(|| LabError::UnknownImage {
                field,
                message: format!("Docker tag \"{tag}\" not found"),
            }),
        }
    }

    fn resolve_class(
        &self,
        class: ImageClass,
        field: &'static str,
    ) -> Result<ImageResolution, LabError> {
        let image = match class {
            ImageClass::Recommended => self.wanted.get(&self.recommended_tag),
            ImageClass::LatestRelease => self.wanted.latest(ImageKind::Release),
            ImageClass::LatestWeekly => self.wanted.latest(ImageKind::Weekly),
            ImageClass::LatestDaily => self.wanted.latest(ImageKind::Daily),
        };
        let unknown = || LabError::UnknownImage {
            field,
            message: format!("No {class} image found"),
        };
        Ok(found(image.ok_or_else(unknown)?))
    }

    fn resolve_reference(
        &self,
        text: &str,
        field: &'static str,
    ) -> Result<ImageResolution, LabError> {
        let invalid = |message: String| LabError::InvalidReference { field, message };
        let unknown = || LabError::UnknownImage {
            field,
            message: format!("Docker reference \"{text}\" not found"),
        };
        let reference: ImageReference = text
            .parse()
            .map_err(|error: super::reference::NoImageReference| invalid(error.to_string()))?;
        if reference.registry != self.registry || reference.repository != self.repository {
            return Err(unknown());
        }
        let known = reference.digest.as_ref();
        if let Some(image) = known.and_then(|digest| self.images.with_digest(digest)) {
            return Ok(found(image));
        }
        let Some(tag) = &reference.tag else {
            return Err(invalid(format!("Docker reference \"{text}\" has no tag")));
        };
        match (self.resolve_tag(tag).ok_or_else(unknown)?, reference.digest) {
            // The form is older than the list of images, and its digest is the one that was chosen.
            (ImageResolution::NeedsDigest(image), Some(digest)) => {
                Ok(found(&image.with_digest(digest)))
            }
            (resolution, _) => Ok(resolution),
        }
    }

    fn resolve_tag(&self, tag: &str) -> Option<ImageResolution> {
        if let Some(image) = self.images.get(tag) {
            return Some(found(image));
        }
        let tag = self.tags.iter().find(|listed| listed.tag == tag)?;
        Some(ImageResolution::NeedsDigest(Box::new(UnresolvedImage {
            registry: self.registry.clone(),
            repository: self.repository.clone(),
            tag: tag.clone(),
        })))
    }
}

fn found(image: &LabImage) -> ImageResolution {
    ImageResolution::Image(Box::new(image.clone()))
}

fn unresolved(config: &ImagesConfig, tag: ImageTag) -> UnresolvedImage {
    UnresolvedImage {
        registry: config.source.registry(),
        repository: config.source.repository(),
        tag,
    }
}

fn wanted(config: &ImagesConfig) -> Wanted {
    let tags = config.pins.iter().chain([&config.recommended_tag]);
    Wanted {
        releases: config.releases,
        weeklies: config.weeklies,
        dailies: config.dailies,
        tags: tags.cloned().collect(),
    }
}
