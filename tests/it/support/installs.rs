//! The controller of installations in the process of the test, with the shipped rights, a chart
//! repository, and real Helm.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Stdio, time::Duration};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use ludgate_cluster::crd::{
    definition::ApplicationDefinition, installation::ApplicationInstallation,
};
use ludgate_installs::{
    helm::command::ServerSideApply, release::Release, releases::history::fetch_history,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    changes::Changes,
    chart_repository::ChartRepository,
    controller::{Controlled, ControllerKind, Prepared},
    helm::{logged_program, server_side},
    kube_namespace::{KubeNamespace, kind_of, kubectl, role_of_apps},
};

/// The longest time from a deletion to the end of the operation that waits.
pub const AT_ONCE: Duration = Duration::from_secs(2);

pub fn installations() -> ApiResource {
    kind_of::<ApplicationInstallation>()
}

/// A controller of installations.
pub struct Installs {
    controller: Controller,
    pub repository: ChartRepository,
    /// The program, its log, and the folder of operations.
    folder: tempfile::TempDir,
    target: AppNamespace,
}

/// The controller in the process of the test, or the configuration of one that does not run.
enum Controller {
    Running(Box<Controlled>),
    Stopped(Box<Prepared>),
}

/// A namespace of apps. It is deleted on drop.
pub struct AppNamespace(pub String);

impl Installs {
    pub async fn start() -> Installs {
        Installs::with("").await
    }

    /// `more` are keys of `[controller.installations]`.
    pub async fn with(more: &str) -> Installs {
        let mut installs = Installs::stopped(more).await;
        installs.controller = match installs.controller {
            Controller::Stopped(prepared) => Controller::Running(Box::new(prepared.start().await)),
            running @ Controller::Running(_) => running,
        };
        installs
    }

    /// The same without a controller.
    pub async fn stopped(more: &str) -> Installs {
        let folder = tempfile::tempdir().expect("a folder");
        let prepared = prepare(&folder, more).await;
        let target = AppNamespace(format!("{}-target", prepared.namespace.name));
        Installs {
            controller: Controller::Stopped(Box::new(prepared)),
            repository: ChartRepository::start().await,
            folder,
            target,
        }
    }

    /// The path of the controller's configuration.
    pub fn config(&self) -> PathBuf {
        match &self.controller {
            Controller::Running(controlled) => controlled.config(),
            Controller::Stopped(prepared) => prepared.config(),
        }
    }

    /// Replaces the controller by a new process.
    pub async fn restart(self) -> Installs {
        let Installs {
            controller,
            repository,
            folder,
            target,
        } = self;
        let controlled = match controller {
            Controller::Running(controlled) => controlled.restart().await,
            Controller::Stopped(prepared) => prepared.start().await,
        };
        Installs {
            controller: Controller::Running(Box::new(controlled)),
            repository,
            folder,
            target,
        }
    }

    pub fn namespace(&self) -> &KubeNamespace {
        match &self.controller {
            Controller::Running(controlled) => &controlled.namespace,
            Controller::Stopped(prepared) => &prepared.namespace,
        }
    }

    /// How many reconciles have succeeded.
    pub fn reconciles(&self) -> f64 {
        match &self.controller {
            Controller::Running(controlled) => controlled.reconciles(),
            Controller::Stopped(_) => 0.0,
        }
    }

    /// The name of an object that belongs to the whole cluster.
    pub fn own(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace().name)
    }

    /// Makes the definition `example`, or changes it: 1.0.0 is the chart 0.1.0, 2.0.0 is 0.2.0.
    pub async fn definition(&self, more: Value) {
        let version = |version: &str, chart: &str| self.version(version, "example", chart);
        let versions = [version("1.0.0", "0.1.0"), version("2.0.0", "0.2.0")];
        let mut spec = json!({ "versions": versions });
        merge(&mut spec, more);
        self.define("example", spec).await;
    }

    /// Makes a definition with these versions and other fields, or changes it.
    pub async fn define(&self, name: &str, more: Value) {
        let mut spec = json!({ "description": "An example", "method": "helm" });
        merge(&mut spec, more);
        let name = self.own(name);
        let object = json!({
            "apiVersion": "apps.kubermatic.k8c.io/v1", "kind": "ApplicationDefinition",
            "metadata": { "name": name }, "spec": spec,
        });
        let parameters = PatchParams::apply("ludgate-tests").force();
        let definitions = self.definitions();
        let applied = Patch::Apply(&object);
        let applied = definitions.patch(&name, &parameters, &applied).await;
        applied.expect("applied");
    }

    /// A version whose chart is in the repository.
    pub fn version(&self, version: &str, chart: &str, chart_version: &str) -> Value {
        json!({ "version": version, "template": { "source": { "helm": {
            "url": self.repository.url(), "chartName": chart, "chartVersion": chart_version,
        } } } })
    }

    pub async fn delete_definition(&self) {
        let name = self.own("example");
        let definitions = self.definitions();
        let deleted = definitions.delete(&name, &DeleteParams::default()).await;
        deleted.expect("deleted");
    }

    fn definitions(&self) -> Api<DynamicObject> {
        let kind = kind_of::<ApplicationDefinition>();
        Api::all_with(self.namespace().client.clone(), &kind)
    }

    /// Makes an installation of version 1.0.0 in the namespace `target`, or changes it.
    pub async fn installation(&self, name: &str, more: Value) {
        let mut spec = json!({
            "namespace": { "name": self.own("target"), "create": true, "labels": { "env": "dev" } },
            "applicationRef": { "name": self.own("example"), "version": "1.0.0" },
        });
        merge(&mut spec, more);
        let object = json!({ "metadata": { "name": name }, "spec": spec });
        self.namespace().apply(&installations(), &object).await;
    }

    pub fn api(&self) -> Api<DynamicObject> {
        self.namespace().api(&installations())
    }

    pub async fn get(&self, name: &str) -> Option<DynamicObject> {
        self.api().get_opt(name).await.expect("an answer")
    }

    /// Begins a deletion.
    pub async fn delete(&self, name: &str) {
        let deleted = self.api().delete(name, &DeleteParams::default()).await;
        deleted.expect("deleted");
    }

    pub fn changes(&self, name: &str) -> Changes<DynamicObject> {
        Changes::named(self.api(), name)
    }

    /// Waits until the status is as wanted, and returns it.
    pub async fn until(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let is_wanted = |object: &DynamicObject| wanted(&object.data["status"]);
        self.changes(name).until(is_wanted).await.data["status"].clone()
    }

    /// Waits until `Ready` is true for the current spec and nothing runs.
    pub async fn until_ready(&self, name: &str) -> Value {
        let found = self.changes(name).until(is_ready).await;
        found.data["status"].clone()
    }

    /// Waits until a condition has this status and reason.
    pub async fn until_condition(&self, name: &str, kind: &str, wanted: (&str, &str)) -> Value {
        self.until(name, |status| condition(status, kind) == wanted)
            .await
    }

    /// Waits until the installation is gone.
    pub async fn until_gone(&self, name: &str) {
        super::until::until_async("the installation is gone", async || {
            self.get(name).await.is_none()
        })
        .await;
    }

    /// Waits until an object of this kind in the namespace has an Event with this reason.
    pub async fn until_event(&self, kind: &str, reason: &str) {
        let arguments = ["get", "events.events.k8s.io", "-o", "json"];
        super::until::until_async("there is an Event", async || {
            let listed = self.namespace().kubectl(&arguments, "").await;
            let listed: Value = serde_json::from_str(&listed).expect("JSON");
            let events = listed["items"].as_array().expect("a list");
            events
                .iter()
                .any(|event| event["regarding"]["kind"] == kind && event["reason"] == reason)
        })
        .await;
    }

    /// The name of an installation's release.
    pub fn release(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace().name)
    }

    /// The revisions of an installation's release.
    pub async fn history(&self, name: &str) -> Vec<Release> {
        let client = &self.namespace().client;
        let history = fetch_history(client, &self.target.0, &self.release(name)).await;
        history.expect("a history")
    }

    /// Data, labels and annotations of a ConfigMap of the target namespace.
    pub async fn config_map(&self, name: &str) -> Option<ConfigMap> {
        let client = self.namespace().client.clone();
        let api: Api<ConfigMap> = Api::namespaced(client, &self.target.0);
        api.get_opt(name).await.expect("an answer")
    }

    /// The data of the chart's ConfigMap.
    pub async fn data(&self) -> Option<BTreeMap<String, String>> {
        self.config_map("testcm").await?.data
    }

    /// Makes the namespace `target` as an administrator does, for installations of the namespaces
    /// in this list; empty: for none.
    pub async fn make_target(&self, installs_from: &str) {
        let target = &self.target.0;
        kubectl(&["create", "namespace", target], "").await;
        if !installs_from.is_empty() {
            let list = format!("ludgate.dev/installs-from={installs_from}");
            kubectl(&["annotate", "namespace", target, &list], "").await;
        }
    }

    pub async fn target_namespace(&self) -> Option<Namespace> {
        let api: Api<Namespace> = Api::all(self.namespace().client.clone());
        api.get_opt(&self.target.0).await.expect("an answer")
    }

    /// The commands of Helm so far, oldest first.
    pub fn commands(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        let lines = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let commands = lines.map(|line| {
            let call: Value = serde_json::from_str(line).expect("JSON");
            call["arguments"][0].as_str().unwrap_or_default().to_owned()
        });
        commands.filter(|command| command != "version").collect()
    }

    /// Ends the processes of Helm, as the loss of a node does: all that run in the folder of an
    /// operation. One that has just started has noted no call yet.
    pub fn kill_helm(&self) {
        let operations = self.folder.path().join("operations");
        for process in fs::read_dir("/proc").expect("a folder").flatten() {
            // A process that has ended has no folder.
            let Ok(folder) = fs::read_link(process.path().join("cwd")) else {
                continue;
            };
            let name = process.file_name();
            let number = name.to_str().and_then(|name| name.parse().ok());
            let pid = number.and_then(Pid::from_raw);
            if let (true, Some(pid)) = (folder.starts_with(&operations), pid) {
                // It may end by itself meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Drop for AppNamespace {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kubectl")
            .args(["delete", "namespace", &self.0, "--wait=false"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// A namespace and a configuration for a controller that does not run.
pub async fn prepare(folder: &tempfile::TempDir, more: &str) -> Prepared {
    let program = logged_program(folder.path()).await;
    let work = folder.path().join("operations");
    fs::create_dir(&work).expect("made");
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let client = kube::Client::try_default().await.expect("KUBECONFIG");
    let side = match server_side(&client).await {
        ServerSideApply::Client => "client",
        ServerSideApply::Auto | ServerSideApply::Server => "auto",
    };
    let table = format!(
        "helm = {:?}\npath = {:?}\nfolder = {:?}\ncluster_role = \"{}\"\n\
         cluster_name = \"NAMESPACE\"\nserver_side_apply = \"{side}\"\nplain_http = true\n\
         allowed_networks = [\"127.0.0.0/8\"]\n{more}",
        program.display().to_string(),
        std::env::var("PATH").expect("a PATH"),
        work.display().to_string(),
        role_of_apps(),
    );
    Prepared::for_controller(ControllerKind::Installations, &table).await
}

/// Status and reason of a condition; empty without it.
pub fn condition<'s>(status: &'s Value, kind: &str) -> (&'s str, &'s str) {
    let condition = &status["conditions"][kind];
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    (text("status"), text("reason"))
}

/// Whole seconds from the deletion of an object to its condition, by the times that the API server
/// and the controller wrote. A busy machine may show them to a test later.
pub fn time_to_condition(object: &DynamicObject, kind: &str) -> Duration {
    let deleted = object.metadata.deletion_timestamp.as_ref();
    let deleted = deleted.expect("a deletion").0;
    let time = object.data["status"]["conditions"][kind]["lastHeartbeatTime"].as_str();
    let time: Timestamp = time.and_then(|time| time.parse().ok()).expect("a time");
    let seconds = time.as_second() - deleted.as_second();
    Duration::from_secs(seconds.try_into().expect("a condition after the deletion"))
}

/// Whether `Ready` is true for the current spec, and nothing runs.
pub fn is_ready(object: &DynamicObject) -> bool {
    let ready = &object.data["status"]["conditions"]["Ready"];
    ready["status"] == "True"
        && ready["observedGeneration"].as_i64() == object.metadata.generation
        && object.data["status"]["operation"].is_null()
}

/// Sets these keys.
pub fn merge(spec: &mut Value, more: Value) {
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
}
