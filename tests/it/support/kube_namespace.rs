//! A namespace of a real Kubernetes API, with the shipped rights of a gateway in it.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering},
};

use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, process::Command};

pub struct KubeNamespace {
    pub name: String,
    pub client: Client,
    folder: tempfile::TempDir,
}

impl KubeNamespace {
    /// A namespace in the cluster that KUBECONFIG names.
    pub async fn new() -> KubeNamespace {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let started = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970");
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{}-{}-{count}", std::process::id(), started.as_millis());
        let config = kube::Config::infer()
            .await
            .expect("KUBECONFIG: run these tests with make test-kube or make test-cluster");
        let client = Client::try_from(config).expect("a client");
        kubectl(&["create", "namespace", &name], "").await;
        let namespace = KubeNamespace {
            name,
            client,
            folder: tempfile::tempdir().expect("a folder"),
        };
        namespace.grant("gateway.yaml").await;
        namespace.kubeconfig_of("ludgate").await;
        namespace
    }

    /// Grants what a shipped file grants.
    pub async fn grant(&self, file: &str) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("config/rbac")
            .join(file);
        let rights = std::fs::read_to_string(path).expect("the shipped rights");
        let adapted = rights.replace("namespace: hub", &format!("namespace: {}", self.name));
        // Objects of the whole cluster have names of their own in each test.
        let cluster_wide = |document: &str| match document.contains("kind: ClusterRole\n")
            || document.contains("kind: ClusterRoleBinding\n")
        {
            true => document.replace("\n  name: ", &format!("\n  name: {}-", self.name)),
            false => document.to_owned(),
        };
        let documents: Vec<String> = adapted.split("\n---\n").map(cluster_wide).collect();
        let adapted = documents.join("\n---\n");
        let role = format!("resourceNames: [{}]", role_of_apps());
        let adapted = adapted.replace("resourceNames: [admin]", &role);
        self.kubectl(&["apply", "-f", "-"], &adapted).await;
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
        self.kubeconfig_file("ludgate")
    }

    /// The path of an account's kubeconfig, once it is written.
    pub fn kubeconfig_file(&self, account: &str) -> PathBuf {
        self.folder.path().join(account)
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

    pub async fn delete(&self, name: &str) {
        self.api(&phapplications())
            .delete(name, &Default::default())
            .await
            .expect("deleted");
    }

    /// Applies an object of this kind.
    pub async fn apply(&self, kind: &ApiResource, object: &Value) {
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

    pub fn api(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.name, kind)
    }

    /// Writes a kubeconfig with the token of a ServiceAccount; its rights are all that it has.
    pub async fn kubeconfig_of(&self, account: &str) -> PathBuf {
        let path = format!(
            "/api/v1/namespaces/{}/serviceaccounts/{account}/token",
            self.name
        );
        let request =
            json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
        let answer = kubectl(&["create", "--raw", &path, "-f", "-"], &request.to_string()).await;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let admin = kubectl(&["config", "view", "--raw", "--minify", "-o", "json"], "").await;
        let mut config: Value = serde_json::from_str(&admin).expect("JSON");
        config["users"][0]["user"] = json!({ "token": answer["status"]["token"] });
        let file = self.kubeconfig_file(account);
        std::fs::write(&file, config.to_string()).expect("written");
        file
    }
}

impl Drop for KubeNamespace {
    fn drop(&mut self) {
        let name = &self.name;
        let _ = std::process::Command::new("kubectl")
            .args(["delete", "namespace", name, "--wait=false"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// The ClusterRole of the accounts with which Helm installs apps. Without a controller of
/// aggregation, which only a whole cluster has, the role `admin` has no rights.
pub fn role_of_apps() -> &'static str {
    match std::env::var_os("LUDGATE_CONTAINERDS") {
        Some(_) => "admin",
        None => "cluster-admin",
    }
}

/// A kind of this program's types.
pub fn kind_of<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

pub fn phapplications() -> ApiResource {
    kind_of::<ludgate::cluster::crd::application::PhApplication>()
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

/// Runs kubectl as an admin and returns its output.
pub async fn kubectl(arguments: &[&str], input: &str) -> String {
    let output = try_kubectl(arguments, input).await;
    output.unwrap_or_else(|said| panic!("kubectl {arguments:?}: {said}"))
}

/// The same; if it fails, what it said.
pub async fn try_kubectl(arguments: &[&str], input: &str) -> Result<String, String> {
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
    let printed = match output.status.success() {
        true => Ok(output.stdout),
        false => Err(output.stderr),
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    printed.map(text).map_err(text)
}
