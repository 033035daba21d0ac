//! A controller with the shipped rights, in the process of the test.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Resource,
    api::{ApiResource, DynamicObject},
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
    changes::{Changes, POD_PATIENCE},
    kube_namespace::{KubeNamespace, phapplications},
    message::PATIENCE,
    until::holds_within,
    world::World,
};

/// The ServiceAccount of controllers.
const ACCOUNT: &str = "ludgate-controller";

/// Which controller a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerKind {
    Applications,
    Viewers,
    Installations,
}

impl ControllerKind {
    /// Its table in `[controller]`, and its label in metrics.
    fn name(self) -> &'static str {
        match self {
            ControllerKind::Applications => "applications",
            ControllerKind::Viewers => "viewers",
            ControllerKind::Installations => "installations",
        }
    }

    /// The file of `config/rbac` with its rights.
    fn rights(self) -> &'static str {
        match self {
            ControllerKind::Applications => "controller.yaml",
            ControllerKind::Viewers => "viewers.yaml",
            ControllerKind::Installations => "installations.yaml",
        }
    }

    /// The TOML that its objects need: groups and instance types.
    pub fn platform(self) -> &'static str {
        match self {
            ControllerKind::Applications => PLATFORM,
            ControllerKind::Viewers | ControllerKind::Installations => "",
        }
    }
}

/// A namespace with a controller.
pub struct Controlled {
    pub namespace: KubeNamespace,
    pub running: RunningControllers,
    kind: ControllerKind,
    /// Of apps.
    settings: Option<ApplicationSettings>,
    folder: tempfile::TempDir,
}

/// A namespace and a configuration for a controller that does not run.
pub struct Prepared {
    pub namespace: KubeNamespace,
    /// Of the controller's account.
    pub kubeconfig: PathBuf,
    kind: ControllerKind,
    folder: tempfile::TempDir,
}

impl Prepared {
    pub async fn new() -> Prepared {
        Prepared::with(PLATFORM).await
    }

    /// `platform` is more TOML: groups and instance types.
    pub async fn with(platform: &str) -> Prepared {
        Prepared::for_controller(ControllerKind::Applications, platform).await
    }

    /// `more` is TOML: keys of the controller's table, or further tables. `NAMESPACE` in it is the
    /// name of the namespace.
    pub async fn for_controller(kind: ControllerKind, more: &str) -> Prepared {
        let namespace = KubeNamespace::new().await;
        namespace.grant(kind.rights()).await;
        let kubeconfig = namespace.kubeconfig_of(ACCOUNT).await;
        let prepared = Prepared {
            folder: tempfile::tempdir().expect("a folder"),
            namespace,
            kubeconfig,
            kind,
        };
        let text = config(kind, &prepared.namespace.name, &prepared.kubeconfig, more);
        std::fs::write(prepared.config(), text).expect("written");
        prepared
    }

    /// The path of the configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("ludgate.toml")
    }

    /// Starts the controller in the process of the test.
    pub async fn start(self) -> Controlled {
        self.start_as("test").await
    }

    /// The same, as another process.
    async fn start_as(self, identity: &str) -> Controlled {
        let read = settings::load_controller(&self.config()).expect("valid");
        let settings = read.applications.clone();
        let running = start_controllers(read, identity.to_owned()).await;
        Controlled {
            namespace: self.namespace,
            running: running.expect("started"),
            kind: self.kind,
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

    /// `platform` is more TOML: keys of `[controller.applications]`, groups and instance types.
    pub async fn with(platform: &str) -> Controlled {
        Prepared::with(platform).await.start().await
    }

    /// Replaces the controller by a new process, which lists everything again.
    pub async fn restart(self) -> Controlled {
        self.stop().await.start_as("restarted").await
    }

    /// Stops the controller.
    pub async fn stop(self) -> Prepared {
        self.running.process.drain.stop(PATIENCE).await;
        Prepared {
            kubeconfig: self.namespace.kubeconfig_file(ACCOUNT),
            namespace: self.namespace,
            kind: self.kind,
            folder: self.folder,
        }
    }

    /// The path of the configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("ludgate.toml")
    }

    /// The value of a counter of the controller, named with its further labels.
    pub fn count(&self, name: &str, labels: &str) -> f64 {
        let metrics = self.running.process.registry.render();
        let kind = self.kind.name();
        let name = format!("ludgate_controller_{name}_total{{controller=\"{kind}\"{labels}}} ");
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
        let settings = self.settings.clone();
        let mut settings = settings.expect("the controller of apps is on");
        change(&mut settings);
        let applications = self.running.settings.applications.as_ref();
        let sender = applications.expect("the controller of apps is on");
        sender.send_replace(Arc::new(settings));
    }

    /// The settings of another platform.
    pub fn parsed(&self, platform: &str) -> ApplicationSettings {
        let file = self.folder.path().join("changed.toml");
        let text = config(
            self.kind,
            &self.namespace.name,
            &self.namespace.kubeconfig(),
            platform,
        );
        std::fs::write(&file, text).expect("written");
        settings::load_controller(&file)
            .expect("valid")
            .applications
            .expect("the controller of apps is on")
    }

    /// Makes an app of busybox that serves its environment, or changes it.
    pub async fn app(&self, name: &str, more: Value) {
        let mut spec = pod(json!([serving("env")]));
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        self.namespace.app(name, "public", spec).await;
    }

    /// An app and its changes.
    pub fn changes(&self, name: &str) -> Changes<DynamicObject> {
        Changes::named(self.namespace.api(&phapplications()), name)
    }

    /// Waits until an app's status is as wanted, and returns it.
    pub async fn until(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let is_wanted = |app: &DynamicObject| wanted(&app.data["status"]);
        self.changes(name).until(is_wanted).await.data["status"].clone()
    }

    /// Waits until an app is in a phase, and returns its message.
    pub async fn until_phase(&self, name: &str, phase: &str) -> String {
        let status = self.until(name, |status| status["phase"] == phase).await;
        status["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an app with its current spec is in a phase.
    pub async fn until_current(&self, name: &str, phase: &str) {
        self.changes(name).until(|app| is_current(app, phase)).await;
    }

    /// The number of the current version of an app's spec.
    pub async fn generation(&self, name: &str) -> i64 {
        let app = self.namespace.api(&phapplications()).get(name).await;
        app.expect("an app")
            .metadata
            .generation
            .expect("a generation")
    }

    /// Waits until an object of this kind is as wanted.
    pub async fn until_object<K: Resource<DynamicType = ()>>(
        &self,
        name: &str,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let api = self.namespace.api(&ApiResource::erase::<K>(&()));
        Changes::named(api, name).until(wanted).await
    }

    /// A gateway that has found an app with a ready pod.
    pub async fn gateway(&self, app: &str) -> World {
        let world = World::with(&self.namespace.toml(), |_| {})
            .await
            .ready()
            .await;
        world.until_running(app).await;
        world
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

/// The container of an app of busybox; its page is what these commands of a shell print.
pub fn serving(page: &str) -> Value {
    let serve = format!(
        "www=/tmp/www$PRIMEHUB_APP_BASE_URL; mkdir -p $www; {{ {page}; }} >$www/index.html; exec httpd -f -p 5000 -h /tmp/www"
    );
    json!({
        "name": "app",
        "image": "localhost/busybox:1",
        "command": ["sh", "-c", serve],
        "ports": [{ "containerPort": 5000 }],
        "readinessProbe": { "tcpSocket": { "port": 5000 }, "periodSeconds": 1 },
    })
}

/// The pod of an app's spec.
pub fn pod(containers: Value) -> Value {
    let spec = json!({ "terminationGracePeriodSeconds": 1, "containers": containers });
    json!({ "podTemplate": { "spec": spec } })
}

/// Whether an app is in this phase with its current spec.
pub fn is_current(app: &DynamicObject, phase: &str) -> bool {
    let status = &app.data["status"];
    status["phase"] == phase && status["observedGeneration"].as_i64() == app.metadata.generation
}

/// The page of an app, through the gateway: status code and text.
pub async fn page(world: &World, app: &str) -> (u16, String) {
    let request = format!("GET /apps/{app}/ HTTP/1.1\r\nHost: HOST\r\n\r\n");
    let answer = world.exchange(&request).await;
    (answer.status(), answer.text())
}

/// Waits until the page of an app has these lines: gateway and controller learn of a pod at
/// different times.
pub async fn until_page(world: &World, app: &str, lines: &[&str]) {
    let mut last = (0, String::new());
    let is_there = holds_within(POD_PATIENCE, async || {
        last = page(world, app).await;
        let (status, text) = &last;
        *status == 200 && lines.iter().all(|line| text.lines().any(|it| it == *line))
    });
    let is_there = is_there.await;
    assert!(is_there, "not all of {lines:?} in {last:?}");
}

fn config(kind: ControllerKind, namespace: &str, kubeconfig: &Path, more: &str) -> String {
    let name = kind.name();
    // A table of the controller's settings stands for `true`.
    let controller = match more.is_empty() || more.starts_with('[') {
        true => format!("[controller]\n{name} = true"),
        false => format!("[controller.{name}]"),
    };
    let more = more.replace("NAMESPACE", namespace);
    format!(
        "[site]\nurl = \"https://hub.example.com\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [kubernetes]\nnamespace = \"{namespace}\"\nkubeconfig = \"{}\"\n\
         {controller}\n{more}",
        kubeconfig.display()
    )
}
