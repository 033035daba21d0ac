//! The service of labs, in the process of the test, with people and what kubelets write.

use std::{path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client, Config,
    api::{ListParams, Patch, PatchParams, PostParams},
    config::Kubeconfig,
};
use ludgate::{
    model::{clock::Clock, secret::Secret},
    ops::logging::{self, LogSettings},
};
use ludgate_labs::{
    config::LabsConfig,
    dialect::Dialect,
    environment::SiteUrls,
    error::LabError,
    events::LabEvent,
    images::{ImageCatalog, ImageResolution, LabImage},
    options::{ImageChoice, LabSpecification},
    quantity::{CpuCores, MemoryBytes},
    service::{
        LabServiceSettings, OperationStoreSettings, ResolveImage,
        callers::{LabCaller, LabScope},
        lab_service::LabService,
    },
    size::NotebookQuota,
    state::LabStatus,
    user::{LabGroup, LabUser},
};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    api_faults::ApiFaults,
    changes::{Changes, POD_PATIENCE},
    kube_namespace::{KubeNamespace, kubectl},
    until::{holds_within, in_time},
};

/// Whose lab it is.
pub const USER: &str = "rachel";
/// A variable of the hub that is a secret.
pub const HUB_TOKEN: &str = "token-of-the-hub";
/// The token of the person.
pub const USER_TOKEN: &str = "token-of-rachel";

/// The configuration; the prefix of namespaces is that of the test. `interval` is the time after
/// which dead labs are deleted, in seconds. The longest deletion waits 20 seconds for a held pod,
/// and 16 until Kubernetes looks at the namespace again.
fn config(prefix: &str, interval: u64) -> LabsConfig {
    let text = format!(
        r"
lab:
  namespacePrefix: {prefix}
  spawnTimeout: 60
  deleteTimeout: 90
  reconcileInterval: {interval}
  volumes:
    - name: home
      source: {{ type: hostPath, path: /share }}
  sizes:
    - size: small
      resources:
        limits: {{ cpu: 1, memory: 3Gi }}
        requests: {{ cpu: 250m, memory: 1Gi }}
images:
  source: {{ type: docker, repository: example/lab }}
"
    );
    LabsConfig::from_yaml(&text).expect("valid")
}

/// One tag, without a registry.
struct OneImage(LabsConfig);

impl ResolveImage for OneImage {
    fn resolve<'a>(&'a self, choice: &'a ImageChoice) -> BoxFuture<'a, Result<LabImage, LabError>> {
        Box::pin(async move {
            let tags = ["w_2077_43".to_owned()];
            let catalog = ImageCatalog::from_tags(&self.0.images, &tags, &[].into());
            Ok(match catalog.resolve(choice, Dialect::Nublado)? {
                ImageResolution::Image(image) => *image,
                ImageResolution::NeedsDigest(image) => image.with_digest("sha256:1234".to_owned()),
            })
        })
    }
}

/// A namespace of the controller, and the service in it.
pub struct Labs {
    pub service: LabService,
    /// Of the controller.
    pub namespace: KubeNamespace,
    /// Disturbs the calls of the service.
    pub faults: ApiFaults,
    kubeconfig: PathBuf,
    stop: DropGuard,
    task: JoinHandle<()>,
    _left: LeftNamespace,
}

impl Labs {
    /// A service that leads.
    pub async fn start() -> Labs {
        Labs::deleting_dead(600).await
    }

    /// The same; dead labs are deleted after so many seconds.
    pub async fn deleting_dead(interval: u64) -> Labs {
        Labs::with(interval, None).await
    }

    /// A service that shares operations in a store.
    pub async fn sharing(store: OperationStoreSettings) -> Labs {
        Labs::with(600, Some(store)).await
    }

    async fn with(interval: u64, store: Option<OperationStoreSettings>) -> Labs {
        let namespace = KubeNamespace::new().await;
        let admin = kubectl(&["config", "view", "--raw", "--minify", "-o", "json"], "").await;
        let kubeconfig = namespace.kubeconfig_file("labs");
        std::fs::write(&kubeconfig, admin).expect("written");
        let faults = ApiFaults::insert(&kubeconfig, |_, _| None).await;
        let place = LabsPlace {
            namespace: namespace.name.clone(),
            kubeconfig: kubeconfig.clone(),
        };
        let (service, stop, task) = serve(place, "first", interval, store).await;
        Labs {
            _left: LeftNamespace(lab_namespace(&namespace)),
            service,
            namespace,
            faults,
            kubeconfig,
            stop,
            task,
        }
    }

    /// Ends the service in order, and starts another one.
    pub async fn restart(self) -> Labs {
        let Labs {
            service: _,
            namespace,
            faults,
            kubeconfig,
            stop,
            task,
            _left: left,
        } = self;
        drop(stop);
        let ended = in_time("the end of the service", task).await;
        ended.expect("no panic");
        Labs::next(namespace, faults, kubeconfig, left).await
    }

    /// Ends the service without warning, and starts another one, which waits until the lease of the
    /// first one has lapsed.
    pub async fn kill(self) -> Labs {
        let Labs {
            service: _,
            namespace,
            faults,
            kubeconfig,
            stop: _stop,
            task,
            _left: left,
        } = self;
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
        Labs::next(namespace, faults, kubeconfig, left).await
    }

    async fn next(
        namespace: KubeNamespace,
        faults: ApiFaults,
        kubeconfig: PathBuf,
        left: LeftNamespace,
    ) -> Labs {
        faults.plan(|_, _| None);
        let place = LabsPlace {
            namespace: namespace.name.clone(),
            kubeconfig: kubeconfig.clone(),
        };
        let (service, stop, task) = serve(place, "second", 600, None).await;
        Labs {
            service,
            namespace,
            faults,
            kubeconfig,
            stop,
            task,
            _left: left,
        }
    }

    /// Where another service for the same labs is.
    pub fn place(&self) -> LabsPlace {
        LabsPlace {
            namespace: self.namespace.name.clone(),
            kubeconfig: self.kubeconfig.clone(),
        }
    }

    /// The namespace of the lab.
    pub fn lab_namespace(&self) -> String {
        lab_namespace(&self.namespace)
    }

    pub async fn create(&self) -> Result<(), LabError> {
        self.service
            .create(&caller(None), specification(), None)
            .await
    }

    pub async fn delete(&self) -> Result<(), LabError> {
        let deletion = self.service.delete(USER).await?;
        in_time_of_pods("a deletion", deletion).await
    }

    pub fn status(&self) -> Option<LabStatus> {
        self.service.get(USER).ok().map(|state| state.status)
    }

    /// All events of the operation, when it has ended.
    pub async fn events(&self) -> Vec<LabEvent> {
        let events = self.service.events(USER, None).expect("events");
        let events = events.map(|(_, event)| event).collect();
        in_time_of_pods("the end of the events", events).await
    }

    /// What they say.
    pub async fn messages(&self) -> Vec<String> {
        let events = self.events().await;
        events.into_iter().map(|event| event.message).collect()
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.namespace.client.clone(), &self.lab_namespace())
    }

    pub fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.namespace.client.clone())
    }

    /// Waits until the service has made the pod.
    pub async fn until_pod(&self) -> Pod {
        Changes::named(self.pods(), &pod_name())
            .until(|_| true)
            .await
    }

    /// Says what the kubelet says.
    pub async fn set_phase(&self, phase: &str) {
        let patch = Patch::Merge(json!({ "status": { "phase": phase } }));
        let parameters = PatchParams::default();
        let patched = self
            .pods()
            .patch_status(&pod_name(), &parameters, &patch)
            .await;
        patched.expect("a status");
    }

    /// Keeps the pod when it is deleted, as if its node did not answer, or no longer keeps it.
    pub async fn hold_pod(&self, is_held: bool) {
        let finalizers: &[&str] = match is_held {
            true => &["ludgate.test/node-away"],
            false => &[],
        };
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
        let parameters = PatchParams::default();
        let patched = self.pods().patch(&pod_name(), &parameters, &patch).await;
        patched.expect("a pod");
    }

    /// Whether the namespace of the lab is deleted, as far as the pod lets it.
    pub async fn is_namespace_deleted(&self) -> bool {
        let deleted = holds_within(POD_PATIENCE, async || {
            let found = self.namespaces().get(&self.lab_namespace()).await;
            found.is_ok_and(|namespace| namespace.metadata.deletion_timestamp.is_some())
        });
        deleted.await
    }

    /// Starts the lab, and lets its pod run.
    pub async fn run_lab(&self) {
        self.create().await.expect("created");
        self.until_pod().await;
        self.set_phase("Running").await;
        self.events().await;
        assert_eq!(self.status(), Some(LabStatus::Running));
    }

    /// An Event of the pod, as kubelet and scheduler write them.
    pub async fn pod_event(&self, name: &str, message: &str) {
        let pod = self.pods().get(&pod_name()).await.expect("a pod");
        let event = json!({
            "metadata": { "name": name, "namespace": self.lab_namespace() },
            "involvedObject": {
                "kind": "Pod", "apiVersion": "v1", "name": pod_name(),
                "namespace": self.lab_namespace(), "uid": pod.metadata.uid,
            },
            "reason": "Test", "message": message, "type": "Normal",
        });
        let api: Api<k8s_openapi::api::core::v1::Event> =
            Api::namespaced(self.namespace.client.clone(), &self.lab_namespace());
        let event = serde_json::from_value(event).expect("an event");
        let made = api.create(&PostParams::default(), &event).await;
        made.expect("an event");
    }

    /// Makes the lab's namespace, as another owner or an earlier lab left it.
    pub async fn leave_namespace(&self, labels: Value) -> String {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": self.lab_namespace(), "labels": labels },
        });
        let namespace = serde_json::from_value(namespace).expect("a namespace");
        let made = self
            .namespaces()
            .create(&PostParams::default(), &namespace)
            .await;
        made.expect("made").metadata.uid.expect("a uid")
    }

    /// Removes it, and waits until it is gone.
    pub async fn remove_namespace(&self) {
        kubectl(&["delete", "namespace", &self.lab_namespace()], "").await;
    }

    /// Waits until the lab is as wanted.
    pub async fn until_status(&self, wanted: Option<LabStatus>) {
        let is_so = holds_within(POD_PATIENCE, async || self.status() == wanted);
        assert!(is_so.await, "{:?} instead of {wanted:?}", self.status());
    }

    /// The data of all ConfigMaps of the lab, as one text.
    pub async fn config_maps(&self) -> String {
        let api: Api<k8s_openapi::api::core::v1::ConfigMap> =
            Api::namespaced(self.namespace.client.clone(), &self.lab_namespace());
        let found = api.list(&ListParams::default()).await.expect("a list");
        let data = found.items.iter().map(|map| format!("{:?}", map.data));
        data.collect()
    }
}

fn lab_namespace(controller: &KubeNamespace) -> String {
    format!("{}-{USER}", controller.name)
}

/// Removes the namespace of the lab when the test ends.
struct LeftNamespace(String);

impl Drop for LeftNamespace {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kubectl")
            .args(["delete", "namespace", &self.0])
            .args(["--wait=false", "--ignore-not-found"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

async fn in_time_of_pods<T>(what: &str, coming: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(POD_PATIENCE, coming).await;
    waited.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

/// Where a service is.
#[derive(Clone)]
pub struct LabsPlace {
    namespace: String,
    kubeconfig: PathBuf,
}

async fn serve(
    place: LabsPlace,
    identity: &str,
    interval: u64,
    store: Option<OperationStoreSettings>,
) -> (LabService, DropGuard, JoinHandle<()>) {
    let (service, stop, task) = launch(place, identity, interval, store).await;
    let leads = holds_within(POD_PATIENCE, async || service.is_leading());
    assert!(leads.await, "the service does not lead");
    (service, stop, task)
}

/// Starts a service on the current runtime. It may not lead yet.
pub async fn launch(
    place: LabsPlace,
    identity: &str,
    interval: u64,
    store: Option<OperationStoreSettings>,
) -> (LabService, DropGuard, JoinHandle<()>) {
    // What the service logs is part of the output of a test that fails.
    logging::start(&LogSettings {
        requests: false,
        level: "info".to_owned(),
    });
    let read = Kubeconfig::read_from(&place.kubeconfig).expect("a kubeconfig");
    let read = Config::from_custom_kubeconfig(read, &Default::default()).await;
    let mut read = read.expect("a configuration");
    // As in production: the service tries again itself.
    read.default_retry = false;
    let client = Client::try_from(read).expect("a client");
    let config = config(&place.namespace, interval);
    let settings = LabServiceSettings {
        config: Arc::new(config.clone()),
        dialect: Dialect::Nublado,
        urls: SiteUrls::default(),
        discovery: None,
        peers: Vec::new(),
        helper_image: None,
        namespace: place.namespace,
        lease: "ludgate-labs".to_owned(),
        identity: identity.to_owned(),
        store,
        watch: Duration::from_secs(60),
        max_calls: 16,
    };
    let images = Arc::new(OneImage(config));
    let service = LabService::new(client, settings, images, Clock::system());
    let stop = CancellationToken::new();
    let task = tokio::spawn(service.clone().run(watch::Sender::new(false), stop.clone()));
    (service, stop.drop_guard(), task)
}

/// The pod of the lab.
pub fn pod_name() -> String {
    format!("{USER}-nb")
}

/// The person, perhaps with a quota.
pub fn caller(quota: Option<NotebookQuota>) -> LabCaller {
    LabCaller {
        username: USER.to_owned(),
        scopes: [LabScope::Notebook].into(),
        token: Some(Secret::new(USER_TOKEN)),
        user: Some(LabUser {
            username: USER.to_owned(),
            name: Some("Rachel (?)".to_owned()),
            uid: 1101,
            gid: 1101,
            groups: vec![LabGroup {
                name: USER.to_owned(),
                id: 1101,
            }],
            quota,
        }),
    }
}

/// Room for one lab.
pub fn quota() -> NotebookQuota {
    NotebookQuota {
        cpu: CpuCores::new(2.0).expect("an amount"),
        memory: MemoryBytes::from_gib(4.0).expect("an amount"),
        may_spawn: true,
    }
}

pub fn specification() -> LabSpecification {
    let body = json!({
        "options": { "image_tag": "w_2077_43", "size": "small" },
        "env": {
            "JUPYTERHUB_SERVICE_PREFIX": "/nb/user/rachel/",
            "JUPYTERHUB_API_TOKEN": HUB_TOKEN,
        },
    });
    LabSpecification::parse(&body, Dialect::Nublado).expect("valid")
}
