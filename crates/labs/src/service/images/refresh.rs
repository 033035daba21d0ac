//! The list of images, from the registry again and again. If it cannot be had, the last one stays.

use std::{collections::BTreeMap, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::{StreamExt, stream};
use ludgate_model::error_cause::chain_text;
use tokio::time::sleep;

use super::{
    image_state::ImageState,
    metrics::LabImagesMetrics,
    registry::{ImageRegistry, RegistryError, RegistryListing},
};
use crate::{config::ImagesConfig, images::ImageCatalog};

/// Digests that are looked up at the same time.
const LOOK_UPS: usize = 4;
/// The first pause after a failure, before jitter doubles it at most.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
/// The longest pause after a failure, before jitter.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Shortest interval between two refreshes. A shorter configured one is raised to this.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Refreshes the catalogue of one registry.
pub(super) struct Refresher<'r> {
    config: &'r ImagesConfig,
    registry: &'r ImageRegistry,
    state: &'r ImageState,
    metrics: &'r LabImagesMetrics,
    /// The digests of the last refresh, by tag.
    digests: BTreeMap<String, String>,
}

impl<'r> Refresher<'r> {
    /// Nothing was looked up yet.
    pub(super) fn new(
        config: &'r ImagesConfig,
        registry: &'r ImageRegistry,
        state: &'r ImageState,
        metrics: &'r LabImagesMetrics,
    ) -> Refresher<'r> {
        Refresher {
            config,
            registry,
            state,
            metrics,
            digests: BTreeMap::new(),
        }
    }

    /// Refreshes for as long as it is polled.
    pub(super) async fn run(mut self) {
        let interval = self.config.refresh_interval.max(MIN_INTERVAL);
        let builder = ExponentialBuilder::default()
            .with_min_delay(MIN_BACKOFF)
            .with_max_delay(MAX_BACKOFF.min(interval))
            .with_jitter()
            .without_max_times();
        let mut pauses = builder.build();
        loop {
            let pause = match self.refresh().await {
                Ok(()) => {
                    self.metrics.refreshed("ok");
                    pauses = builder.build();
                    interval
                }
                Err(error) => {
                    self.metrics.refreshed("error");
                    let error = chain_text(&error);
                    tracing::warn!(error, "cannot list the images of labs; the last list stays");
                    pauses.next().unwrap_or(MAX_BACKOFF)
                }
            };
            sleep(pause).await;
        }
    }

    /// Asks the registry once.
    pub(super) async fn refresh(&mut self) -> Result<(), RegistryError> {
        let catalog = match self.registry.list().await? {
            RegistryListing::Images(images) => ImageCatalog::from_listing(self.config, &images),
            RegistryListing::Tags(tags) => {
                let wanted = ImageCatalog::tags_to_look_up(self.config, &tags);
                self.digests = self.look_up(wanted).await?;
                ImageCatalog::from_tags(self.config, &tags, &self.digests)
            }
        };
        self.state.set_listed(catalog);
        Ok(())
    }

    /// The digests of tags. A tag that cannot be looked up keeps the digest that it had.
    async fn look_up(&self, tags: Vec<String>) -> Result<BTreeMap<String, String>, RegistryError> {
        let registry = self.registry;
        let results = stream::iter(tags).map(|tag| async move {
            let digest = registry.digest(&tag).await;
            (tag, digest)
        });
        let results: Vec<_> = results.buffer_unordered(LOOK_UPS).collect().await;
        let is_answered = results.iter().any(|(_, result)| is_answer(result));
        let mut digests = BTreeMap::new();
        for (tag, result) in results {
            match result {
                Ok(digest) => {
                    digests.insert(tag, digest);
                }
                // It was removed since the list was made.
                Err(RegistryError::NotFound) => {}
                Err(error) if !is_answered => return Err(error),
                Err(error) => {
                    let error = chain_text(&error);
                    tracing::warn!(tag, error, "cannot look up the digest of an image");
                    if let Some(known) = self.digests.get(&tag) {
                        digests.insert(tag, known.clone());
                    }
                }
            }
        }
        Ok(digests)
    }
}

/// Whether the registry said what it knows about a tag.
fn is_answer(result: &Result<String, RegistryError>) -> bool {
    matches!(result, Ok(_) | Err(RegistryError::NotFound))
}
