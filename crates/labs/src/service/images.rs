//! The images of labs: the registry's list, the nodes that have them, and the pods that pull them
//! beforehand.

mod image_state;
mod metrics;
mod node_watch;
mod prepuller;
mod pull_end;
mod pull_pauses;
mod pull_pod;
mod refresh;
mod registry;

use std::{fmt, sync::Arc, time::Duration};

use ludgate_cluster::Cluster;
use ludgate_model::error_cause::chain_text;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    config::LabsConfig,
    dialect::Dialect,
    error::LabError,
    images::{ImageCatalog, ImageResolution, LabImage, PodOwner},
    options::ImageChoice,
};
use image_state::ImageState;
pub use metrics::LabImagesMetrics;
use prepuller::Prepuller;
use refresh::Refresher;
pub use registry::{CredentialsProblem, ImageRegistry, RegistryError, RegistryListing};

/// Deadline for finding the image that a person chose.
const RESOLVE_DEADLINE: Duration = Duration::from_secs(20);

/// What the images of labs are made from.
pub struct LabImagesSettings {
    /// The configuration.
    pub config: Arc<LabsConfig>,
    /// The dialect of errors.
    pub dialect: Dialect,
    /// The cluster whose nodes pull.
    pub cluster: Cluster,
    /// A CA file for the registry instead of the system's CAs.
    pub registry_ca: Option<Vec<u8>>,
    /// The pod of this process, which owns the pods that pull; `None`: nothing is pulled.
    pub owner: Option<PodOwner>,
    /// Whether this process leads. Only the leader pulls.
    pub is_leader: watch::Receiver<bool>,
}

/// The images of labs. Clones share their state.
#[derive(Clone)]
pub struct LabImages(Arc<Shared>);

struct Shared {
    settings: LabImagesSettings,
    registry: ImageRegistry,
    state: Arc<ImageState>,
    metrics: LabImagesMetrics,
}

impl fmt::Debug for LabImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LabImages")
    }
}

impl LabImages {
    /// Images that are not listed yet: [`LabImages::run`] does that.
    ///
    /// # Errors
    /// When the address of the registry or the CA file cannot be used.
    pub fn new(
        settings: LabImagesSettings,
        metrics: LabImagesMetrics,
    ) -> Result<LabImages, RegistryError> {
        let ca = settings.registry_ca.as_deref();
        let registry = ImageRegistry::new(&settings.config.images, ca, metrics.calls.clone())?;
        let state = Arc::new(ImageState::new(settings.config.clone()));
        Ok(LabImages(Arc::new(Shared {
            settings,
            registry,
            state,
            metrics,
        })))
    }

    /// All that is known at this moment, from memory. Empty until the registry was listed.
    pub fn catalog(&self) -> Arc<ImageCatalog> {
        self.0.state.catalog()
    }

    /// The catalogues from now on, for those who wait for a change.
    pub fn catalogs(&self) -> watch::Receiver<Arc<ImageCatalog>> {
        self.0.state.catalogs()
    }

    /// Waits until the registry was listed once.
    pub async fn listed(&self) {
        self.0.state.listed().await;
    }

    /// The image that a person chose. The registry is asked only for tags whose digest is unknown.
    ///
    /// # Errors
    /// As [`ImageCatalog::resolve`], and [`LabError::Unavailable`] if there is no answer
    /// within 20 seconds.
    pub async fn resolve(&self, choice: &ImageChoice) -> Result<LabImage, LabError> {
        let Ok(result) = timeout(RESOLVE_DEADLINE, self.look_up(choice)).await else {
            tracing::warn!("the registry did not say in time which image was chosen");
            return Err(unavailable());
        };
        result
    }

    async fn look_up(&self, choice: &ImageChoice) -> Result<LabImage, LabError> {
        let dialect = self.0.settings.dialect;
        self.listed().await;
        let image = match self.catalog().resolve(choice, dialect)? {
            ImageResolution::Image(image) => return Ok(*image),
            ImageResolution::NeedsDigest(image) => image,
        };
        match self.0.registry.digest(image.tag()).await {
            Ok(digest) => Ok(image.with_digest(digest)),
            Err(RegistryError::NotFound) => Err(LabError::UnknownImage {
                field: choice.field(dialect),
                message: format!("Docker tag \"{}\" not found", image.tag()),
            }),
            Err(error) => {
                let error = chain_text(&error);
                tracing::warn!(tag = image.tag(), error, "cannot look up the chosen image");
                Err(unavailable())
            }
        }
    }

    /// Lists images, follows nodes and, as the leader, pulls images, until the shutdown.
    pub async fn run(self, shutdown: CancellationToken) {
        let Shared {
            settings,
            registry,
            state,
            metrics,
        } = &*self.0;
        let refresher = Refresher::new(&settings.config.images, registry, state, metrics);
        let pulls = async {
            match self.prepuller() {
                Some(prepuller) => prepuller.run(settings.is_leader.clone()).await,
                None => tracing::info!("images of labs are not pulled: this process is in no pod"),
            }
        };
        let work = async {
            let nodes = node_watch::follow(&settings.cluster, state);
            tokio::join!(refresher.run(), nodes, pulls)
        };
        tokio::select! {
            _ = work => {}
            () = shutdown.cancelled() => {}
        }
    }

    fn prepuller(&self) -> Option<Prepuller> {
        let settings = &self.0.settings;
        Some(Prepuller {
            config: settings.config.clone(),
            state: self.0.state.clone(),
            client: settings.cluster.client().clone(),
            owner: settings.owner.clone()?,
            metrics: self.0.metrics.clone(),
        })
    }
}

fn unavailable() -> LabError {
    LabError::Unavailable("the image registry is not available".to_owned())
}

#[cfg(test)]
mod tests;
