//! The controller of apps with the shipped rights, in the process of the test.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, pin_mut};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt, watcher},
};
use ludgate::{
    controllers::application::settings::ApplicationSettings,
    run::controllers::{RunningControllers, start_controllers},
    settings,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    kube_namespace::{KubeNamespace, phapplications},
    message::PATIENCE,
};

/// Longest wait for pods: kubelet takes its time on a busy machine, and waits longer after each
/// crash of a container.
pub const POD_PATIENCE: Duration = Duration::from_secs(120);

/// A namespace with a controller.
pub struct Controlled {
    pub namespace: KubeNamespace,
    pub running: RunningControllers,
    settings: ApplicationSettings,
    folder: tempfile::TempDir,
}

/// A namespace and a configuration for a controller that has not started yet.
pub struct Prepared {
    pub namespace: KubeNamespace,
    /// Of the controller's account.
    pub kubeconfig: PathBuf,
    folder: tempfile::TempDir,
}

impl Prepared {
    pub async fn new() -> Prepared {
        Prepared::with(PLATFORM).await
    }

    /// `platform` is more TOML: groups and instance types.
    pub async fn with(platform: &str) -> Prepared {
        let namespace = KubeNamespace::new().await;
        namespace.grant("controller.yaml").await;
        let kubeconfig = namespace.kubeconfig_of("ludgate-controller").await;
        let prepared = Prepared {
            folder: tempfile::tempdir().expect("a folder"),
            namespace,
            kubeconfig,
        };
        let text = config(&prepared.namespace.name, &prepared.kubeconfig, platform);
        std::fs::write(prepared.config(), text).expect("written");
        prepared
    }

    /// The path of the configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("ludgate.toml")
    }

    /// Starts the controller in the process of the test.
    pub async fn start(self) -> Controlled {
        let read = settings::load_controller(&self.config()).expect("valid");
        let settings = read.applications.clone();
        let running = start_controllers(read, "test".to_owned()).await;
        Controlled {
            namespace: self.namespace,
            running: running.expect("started"),
            settings,
            folder: self.folder,
        }
    }
}

/// A group without a volume, and a size of which a node has room for some.
pub const PLATFORM: &str =
    "[groups.phusers]\n[instance_types.cpu-1]\ncpu = 0.1\nmemory = \"32MiB\"\n";

impl Controlled {
    pub async fn start() -> Controlled {
        Controlled::with(PLATFORM).await
    }

    /// `platform` is more TOML: groups and instance types.
    pub async fn with(platform: &str) -> Controlled {
        Prepared::with(platform).await.start().await
    }

    /// Replaces the controller by a new process, which lists everything again.
    pub async fn restart(self) -> Controlled {
        let Controlled {
            namespace,
            running,
            settings,
            folder,
        } = self;
        running.process.drain.stop(PATIENCE).await;
        let file = folder.path().join("ludgate.toml");
        let read = ludgate::settings::load_controller(&file).expect("valid");
        let started = start_controllers(read, "restarted".to_owned()).await;
        Controlled {
            namespace,
            running: started.expect("started"),
            settings,
            folder,
        }
    }

    /// The path of the configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("ludgate.toml")
    }

    /// The value of a counter of the controller, named with its further labels.
    pub fn count(&self, name: &str, labels: &str) -> f64 {
        let metrics = self.running.process.registry.render();
        let name =
            format!("ludgate_controller_{name}_total{{controller=\"applications\"{labels}}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }

    /// Whether it holds the lease, as its readiness probe says.
    pub async fn leads(&self) -> bool {
        let mut stream = TcpStream::connect(self.running.admin).await.expect("open");
        let request = b"GET /readyz?verbose HTTP/1.0\r\n\r\n";
        stream.write_all(request).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer.contains("leading: yes")
    }

    /// How many reconciles have succeeded.
    pub fn reconciles(&self) -> f64 {
        self.count("reconciles", ",result=\"success\"")
    }

    /// Changes the settings in force.
    pub fn change(&self, change: impl FnOnce(&mut ApplicationSettings)) {
        let mut settings = self.settings.clone();
        change(&mut settings);
        self.running.applications.send_replace(Arc::new(settings));
    }

    /// The settings of another platform.
    pub fn parsed(&self, platform: &str) -> ApplicationSettings {
        let file = self.folder.path().join("changed.toml");
        let text = config(&self.namespace.name, &self.namespace.kubeconfig(), platform);
        std::fs::write(&file, text).expect("written");
        settings::load_controller(&file)
            .expect("valid")
            .applications
    }

    /// Makes an app of busybox that serves its environment, or changes it.
    pub async fn app(&self, name: &str, more: Value) {
        let serve = "mkdir -p /tmp/www$PRIMEHUB_APP_BASE_URL; env >/tmp/www$PRIMEHUB_APP_BASE_URL/index.html; exec httpd -f -p 5000 -h /tmp/www";
        let pod = json!({ "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "app",
                "image": "localhost/busybox:1",
                "command": ["sh", "-c", serve],
                "ports": [{ "containerPort": 5000 }],
                "readinessProbe": { "tcpSocket": { "port": 5000 }, "periodSeconds": 1 },
            }],
        }});
        let mut spec = json!({ "podTemplate": pod });
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        self.namespace.app(name, "public", spec).await;
    }

    /// Waits until an app's status is as wanted, and returns it.
    pub async fn until(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let api = self.namespace.api(&phapplications());
        let kind = phapplications();
        until(api, &kind, name, |object| wanted(&object.data["status"]))
            .await
            .data["status"]
            .clone()
    }

    /// Waits until an app is in a phase, and returns its message.
    pub async fn until_phase(&self, name: &str, phase: &str) -> String {
        let status = self.until(name, |status| status["phase"] == phase).await;
        status["message"].as_str().unwrap_or_default().to_owned()
    }

    pub fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.namespace.client.clone(), &self.namespace.name)
    }

    /// The pods of an app.
    pub async fn pods(&self, name: &str) -> Vec<Pod> {
        let api: Api<Pod> = Api::namespaced(self.namespace.client.clone(), &self.namespace.name);
        let label = format!("primehub.io/phapplication=app-{name}");
        let parameters = kube::api::ListParams::default().labels(&label);
        api.list(&parameters).await.expect("pods").items
    }
}

fn config(namespace: &str, kubeconfig: &Path, platform: &str) -> String {
    format!(
        "[site]\nurl = \"https://hub.example.com\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [kubernetes]\nnamespace = \"{namespace}\"\nkubeconfig = \"{}\"\n\
         [controller]\napplications = true\n{platform}",
        kubeconfig.display()
    )
}

/// Waits until the object of this name is as wanted.
pub async fn until(
    api: Api<DynamicObject>,
    kind: &ApiResource,
    name: &str,
    wanted: impl Fn(&DynamicObject) -> bool,
) -> DynamicObject {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let changes = watcher(api, config).default_backoff().applied_objects();
    pin_mut!(changes);
    let mut last = None;
    let found = async {
        loop {
            let change = changes.next().await.expect("a watch does not end");
            let Ok(object) = change else { continue };
            if wanted(&object) {
                return object;
            }
            last = Some(object);
        }
    };
    let waited = tokio::time::timeout(POD_PATIENCE, found).await;
    waited.unwrap_or_else(|_| panic!("{} {name} is not as wanted: {last:?}", kind.kind))
}
