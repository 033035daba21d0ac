//! The service of file servers, in the process of the test, with what controllers and kubelets
//! write.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{batch::v1::Job, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Config, Resource,
    api::{Patch, PatchParams, PostParams},
    config::Kubeconfig,
};
use ludgate_labs::{
    config::{ContainerImage, LabsConfig, PullPolicy},
    error::LabError,
    service::file_servers::{
        FileServerOperations, FileServices, FileServicesSettings, FilesystemAdminOperations,
    },
    user::{LabGroup, LabUser},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    changes::{Changes, POD_PATIENCE},
    kube_namespace::KubeNamespace,
    until::{holds_within, in_time},
};

/// Whose server it is.
pub const OWNER: &str = "rachel";
/// Its Job and its Service.
pub const SERVER: &str = "rachel-fs";
/// The ServiceAccount of labs.
pub const ACCOUNT: &str = "ludgate-labs";
/// The pod for administrators.
pub const ADMIN_POD: &str = "fsadmin";

/// `creation` is how long a server may take to start, in seconds.
fn config(namespace: &str, creation: u64) -> LabsConfig {
    let text = format!(
        r"
lab:
  sizes:
    - size: small
      resources:
        limits: {{ cpu: 1, memory: 3Gi }}
        requests: {{ cpu: 250m, memory: 1Gi }}
  volumes:
    - name: home
      source: {{ type: hostPath, path: /share }}
    - name: scratch
      source:
        type: persistentVolumeClaim
        storageClassName: none
        accessModes: [ReadWriteMany]
        resources: {{ requests: {{ storage: 1Gi }} }}
  volumeMounts:
    - {{ containerPath: /home, volumeName: home }}
    - {{ containerPath: /scratch, volumeName: scratch }}
images:
  source: {{ type: docker, repository: example/lab }}
fileserver:
  enabled: true
  namespace: {namespace}
  creationTimeout: {creation}
  volumeMounts:
    - {{ containerPath: /home, volumeName: home }}
    - {{ containerPath: /scratch, volumeName: scratch }}
fsadmin:
  podName: {ADMIN_POD}
"
    );
    LabsConfig::from_yaml(&text).expect("valid")
}

/// A namespace of file servers and of the controller, and the service in it. The service has the
/// shipped rights.
pub struct FileServersInCluster {
    pub namespace: KubeNamespace,
    services: FileServices,
    creation: u64,
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl FileServersInCluster {
    /// A service that leads. A server may take `creation` seconds to start.
    pub async fn start(creation: u64) -> FileServersInCluster {
        let namespace = KubeNamespace::new().await;
        namespace.grant("labs.yaml").await;
        namespace.kubeconfig_of(ACCOUNT).await;
        FileServersInCluster::serve(namespace, creation, "first").await
    }

    async fn serve(namespace: KubeNamespace, creation: u64, identity: &str) -> Self {
        let settings = FileServicesSettings {
            config: Arc::new(config(&namespace.name, creation)),
            image: Some(ContainerImage {
                repository: "example/controller".to_owned(),
                tag: "1".to_owned(),
                pull_policy: PullPolicy::IfNotPresent,
            }),
            peers: vec![gateway_pods()],
            namespace: namespace.name.clone(),
            lease: "ludgate-labs-files".to_owned(),
            identity: identity.to_owned(),
            watch: Duration::from_secs(60),
            max_calls: 16,
        };
        let client = client_of_labs(&namespace).await;
        let services = FileServices::new(client, settings);
        let stop = CancellationToken::new();
        let task = tokio::spawn(services.clone().run(stop.clone()));
        let leads = holds_within(POD_PATIENCE, async || services.is_leading());
        assert!(leads.await, "the service does not lead");
        FileServersInCluster {
            namespace,
            services,
            creation,
            stop: stop.drop_guard(),
            task,
        }
    }

    /// Ends the service in order, and starts another one.
    pub async fn restart(self) -> FileServersInCluster {
        drop(self.stop);
        let ended = in_time("the end of the service", self.task).await;
        ended.expect("no panic");
        FileServersInCluster::serve(self.namespace, self.creation, "second").await
    }

    pub fn servers(&self) -> Arc<dyn FileServerOperations> {
        let servers = self.services.operations().servers;
        servers.expect("file servers are configured")
    }

    pub fn admin(&self) -> Arc<dyn FilesystemAdminOperations> {
        let admin = self.services.operations().admin;
        admin.expect("the pod is configured")
    }

    /// Begins to create the server.
    pub fn begin(&self) -> JoinHandle<Result<(), LabError>> {
        let servers = self.servers();
        tokio::spawn(async move { servers.create(&owner()).await })
    }

    pub async fn delete(&self) -> Result<(), LabError> {
        let servers = self.servers();
        let deleted = tokio::time::timeout(POD_PATIENCE, servers.delete(OWNER)).await;
        deleted.expect("a deletion ends")
    }

    /// Creates the server, and lets its pod run.
    pub async fn run_server(&self) -> Job {
        let creation = self.begin();
        let job = self.until_job().await;
        self.make_pod(&job).await;
        self.set_phase(SERVER, "Running").await;
        let created = creation.await.expect("no panic");
        assert_eq!(created, Ok(()));
        job
    }

    pub async fn until_job(&self) -> Job {
        self.namespace.until_job(SERVER).await
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.namespace.client.clone(), &self.namespace.name)
    }

    /// Makes the pod of a Job, as the Job controller does.
    pub async fn make_pod(&self, job: &Job) {
        self.namespace.make_pod_of(job).await;
    }

    /// Says what the kubelet says.
    pub async fn set_phase(&self, pod: &str, phase: &str) {
        self.namespace.set_pod_phase(pod, phase).await;
    }

    /// The names of all objects of servers, one a line.
    pub async fn objects(&self) -> String {
        self.namespace.file_server_objects().await
    }

    pub async fn until_nothing_is_left(&self) {
        let is_gone = holds_within(POD_PATIENCE, async || self.objects().await.is_empty());
        assert!(is_gone.await, "left: {}", self.objects().await);
    }
}

/// The objects of file servers, which no controller makes here.
impl KubeNamespace {
    /// Waits until there is a Job of this name that is not being deleted.
    pub async fn until_job(&self, name: &str) -> Job {
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &self.name);
        Changes::named(jobs, name)
            .until(|job: &Job| job.metadata.deletion_timestamp.is_none())
            .await
    }

    /// Makes the pod of a Job, with its name.
    pub async fn make_pod_of(&self, job: &Job) {
        let template = job.spec.clone().expect("a spec").template;
        let owner = job.controller_owner_ref(&()).expect("a Job with a uid");
        let pod = Pod {
            metadata: ObjectMeta {
                name: job.metadata.name.clone(),
                labels: template.metadata.and_then(|metadata| metadata.labels),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: template.spec,
            status: None,
        };
        // Until the namespace has its ServiceAccount, pods are refused.
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.name);
        let is_made = holds_within(POD_PATIENCE, async || {
            let made = pods.create(&PostParams::default(), &pod).await;
            made.is_ok()
        });
        assert!(is_made.await, "the pod is refused");
    }

    /// Says what the kubelet says of a pod.
    pub async fn set_pod_phase(&self, pod: &str, phase: &str) {
        let patch = Patch::Merge(json!({ "status": { "phase": phase } }));
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.name);
        let parameters = PatchParams::default();
        let patched = pods.patch_status(pod, &parameters, &patch).await;
        patched.expect("a status");
    }

    /// The names of all objects of file servers, one a line.
    pub async fn file_server_objects(&self) -> String {
        let kinds = "jobs,pods,services,networkpolicies,persistentvolumeclaims";
        let arguments = ["get", kinds, "-l", "nublado.lsst.io/category", "-o", "name"];
        self.kubectl(&arguments, "").await
    }
}

/// The pods that may connect to file servers.
pub fn gateway_pods() -> Value {
    json!({ "podSelector": { "matchLabels": { "app": "gateway" } } })
}

/// A client of the account of labs, whose kubeconfig is written.
async fn client_of_labs(namespace: &KubeNamespace) -> Client {
    let read = Kubeconfig::read_from(namespace.kubeconfig_file(ACCOUNT)).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(read, &Default::default()).await;
    let mut config = config.expect("a configuration");
    // As in production: the service tries again itself.
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

fn owner() -> LabUser {
    LabUser {
        username: OWNER.to_owned(),
        name: None,
        uid: 1101,
        gid: 1101,
        groups: vec![LabGroup {
            name: OWNER.to_owned(),
            id: 1101,
        }],
        quota: None,
    }
}
