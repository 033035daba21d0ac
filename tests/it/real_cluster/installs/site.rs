//! A controller of installations as a process that can be killed, and apps of the chart with pods,
//! each in a namespace of its own.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Mutex,
    time::Duration,
};

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, ListParams},
    runtime::watcher,
};
use ludgate_installs::{release::ReleaseStatus, releases::history::fetch_history};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    real_cluster::labs::process::{log_file, print_after_panic},
    support::{
        changes::{Changes, POD_PATIENCE},
        installs::{Installs, is_ready},
        kube_namespace::{kind_of, try_kubectl},
        process::{Running, program},
        until::holds_within,
    },
};

/// Label of the namespaces of apps. Its value is the name of the namespace.
pub const APP_LABEL: &str = "ludgate.test/app";
/// Longest time of a request to an app. Without a pod it is refused at once.
const REQUEST: Duration = Duration::from_secs(10);

/// An installation of the chart `web`, as its author writes it.
#[derive(Clone, Debug, Default)]
pub struct WebApp<'a> {
    /// The definition.
    pub definition: &'a str,
    pub version: &'a str,
    /// Values of the chart, as YAML.
    pub values: &'a str,
    /// `deployOptions.helm`; null: none.
    pub helm: Value,
}

/// Options of an installation that waits for its pods.
pub fn waiting() -> Value {
    json!({ "wait": true, "timeout": "5m" })
}

/// A controller, and its apps.
pub struct InstallSite {
    pub installs: Installs,
    controller: Option<Running>,
    /// How often a controller was started.
    starts: u32,
    folder: TempDir,
    /// The namespaces of apps.
    namespaces: Mutex<BTreeSet<String>>,
}

impl InstallSite {
    pub async fn start() -> InstallSite {
        let mut site = InstallSite {
            installs: Installs::stopped("").await,
            controller: None,
            starts: 0,
            folder: tempfile::tempdir().expect("a folder"),
            namespaces: Mutex::default(),
        };
        site.start_controller();
        site
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("controller.log")
    }

    /// Starts a controller. It does not wait until the lease of an earlier one expires.
    pub fn start_controller(&mut self) {
        self.starts += 1;
        let log = log_file(&self.log());
        let child = Command::new(program())
            .args(["controller", "--config"])
            .arg(self.installs.config())
            .env(
                "LUDGATE_CONTROLLER__LEASE",
                format!("lease-{}", self.starts),
            )
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn();
        self.controller = Some(Running(child.expect("it starts")));
    }

    /// Ends the controller and Helm by SIGKILL, as in a container that is killed.
    pub fn kill_all(&mut self) {
        self.controller = None;
        self.installs.kill_helm();
    }

    pub fn client(&self) -> Client {
        self.installs.namespace().client.clone()
    }

    /// The namespace of an app.
    pub fn namespace(&self, app: &str) -> String {
        self.installs.own(app)
    }

    /// A definition of the chart `web`: 1.0.0 is the chart 0.1.0, 2.0.0 is 0.2.0.
    pub async fn define_web(&self, name: &str, mut more: Value) {
        let version = |version: &str, chart: &str| self.installs.version(version, "web", chart);
        more["versions"] = json!([version("1.0.0", "0.1.0"), version("2.0.0", "0.2.0")]);
        self.installs.define(name, more).await;
    }

    /// Makes an installation, or changes it.
    pub async fn install(&self, name: &str, app: &WebApp<'_>) {
        let namespace = self.namespace(name);
        let mut spec = json!({
            "namespace": { "name": namespace, "create": true, "labels": { APP_LABEL: namespace } },
            "applicationRef": {
                "name": self.installs.own(app.definition), "version": app.version,
            },
        });
        if !app.values.is_empty() {
            spec["valuesBlock"] = app.values.into();
        }
        if !app.helm.is_null() {
            spec["deployOptions"] = json!({ "helm": app.helm });
        }
        self.namespaces.lock().expect("no panic").insert(namespace);
        self.installs.installation(name, spec).await;
    }

    /// Numbers and states of the revisions of an app.
    pub async fn revisions(&self, app: &str) -> Vec<(i64, ReleaseStatus)> {
        let namespace = self.namespace(app);
        self.revisions_in(&self.client(), &namespace, app).await
    }

    /// The same in a namespace of one of the clusters.
    pub async fn revisions_in(
        &self,
        client: &Client,
        namespace: &str,
        app: &str,
    ) -> Vec<(i64, ReleaseStatus)> {
        let history = fetch_history(client, namespace, &self.installs.release(app)).await;
        let history = history.expect("a history");
        let revisions = history.iter().map(|one| (one.revision, one.status));
        revisions.collect()
    }

    /// The objects of a kind in the namespace of an app.
    pub fn objects<K: Resource<DynamicType = ()>>(&self, app: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), &self.namespace(app), &kind_of::<K>())
    }

    /// The UIDs of these objects.
    pub async fn uids<K: Resource<DynamicType = ()>>(&self, app: &str) -> BTreeSet<String> {
        let listed = self.objects::<K>(app).list(&ListParams::default()).await;
        let listed = listed.expect("a list").items;
        listed.iter().filter_map(ResourceExt::uid).collect()
    }

    /// Waits until there is another object of a kind, with these labels.
    pub async fn until_new<K: Resource<DynamicType = ()>>(
        &self,
        app: &str,
        labels: &str,
        seen: &BTreeSet<String>,
    ) {
        let selected = watcher::Config::default().labels(labels);
        let mut changes = Changes::new(self.objects::<K>(app), selected);
        let is_new = |object: &DynamicObject| object.uid().is_some_and(|uid| !seen.contains(&uid));
        changes.until(is_new).await;
    }

    /// The page of an app, at the address of its Service; `None`: nothing answers.
    pub async fn page(&self, app: &str) -> Option<String> {
        let services: Api<Service> = Api::namespaced(self.client(), &self.namespace(app));
        let service = services.get_opt("web").await.ok().flatten()?;
        let address = service.spec?.cluster_ip?;
        let talk = async {
            let mut stream = TcpStream::connect((address.as_str(), 80)).await.ok()?;
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.ok()?;
            let (_, body) = answer.split_once("\r\n\r\n")?;
            Some(body.trim_end().to_owned())
        };
        timeout(REQUEST, talk).await.ok().flatten()
    }

    /// Waits until an app has this page.
    pub async fn until_page(&self, app: &str, wanted: &str) {
        let mut last = None;
        let is_shown = holds_within(POD_PATIENCE, async || {
            last = self.page(app).await;
            last.as_deref() == Some(wanted)
        });
        let is_shown = is_shown.await;
        assert!(is_shown, "{app}: {last:?}, not {wanted:?}");
    }

    /// Makes the pods of an app ready until its installation is.
    pub async fn release_pods(&self, app: &str) {
        let namespace = self.namespace(app);
        let is_released = holds_within(POD_PATIENCE, async || {
            let pods = self.objects::<Pod>(app).list(&ListParams::default()).await;
            for pod in pods.expect("pods").items {
                let name = pod.name_any();
                let touch = ["-n", &namespace, "exec", &name, "--", "touch", "/tmp/ready"];
                // A pod that does not run yet, or no longer.
                let _ = try_kubectl(&touch, "").await;
            }
            let installation = self.installs.get(app).await;
            installation.is_some_and(|installation| is_ready(&installation))
        });
        let is_released = is_released.await;
        let last = self.installs.get(app).await.map(|object| object.data);
        assert!(is_released, "{app} is not ready: {last:?}");
    }

    /// Waits until an app has no pod.
    pub async fn until_no_pods(&self, app: &str) {
        let is_empty = holds_within(POD_PATIENCE, async || {
            self.uids::<Pod>(app).await.is_empty()
        });
        assert!(is_empty.await, "{app} has pods");
    }
}

impl Drop for InstallSite {
    fn drop(&mut self) {
        self.kill_all();
        print_after_panic(&self.log());
        let namespaces = self.namespaces.get_mut();
        let namespaces = namespaces.map(std::mem::take).unwrap_or_default();
        if namespaces.is_empty() {
            return;
        }
        let _ = Command::new("kubectl")
            .args(["delete", "namespace", "--wait=false", "--ignore-not-found"])
            .args(namespaces)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}
