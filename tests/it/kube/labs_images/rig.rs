//! Images of labs in a namespace of their own, with a registry, nodes and an owner of the test's.

use std::{path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use ludgate::{
    cluster::{Cluster, ClusterSettings},
    labs::{
        config::LabsConfig,
        dialect::Dialect,
        images::{ImageCatalog, PodOwner},
        service::images::{LabImages, LabImagesMetrics, LabImagesSettings},
    },
    model::clock::Clock,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::registry::TagRegistry;
use crate::support::{
    changes::Changes,
    kube_namespace::KubeNamespace,
    until::{in_time, until_async},
};

/// Label of the test's nodes, with its namespace.
const NODE_LABEL: &str = "ludgate.test/namespace";
/// Label of the pods that pull.
const POD_LABEL: &str = "nublado.lsst.io/category=prepuller";

pub struct ImageRig {
    pub namespace: KubeNamespace,
    pub images: LabImages,
    pub registry: TagRegistry,
    pub pods: Api<Pod>,
    pub owner_uid: String,
    leader: watch::Sender<bool>,
    _running: DropGuard,
}

impl ImageRig {
    /// Images of a registry with these tags; `more` is more YAML below `images`.
    pub async fn start(tags: &'static [&'static str], more: &str) -> ImageRig {
        let namespace = KubeNamespace::new().await;
        let registry = TagRegistry::start(tags).await;
        let pods: Api<Pod> = Api::namespaced(namespace.client.clone(), &namespace.name);
        let owner = make(&pods, pod("controller", json!({}))).await;
        let owner_uid = owner.uid().expect("a UID");
        let (leader, is_leader) = watch::channel(false);
        let settings = LabImagesSettings {
            config: Arc::new(config(&namespace.name, &registry, more)),
            dialect: Dialect::Nublado,
            cluster: cluster(&namespace.name).await,
            registry_ca: None,
            owner: Some(PodOwner {
                name: "controller".to_owned(),
                namespace: namespace.name.clone(),
                uid: owner_uid.clone(),
            }),
            is_leader,
        };
        let images = LabImages::new(settings, LabImagesMetrics::default()).expect("images");
        let shutdown = CancellationToken::new();
        tokio::spawn(images.clone().run(shutdown.clone()));
        in_time("the registry's list", images.listed()).await;
        ImageRig {
            namespace,
            images,
            registry,
            pods,
            owner_uid,
            leader,
            _running: shutdown.drop_guard(),
        }
    }

    /// Says whether this process leads.
    pub fn lead(&self, leads: bool) {
        self.leader.send_replace(leads);
    }

    /// The full name of a node of this test.
    pub fn node_name(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace.name)
    }

    /// Makes a node with these taints, and waits until it is known.
    pub async fn node(&self, name: &str, taints: Value) -> String {
        let name = self.node_name(name);
        let object = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": name, "labels": { NODE_LABEL: self.namespace.name } },
        });
        make(&self.nodes(), object).await;
        // The API server taints new nodes as not ready.
        let taints = if taints.is_null() { json!([]) } else { taints };
        self.patch_node(&name, json!({ "spec": { "taints": taints } }))
            .await;
        let eligible = taints.as_array().is_some_and(Vec::is_empty);
        self.until(|catalog| {
            let mut nodes = catalog.prepull_answer().nodes.into_iter();
            nodes.any(|node| node.name == name && node.eligible == eligible)
        })
        .await;
        name
    }

    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.namespace.client.clone())
    }

    pub async fn patch_node(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        let (nodes, params) = (self.nodes(), PatchParams::default());
        let patched = nodes.patch(name, &params, &patch).await;
        patched.expect("a node");
    }

    /// Says which images a node has, by their digests.
    pub async fn report(&self, node: &str, digests: &[String]) {
        let images = digests.iter().map(|digest| {
            let name = format!("{}/library/lab@{digest}", self.registry.address);
            json!({ "names": [name], "sizeBytes": 1234 })
        });
        let status = json!({ "status": { "images": images.collect::<Vec<_>>() } });
        let patch = Patch::Merge(status);
        let nodes = self.nodes();
        let params = PatchParams::default();
        let patched = nodes.patch_status(node, &params, &patch).await;
        patched.expect("a status");
    }

    /// Waits until the catalogue is as wanted.
    pub async fn until(&self, wanted: impl FnMut(&ImageCatalog) -> bool) {
        let mut wanted = wanted;
        let mut catalogs = self.images.catalogs();
        let waited = catalogs.wait_for(|catalog| wanted(catalog));
        in_time("the catalogue", waited).await.expect("images");
    }

    /// The pods that pull, with their changes.
    pub fn pulls(&self) -> Changes<Pod> {
        let selected = watcher::Config::default().labels(POD_LABEL);
        Changes::new(self.pods.clone(), selected)
    }

    /// Names of the pods that pull now.
    pub async fn pull_names(&self) -> Vec<String> {
        let selected = ListParams::default().labels(POD_LABEL);
        let listed = self.pods.list(&selected).await.expect("a list");
        listed.items.iter().map(ResourceExt::name_any).collect()
    }

    /// Says what kubelet would say about a pod.
    pub async fn set_status(&self, pod: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        let patched = self.pods.patch_status(pod, &params, &patch).await;
        patched.expect("a status");
    }

    /// Waits until a pod with this UID is gone.
    pub async fn until_gone(&self, pod: &Pod) {
        until_async("the pod is gone", async || {
            let found = self.pods.get_opt(&pod.name_any()).await.expect("an answer");
            found.and_then(|found| found.uid()) != pod.uid()
        })
        .await;
    }
}

impl Drop for ImageRig {
    fn drop(&mut self) {
        let selected = format!("{NODE_LABEL}={}", self.namespace.name);
        let _ = std::process::Command::new("kubectl")
            .args(["delete", "nodes", "--wait=false", "-l", &selected])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// A pod as a test makes it; `metadata` is merged into its own.
pub fn pod(name: &str, metadata: Value) -> Value {
    let mut whole = json!({ "name": name });
    if let (Some(whole), Value::Object(more)) = (whole.as_object_mut(), metadata) {
        whole.extend(more);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": whole,
        "spec": { "containers": [{ "name": "main", "image": "main:1" }] },
    })
}

/// Makes an object.
pub async fn make<K>(api: &Api<K>, object: Value) -> K
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object: K = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object)
        .await
        .expect("made")
}

fn config(namespace: &str, registry: &TagRegistry, more: &str) -> LabsConfig {
    let text = format!(
        "
lab:
  namespacePrefix: userlabs
  nodeSelector: {{ {NODE_LABEL}: {namespace} }}
  volumes:
    - name: home
      source: {{ type: hostPath, path: /share }}
  sizes:
    - size: small
      resources: {{ limits: {{ cpu: 1, memory: 3Gi }}, requests: {{ cpu: 1, memory: 3Gi }} }}
images:
  source: {{ type: docker, registry: '{}', repository: library/lab }}
{more}
",
        registry.address
    );
    LabsConfig::from_yaml(&text).expect("a configuration")
}

/// The cluster that KUBECONFIG names, as an admin.
async fn cluster(namespace: &str) -> Cluster {
    let settings = ClusterSettings {
        namespaces: vec![namespace.to_owned()],
        kubeconfig: std::env::var_os("KUBECONFIG").map(PathBuf::from),
        watch: Duration::from_secs(60),
    };
    let cluster = Cluster::new(settings, Clock::system()).await;
    cluster.expect("a cluster")
}
