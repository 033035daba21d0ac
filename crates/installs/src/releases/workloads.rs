//! The workloads of all releases of a cluster, kept current by watches.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use kube::{
    Api, Client,
    api::ApiResource,
    runtime::reflector::{Store, store::WriterDropped},
};
use ludgate_cluster::object::Object;
use ludgate_controllers::watched::{FirstLists, WatchSettings, Watched};

use crate::health::{WorkloadHealth, WorkloadKind, release_of};

/// The label that Helm gives to each object of a release.
pub const HELM_LABEL: &str = "app.kubernetes.io/managed-by=Helm";

/// The workloads as of the last changes. Clones share them.
#[derive(Clone)]
pub struct WorkloadStore {
    stores: [(WorkloadKind, Store<Object>); 3],
    first_lists: FirstLists,
}

impl WorkloadStore {
    /// Watches the workloads of all namespaces. `length` is how long a watch lasts.
    pub fn watch(client: &Client, length: Duration) -> (WorkloadStore, [Watched<Object>; 3]) {
        let settings = WatchSettings {
            label: Some(HELM_LABEL),
            length,
        };
        let watch = |kind: ApiResource| {
            let api: Api<Object> = Api::all_with(client.clone(), &kind);
            Watched::new(api, kind, settings)
        };
        let watches = [
            watch(ApiResource::erase::<Deployment>(&())),
            watch(ApiResource::erase::<StatefulSet>(&())),
            watch(ApiResource::erase::<DaemonSet>(&())),
        ];
        let [deployments, stateful_sets, daemon_sets] = &watches;
        let stores = [
            (WorkloadKind::Deployment, deployments.store.clone()),
            (WorkloadKind::StatefulSet, stateful_sets.store.clone()),
            (WorkloadKind::DaemonSet, daemon_sets.store.clone()),
        ];
        let store = WorkloadStore {
            stores,
            first_lists: FirstLists::default(),
        };
        (store, watches)
    }

    /// Waits until all workloads have been listed once.
    ///
    /// # Errors
    /// A watch has ended for good.
    pub async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        let listed = async {
            for (_, store) in &self.stores {
                store.wait_until_ready().await?;
            }
            Ok::<(), WriterDropped>(())
        };
        self.first_lists.wait(listed).await
    }

    /// The health of a release; `None`: the workloads have not been listed.
    pub fn health(&self, namespace: &str, release: &str) -> Option<WorkloadHealth> {
        if !self.first_lists.are_read() {
            return None;
        }
        let mut found = Vec::new();
        for (kind, store) in &self.stores {
            let is_meant = |workload: &Object| release_of(workload) == Some((namespace, release));
            let workloads = store.state_filter(is_meant);
            found.extend(workloads.into_iter().map(|workload| (*kind, workload)));
        }
        let workloads = found.iter().map(|(kind, workload)| (*kind, &**workload));
        Some(WorkloadHealth::new(workloads))
    }
}
