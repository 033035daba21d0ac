//! A namespace of the real API server with the shipped rights in it, and a gateway that has nothing
//! else.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering},
};

use ludgate::{cluster::endpoint_slices, model::app::AppState};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, process::Command};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};

use super::pods::Pods;
use crate::support::{backend::Backend, world::World};

/// The app that is written last before a gateway starts.
const LAST: &str = "written-last";

pub struct Namespace {
    pub name: String,
    pub pods: Pods,
    client: Client,
    slices: ApiResource,
    folder: tempfile::TempDir,
}

impl Namespace {
    /// A namespace in the cluster that KUBECONFIG names.
    pub async fn new() -> Namespace {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let started = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970");
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{}-{}-{count}", std::process::id(), started.as_millis());
        let config = kube::Config::infer()
            .await
            .expect("KUBECONFIG: run these tests with make test-kube");
        let client = Client::try_from(config).expect("a client");
        let slices = endpoint_slices::served_version(&client)
            .await
            .expect("EndpointSlices");
        kubectl(&["create", "namespace", &name], "").await;
        let namespace = Namespace {
            name,
            pods: Pods::new(),
            client,
            slices,
            folder: tempfile::tempdir().expect("a folder"),
        };
        namespace.grant("gateway.yaml").await;
        namespace.write_kubeconfig().await;
        namespace
    }

    /// Grants what a shipped file grants.
    pub async fn grant(&self, file: &str) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("config/rbac")
            .join(file);
        let rights = std::fs::read_to_string(path).expect("the shipped rights");
        let adapted = rights.replace("namespace: hub", &format!("namespace: {}", self.name));
        self.kubectl(&["apply", "-f", "-"], &adapted).await;
    }

    /// A gateway whose catalogue is this namespace, and that has listed it once.
    pub async fn world(&self) -> World {
        self.world_with("").await
    }

    /// With more keys of the table.
    pub async fn world_with(&self, more: &str) -> World {
        // The first list may be a moment old. Changes come in their order: who knows of these knows
        // of all before.
        self.app(LAST, "public", json!({})).await;
        self.endpoints(LAST, &[SocketAddr::new(self.pods.unused_address(), 1)])
            .await;
        let world = World::with(&format!("{}{more}\n", self.toml()), |_| {})
            .await
            .ready()
            .await;
        world
            .until(|snapshot| {
                snapshot
                    .find(LAST)
                    .is_some_and(|app| app.spec.state == AppState::Running)
            })
            .await;
        world
    }

    /// The lines that make this namespace a catalogue.
    pub fn toml(&self) -> String {
        format!(
            "[kubernetes]\nnamespace = \"{}\"\nkubeconfig = \"{}\"\n",
            self.name,
            self.kubeconfig().display()
        )
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Runs kubectl in this namespace, as an admin.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        kubectl(&[&["-n", &self.name], arguments].concat(), input).await
    }

    /// Makes an app, or changes it; `more` is merged into its spec.
    pub async fn app(&self, name: &str, scope: &str, more: Value) {
        self.apply(&phapplications(), &application(name, scope, more))
            .await;
    }

    /// Says what the controller would say.
    pub async fn status(&self, name: &str, status: Value) {
        let api = self.api(&phapplications());
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .expect("a status");
    }

    /// Says which pods of an app are ready, as the endpoint controller would.
    pub async fn endpoints(&self, app: &str, pods: &[SocketAddr]) {
        let port = pods.first().map_or(1, SocketAddr::port);
        let endpoints: Vec<Value> = pods
            .iter()
            .map(|pod| json!({ "addresses": [pod.ip().to_string()], "conditions": { "ready": true } }))
            .collect();
        let slice = json!({
            "metadata": { "name": format!("app-{app}-1"), "labels": { "kubernetes.io/service-name": format!("app-{app}") } },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{ "name": "http", "port": port, "protocol": "TCP" }],
        });
        self.apply(&self.slices, &slice).await;
    }

    /// A recording app in a pod of its own, which is ready.
    pub async fn running(&self, name: &'static str, pod: u8) -> Backend {
        let backend = Backend::on(name, self.pods.listen(pod, 0));
        self.endpoints(name, &[backend.address()]).await;
        backend
    }

    pub async fn delete(&self, name: &str) {
        self.api(&phapplications())
            .delete(name, &Default::default())
            .await
            .expect("deleted");
    }

    async fn apply(&self, kind: &ApiResource, object: &Value) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let mut whole = object.clone();
        whole["apiVersion"] = kind.api_version.clone().into();
        whole["kind"] = kind.kind.clone().into();
        let parameters = PatchParams::apply("ludgate-tests").force();
        self.api(kind)
            .patch(name, &parameters, &Patch::Apply(&whole))
            .await
            .expect("applied");
    }

    fn api(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.name, kind)
    }

    /// With the token of the gateway's own ServiceAccount.
    async fn write_kubeconfig(&self) {
        let path = format!(
            "/api/v1/namespaces/{}/serviceaccounts/ludgate/token",
            self.name
        );
        let request =
            json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
        let answer = kubectl(&["create", "--raw", &path, "-f", "-"], &request.to_string()).await;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let admin = kubectl(&["config", "view", "--raw", "--minify", "-o", "json"], "").await;
        let mut config: Value = serde_json::from_str(&admin).expect("JSON");
        config["users"][0]["user"] = json!({ "token": answer["status"]["token"] });
        std::fs::write(self.kubeconfig(), config.to_string()).expect("written");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let name = &self.name;
        let _ = std::process::Command::new("kubectl")
            .args(["delete", "namespace", name, "--wait=false"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

pub fn phapplications() -> ApiResource {
    ApiResource::erase::<ludgate::cluster::crd::application::PhApplication>(&())
}

/// An app as its author writes it; its Service has a port 5000 of the name `http`.
pub fn application(name: &str, scope: &str, more: Value) -> Value {
    let mut spec = json!({
        "displayName": name,
        "groupName": "phusers",
        "instanceType": "cpu-1",
        "scope": scope,
        "httpPort": 5000,
        "podTemplate": { "spec": { "containers": [{ "name": "app", "image": "app:1" }] } },
        "svcTemplate": { "spec": { "ports": [{ "name": "http", "port": 5000 }] } },
    });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    json!({ "apiVersion": "primehub.io/v1alpha1", "kind": "PhApplication", "metadata": { "name": name }, "spec": spec })
}

/// Runs kubectl as an admin and gives back what it printed.
pub async fn kubectl(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("kubectl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl");
    let mut stdin = child.stdin.take().expect("an input");
    stdin.write_all(input.as_bytes()).await.expect("written");
    drop(stdin);
    let output = child.wait_with_output().await.expect("kubectl ran");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
