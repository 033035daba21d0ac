//! What the API answers about images, and what a menu shows.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{DropdownFilter, Eligibility, ImageCatalog, LabImage};
use crate::{
    config::ImagesConfig,
    dialect::Dialect,
    tag::{ImageKind, ImageTag},
};

/// An image of a menu.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MenuImage {
    /// The name for people.
    pub name: String,
    /// The reference, with the digest if it is known.
    pub reference: String,
}

/// The two menus of the form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MenuImages {
    /// Images that all nodes have. The recommended one is the first, wherever it is.
    pub menu: Vec<MenuImage>,
    /// All images that the filter shows.
    pub dropdown: Vec<MenuImage>,
}

/// An image, as the API shows it.
#[derive(Clone, Debug, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ImageAnswer {
    /// The reference with the tag.
    pub reference: String,
    /// The tag.
    pub tag: String,
    /// Other tags of the image.
    pub aliases: Vec<String>,
    /// The name for people.
    pub name: String,
    /// The digest, if it is known.
    pub digest: Option<String>,
    /// Whether all nodes have the image.
    pub prepulled: bool,
}

/// The answer about the images that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnerImages {
    /// The recommended image.
    pub recommended: Option<ImageAnswer>,
    /// The newest weekly that is pulled beforehand.
    pub latest_weekly: Option<ImageAnswer>,
    /// The newest daily that is pulled beforehand.
    pub latest_daily: Option<ImageAnswer>,
    /// The newest release that is pulled beforehand.
    pub latest_release: Option<ImageAnswer>,
    /// All images.
    pub all: Vec<ImageAnswer>,
}

/// An image that is pulled beforehand.
#[derive(Clone, Debug, JsonSchema, PartialEq, Eq, Serialize)]
pub struct PrepullImageAnswer {
    /// The reference with the tag.
    pub reference: String,
    /// The tag.
    pub tag: String,
    /// The name for people.
    pub name: String,
    /// The digest.
    pub digest: String,
    /// Size in bytes, if a node reports it.
    pub size: Option<u64>,
    /// Nodes that have it.
    pub nodes: Vec<String>,
    /// Nodes that are to get it.
    pub missing: Vec<String>,
}

/// The images that are pulled beforehand.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Eq, Serialize)]
pub struct PrepullImagesAnswer {
    /// Those that all nodes have.
    pub prepulled: Vec<PrepullImageAnswer>,
    /// The others.
    pub pending: Vec<PrepullImageAnswer>,
}

/// A node, as the API shows it.
#[derive(Clone, Debug, JsonSchema, PartialEq, Eq, Serialize)]
pub struct NodeAnswer {
    /// Its name.
    pub name: String,
    /// Whether images are pulled to it.
    pub eligible: bool,
    /// Why not.
    pub comment: Option<String>,
    /// References of the images that it has.
    pub cached: Vec<String>,
}

/// The answer about prepulling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepullAnswer {
    /// The images.
    pub images: PrepullImagesAnswer,
    /// The nodes.
    pub nodes: Vec<NodeAnswer>,
}

impl ImageCatalog {
    /// The menus of the form at a time.
    pub fn menus(&self, filter: &DropdownFilter, now: DateTime<Utc>) -> MenuImages {
        let mut menu = Vec::new();
        let mut recommended = None;
        for image in self.wanted.general() {
            let entry = MenuImage {
                name: image.tag.display_name.clone(),
                reference: image.pinned_reference(),
            };
            if image.tag.tag == self.recommended_tag {
                recommended = Some(entry);
            } else if self.is_everywhere(image) && !self.wanted.has_alias(image) {
                menu.push(entry);
            }
        }
        let general = self.tags.iter().filter(|tag| tag.architecture.is_none());
        let shown = filter.apply(general, now).into_iter();
        MenuImages {
            menu: recommended.into_iter().chain(menu).collect(),
            dropdown: shown.map(|tag| self.dropdown_entry(tag)).collect(),
        }
    }

    fn dropdown_entry(&self, tag: &ImageTag) -> MenuImage {
        match self.images.get(&tag.tag) {
            Some(image) => MenuImage {
                name: image.tag.display_name.clone(),
                reference: image.pinned_reference(),
            },
            None => MenuImage {
                name: tag.display_name.clone(),
                reference: self.reference(&tag.tag),
            },
        }
    }

    /// The answer about the images that can be chosen.
    pub fn spawner_images(&self) -> SpawnerImages {
        let latest = |kind| {
            self.wanted
                .latest(kind)
                .map(|image| self.image_answer(image))
        };
        let recommended = self.wanted.get(&self.recommended_tag);
        let general = self.tags.iter().filter(|tag| tag.architecture.is_none());
        SpawnerImages {
            recommended: recommended.map(|image| self.image_answer(image)),
            latest_weekly: latest(ImageKind::Weekly),
            latest_daily: latest(ImageKind::Daily),
            latest_release: latest(ImageKind::Release),
            all: general.map(|tag| self.tag_answer(tag)).collect(),
        }
    }

    fn image_answer(&self, image: &LabImage) -> ImageAnswer {
        ImageAnswer {
            reference: image.reference(),
            tag: image.tag.tag.clone(),
            aliases: image.aliases.iter().cloned().collect(),
            name: image.tag.display_name.clone(),
            digest: Some(image.digest.clone()),
            prepulled: self.is_everywhere(image),
        }
    }

    fn tag_answer(&self, tag: &ImageTag) -> ImageAnswer {
        match self.images.get(&tag.tag) {
            Some(image) => self.image_answer(image),
            None => ImageAnswer {
                reference: self.reference(&tag.tag),
                tag: tag.tag.clone(),
                aliases: Vec::new(),
                name: tag.display_name.clone(),
                digest: None,
                prepulled: false,
            },
        }
    }

    /// The answer about prepulling.
    pub fn prepull_answer(&self) -> PrepullAnswer {
        let mut images = PrepullImagesAnswer::default();
        let mut nodes: Vec<NodeAnswer> = self.nodes.iter().map(node_answer).collect();
        for image in self.wanted.general() {
            // What it is a name of is listed itself.
            if self.wanted.has_target(image) {
                continue;
            }
            let missing = self.eligible_nodes().into_iter();
            let missing = missing.filter(|node| !image.nodes.contains(*node));
            let answer = PrepullImageAnswer {
                reference: image.reference(),
                tag: image.tag.tag.clone(),
                name: image.tag.display_name.clone(),
                digest: image.digest.clone(),
                size: image.size,
                nodes: image.nodes.iter().cloned().collect(),
                missing: missing.map(str::to_owned).collect(),
            };
            for node in nodes
                .iter_mut()
                .filter(|node| image.nodes.contains(&node.name))
            {
                node.cached.push(image.reference());
            }
            match answer.missing.is_empty() {
                true => images.prepulled.push(answer),
                false => images.pending.push(answer),
            }
        }
        PrepullAnswer { images, nodes }
    }
}

fn node_answer(node: &super::catalog::CatalogNode) -> NodeAnswer {
    let comment = match &node.eligibility {
        Eligibility::Eligible => None,
        Eligibility::Ineligible(reason) => Some(reason.clone()),
    };
    NodeAnswer {
        name: node.name.clone(),
        eligible: comment.is_none(),
        comment,
        cached: Vec::new(),
    }
}

impl ImageAnswer {
    fn to_json(&self, dialect: Dialect) -> Value {
        let mut answer = json!(self);
        if let (Dialect::Nublado, None, Value::Object(fields)) =
            (dialect, &self.digest, &mut answer)
        {
            fields.remove("digest");
        }
        answer
    }
}

impl SpawnerImages {
    /// The answer. Nublado leaves out what is not there; SQR-066 has hyphens in its keys.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let all: Vec<Value> = self
            .all
            .iter()
            .map(|image| image.to_json(dialect))
            .collect();
        let mut answer = json!({ "all": all });
        let classes = [
            ("recommended", &self.recommended),
            ("latest_weekly", &self.latest_weekly),
            ("latest_daily", &self.latest_daily),
            ("latest_release", &self.latest_release),
        ];
        for (class, image) in classes {
            let image = image.as_ref().map(|image| image.to_json(dialect));
            match dialect {
                Dialect::Sqr066 => answer[class.replace('_', "-")] = image.into(),
                Dialect::Nublado => {
                    if let Some(image) = image {
                        answer[class] = image;
                    }
                }
            }
        }
        answer
    }
}

impl PrepullAnswer {
    /// The answer, with the configuration.
    pub fn to_json(&self, config: &ImagesConfig, dialect: Dialect) -> Value {
        let mut images = json!(self.images);
        let mut nodes = json!(self.nodes);
        if dialect == Dialect::Sqr066 {
            // The document has only what there is.
            for image in images["prepulled"].as_array_mut().into_iter().flatten() {
                remove(image, "missing", true);
                remove(image, "size", false);
            }
            for image in images["pending"].as_array_mut().into_iter().flatten() {
                remove(image, "size", false);
            }
            for node in nodes.as_array_mut().into_iter().flatten() {
                remove(node, "comment", false);
            }
        }
        json!({ "config": config.to_json(dialect), "images": images, "nodes": nodes })
    }
}

/// Removes a field, if it is null or always.
fn remove(object: &mut Value, name: &str, always: bool) {
    if let Value::Object(fields) = object
        && (always || fields.get(name) == Some(&Value::Null))
    {
        fields.remove(name);
    }
}
