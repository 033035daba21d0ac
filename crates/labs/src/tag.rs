//! Tags of lab images: what a tag says about its image, and which of two images is newer.
//!
//! The conventions are those of SQR-059.

mod grammar;
mod order;
mod parsed;

pub use grammar::DEFAULT_TAG;
pub(crate) use parsed::title;
pub use parsed::{ImageKind, ImageTag, TagVersion};

#[cfg(test)]
mod tests;
