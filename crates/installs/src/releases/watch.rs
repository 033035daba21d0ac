//! The states of all releases, by a watch of their Secrets' labels. No body is read, so a watch
//! costs little memory, and tells at once that an operation has begun or ended.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    core::PartialObjectMeta,
    runtime::reflector::{Store, store::WriterDropped},
};
use ludgate_controllers::watched::{FirstLists, WatchSettings, Watched};

use super::secret::{RevisionLabels, SELECTOR};
use crate::release::ReleaseStatus;

/// The Secret of a revision, without its body.
pub type RevisionMeta = PartialObjectMeta<Secret>;

/// The revisions of one cluster, or of one namespace of it, as of the last events. Clones share
/// them.
#[derive(Clone)]
pub struct ReleaseStore {
    revisions: Store<RevisionMeta>,
    first_lists: FirstLists,
}

impl ReleaseStore {
    /// Watches the revisions of a namespace; `None`: of all. The changes must be polled, since the
    /// store follows them. `length` is how long a watch lasts.
    pub fn watch(
        client: &Client,
        namespace: Option<&str>,
        length: Duration,
    ) -> (ReleaseStore, Watched<RevisionMeta>) {
        // Metadata only: the API server does not even send the bodies.
        let api: Api<RevisionMeta> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let settings = WatchSettings {
            label: Some(SELECTOR),
            length,
        };
        let watched = Watched::new(api, (), settings);
        let store = ReleaseStore {
            revisions: watched.store.clone(),
            first_lists: FirstLists::default(),
        };
        (store, watched)
    }

    /// Waits until the revisions have been listed once.
    ///
    /// # Errors
    /// The watch has ended for good.
    pub async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        let listed = self.revisions.wait_until_ready();
        self.first_lists.wait(listed).await
    }

    /// The revisions of a release, oldest first.
    pub fn history(&self, namespace: &str, release: &str) -> Vec<RevisionLabels> {
        history_of(&self.revisions.state(), namespace, release)
    }

    /// The last revision of a release.
    pub fn latest(&self, namespace: &str, release: &str) -> Option<RevisionLabels> {
        self.history(namespace, release).pop()
    }

    /// The names of all releases of a namespace.
    pub fn names_in(&self, namespace: &str) -> BTreeSet<String> {
        let revisions = self.revisions.state();
        let names = revisions
            .iter()
            .filter(|revision| revision.metadata.namespace.as_deref() == Some(namespace))
            .filter_map(|revision| RevisionLabels::read(&revision.metadata));
        names.map(|labels| labels.name).collect()
    }

    /// Whether an operation of a release runs, or was interrupted.
    pub fn is_unfinished(&self, namespace: &str, release: &str) -> bool {
        let latest = self.latest(namespace, release);
        latest.is_some_and(|revision| {
            revision.status.is_pending() || revision.status == ReleaseStatus::Uninstalling
        })
    }
}

fn history_of(
    revisions: &[Arc<RevisionMeta>],
    namespace: &str,
    release: &str,
) -> Vec<RevisionLabels> {
    let mut history: Vec<RevisionLabels> = revisions
        .iter()
        .filter(|revision| revision.metadata.namespace.as_deref() == Some(namespace))
        .filter_map(|revision| RevisionLabels::read(&revision.metadata))
        .filter(|labels| labels.name == release)
        .collect();
    history.sort_by_key(|labels| labels.revision);
    history
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube::core::PartialObjectMetaExt;

    use super::*;

    fn revision(namespace: &str, release: &str, number: i64, status: &str) -> Arc<RevisionMeta> {
        let version = number.to_string();
        let labels = [
            ("owner", "helm"),
            ("name", release),
            ("version", version.as_str()),
            ("status", status),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let metadata = ObjectMeta {
            name: Some(format!("sh.helm.release.v1.{release}.v{number}")),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        };
        Arc::new(metadata.into_response_partial::<Secret>())
    }

    #[test]
    fn a_history_is_in_the_order_of_its_numbers_and_of_one_release() {
        let all = [
            revision("t", "a", 10, "pending-upgrade"),
            revision("t", "a", 9, "deployed"),
            revision("t", "a", 2, "superseded"),
            revision("t", "ab", 11, "deployed"),
            revision("u", "a", 12, "deployed"),
        ];
        let history = history_of(&all, "t", "a");
        let states: Vec<_> = history.iter().map(|it| (it.revision, it.status)).collect();
        assert_eq!(
            states,
            [
                (2, ReleaseStatus::Superseded),
                (9, ReleaseStatus::Deployed),
                (10, ReleaseStatus::PendingUpgrade),
            ]
        );
        assert!(history_of(&all, "t", "b").is_empty());
    }
}
