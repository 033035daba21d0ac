//! Images of labs: which there are, which are other names of which, where they are cached, and what
//! a menu shows.

mod answers;
mod catalog;
mod filter;
mod list;
mod node;
mod plan;
mod reference;
mod tag_list;

pub use answers::{
    ImageAnswer, MenuImage, MenuImages, NodeAnswer, PrepullAnswer, PrepullImageAnswer,
    PrepullImagesAnswer, SpawnerImages,
};
pub use catalog::{ImageCatalog, ImageResolution, RegistryImage};
pub use filter::{DropdownFilter, ImageFilter};
pub use list::{ImageList, LabImage};
pub use node::{CachedImage, ClusterNode, Eligibility, NodeTaint, Toleration};
pub use plan::{PodOwner, PrepullTask, prepull_pod, prepull_pod_name};
pub use reference::ImageReference;
pub(crate) use reference::{is_digest, is_tag};
pub use tag_list::TagList;

#[cfg(test)]
mod tests;
