//! What is known about images, put together from its sources: the registry's list, the nodes, and
//! what was pulled to them but is not reported yet.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use crate::{
    config::LabsConfig,
    images::{ClusterNode, ImageCatalog},
};

/// A node reports some images only. One that does not report an image for this time is asked
/// again: if it has the image, the pod ends at once.
const PULLED_FOR: Duration = Duration::from_secs(3600);

/// A node, and which node of this name it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenNode {
    pub(super) uid: String,
    pub(super) node: ClusterNode,
}

/// The nodes, by name.
pub(super) type SeenNodes = BTreeMap<String, SeenNode>;

/// The catalogue of this moment, and its parts.
pub(super) struct ImageState {
    config: Arc<LabsConfig>,
    parts: Mutex<Parts>,
    catalog: watch::Sender<Arc<ImageCatalog>>,
    is_listed: watch::Sender<bool>,
}

struct Parts {
    /// The registry's images, without nodes.
    listed: ImageCatalog,
    nodes: SeenNodes,
    /// Node and digest of what was pulled and is not reported, with the time and the node's UID.
    pulled: BTreeMap<(String, String), (Instant, String)>,
}

impl ImageState {
    /// Nothing is known yet.
    pub(super) fn new(config: Arc<LabsConfig>) -> ImageState {
        let nothing = ImageCatalog::from_tags(&config.images, &[], &BTreeMap::new());
        ImageState {
            config,
            parts: Mutex::new(Parts {
                listed: nothing.clone(),
                nodes: SeenNodes::new(),
                pulled: BTreeMap::new(),
            }),
            catalog: watch::Sender::new(Arc::new(nothing)),
            is_listed: watch::Sender::new(false),
        }
    }

    /// The catalogue of this moment.
    pub(super) fn catalog(&self) -> Arc<ImageCatalog> {
        self.catalog.borrow().clone()
    }

    /// The catalogues from now on.
    pub(super) fn catalogs(&self) -> watch::Receiver<Arc<ImageCatalog>> {
        self.catalog.subscribe()
    }

    /// Waits until the registry has listed its images once.
    pub(super) async fn listed(&self) {
        // The sender is this struct's own, so it is never gone.
        let _ = self.is_listed.subscribe().wait_for(|listed| *listed).await;
    }

    /// The registry's images, without nodes.
    pub(super) fn set_listed(&self, listed: ImageCatalog) {
        let mut parts = self.parts();
        parts.listed = listed;
        self.publish(&mut parts);
        self.is_listed.send_replace(true);
    }

    /// Changes the nodes; `change` says whether it did.
    pub(super) fn change_nodes(&self, change: impl FnOnce(&mut SeenNodes) -> bool) {
        let mut parts = self.parts();
        if change(&mut parts.nodes) {
            self.publish(&mut parts);
        }
    }

    /// Records that a node has an image, before it reports it.
    pub(super) fn mark_pulled(&self, digest: &str, node: &str) {
        let mut parts = self.parts();
        let Some(seen) = parts.nodes.get(node) else {
            return;
        };
        let mark = (Instant::now(), seen.uid.clone());
        let key = (node.to_owned(), digest.to_owned());
        parts.pulled.insert(key, mark);
        self.publish(&mut parts);
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called with the lock, so that no older catalogue replaces a newer one.
    fn publish(&self, parts: &mut Parts) {
        parts.forget_reported();
        let lab = &self.config.lab;
        let nodes = parts.nodes.values().map(|seen| &seen.node);
        let listed = parts.listed.clone();
        let mut catalog = listed.with_nodes(nodes, &lab.node_selector, &lab.tolerations);
        for (node, digest) in parts.pulled.keys() {
            catalog.mark_pulled(digest, node);
        }
        self.catalog.send_if_modified(|current| {
            let is_new = **current != catalog;
            if is_new {
                *current = Arc::new(catalog);
            }
            is_new
        });
    }
}

impl Parts {
    /// Once a node reports an image, its reports count: the image may be removed from it.
    fn forget_reported(&mut self) {
        let nodes = &self.nodes;
        self.pulled.retain(|(node, digest), (pulled, uid)| {
            nodes.get(node).is_some_and(|seen| {
                seen.uid == *uid && pulled.elapsed() < PULLED_FOR && !has_image(&seen.node, digest)
            })
        });
    }
}

fn has_image(node: &ClusterNode, digest: &str) -> bool {
    let mut images = node.images.iter();
    images.any(|image| image.digest().as_deref() == Some(digest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::CachedImage;

    const DIGEST: &str = "sha256:1234";

    fn state() -> ImageState {
        let config = LabsConfig::from_yaml(
            "
lab:
  namespacePrefix: userlabs
  volumes:
    - name: home
      source: { type: hostPath, path: /share }
  sizes:
    - size: small
      resources: { limits: { cpu: 1, memory: 3Gi }, requests: { cpu: 1, memory: 3Gi } }
images: { source: { type: docker, registry: registry.test, repository: lab }, pin: [w_2077_43] }
",
        );
        let state = ImageState::new(Arc::new(config.unwrap()));
        let tags = ["w_2077_43".to_owned()];
        let digests = BTreeMap::from([("w_2077_43".to_owned(), DIGEST.to_owned())]);
        let listed = ImageCatalog::from_tags(&state.config.images, &tags, &digests);
        state.set_listed(listed);
        state
    }

    /// Says that there is one node, with these digests.
    fn report(state: &ImageState, uid: &str, digests: &[&str]) {
        let images = digests.iter().map(|digest| CachedImage {
            names: vec![format!("registry.test/lab@{digest}")],
            size: Some(5),
        });
        let node = ClusterNode {
            name: "node1".to_owned(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            images: images.collect(),
        };
        let seen = SeenNode {
            uid: uid.to_owned(),
            node,
        };
        state.change_nodes(|nodes| nodes.insert("node1".to_owned(), seen.clone()) != Some(seen));
    }

    fn is_missing(state: &ImageState) -> bool {
        !state.catalog().prepull_plan().is_empty()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pulled_image_counts_until_the_node_reports_it_or_for_an_hour() {
        let state = state();
        report(&state, "1", &[]);
        assert!(is_missing(&state));
        state.mark_pulled(DIGEST, "node1");
        assert!(!is_missing(&state));
        report(&state, "1", &["sha256:aaaa"]);
        assert!(!is_missing(&state), "other reports say nothing about it");
        report(&state, "1", &[DIGEST]);
        assert!(!is_missing(&state));
        report(&state, "1", &[]);
        assert!(is_missing(&state), "the node has removed it");
        state.mark_pulled(DIGEST, "node1");
        tokio::time::advance(PULLED_FOR).await;
        report(&state, "1", &["sha256:bbbb"]);
        assert!(is_missing(&state));
    }

    #[tokio::test]
    async fn another_node_of_the_same_name_has_nothing() {
        let state = state();
        report(&state, "1", &[]);
        state.mark_pulled(DIGEST, "node1");
        report(&state, "2", &[]);
        assert!(is_missing(&state));
        state.mark_pulled(DIGEST, "elsewhere");
        assert!(is_missing(&state));
    }

    #[tokio::test]
    async fn a_report_without_news_wakes_nobody() {
        let state = state();
        report(&state, "1", &[DIGEST]);
        let mut catalogs = state.catalogs();
        catalogs.mark_unchanged();
        report(&state, "1", &[DIGEST]);
        report(&state, "1", &[DIGEST, "sha256:cccc"]);
        assert!(!catalogs.has_changed().unwrap());
        report(&state, "1", &[]);
        assert!(catalogs.has_changed().unwrap());
    }
}
