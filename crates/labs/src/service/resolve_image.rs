//! Where a spawn gets its image from.

use futures_util::future::BoxFuture;

use super::images::LabImages;
use crate::{error::LabError, images::LabImage, options::ImageChoice};

/// Finds the image that a person chose.
pub trait ResolveImage: Send + Sync {
    /// The image, with its digest.
    ///
    /// # Errors
    /// If there is no such image, or the registry does not say so.
    fn resolve<'a>(&'a self, choice: &'a ImageChoice) -> BoxFuture<'a, Result<LabImage, LabError>>;
}

impl ResolveImage for LabImages {
    fn resolve<'a>(&'a self, choice: &'a ImageChoice) -> BoxFuture<'a, Result<LabImage, LabError>> {
        Box::pin(LabImages::resolve(self, choice))
    }
}
