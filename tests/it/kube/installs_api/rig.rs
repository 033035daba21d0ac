//! An API with its rights, and people with theirs.

use std::{path::PathBuf, process::Stdio};

use kube::{Api as KubeApi, api::DynamicObject};
use ludgate::cluster::crd::{
    definition::ApplicationDefinition, installation::ApplicationInstallation,
};
use serde_json::{Value, json};

use crate::support::{
    api::{Api, PLATFORM},
    kube_namespace::{KubeNamespace, kind_of, kubectl},
    message::{Message, PATIENCE},
    until::holds_within,
};

/// Everything on installations.
pub(super) const EDITOR: &str = "*";
/// Reads of installations.
pub(super) const VIEWER: &str = "get,list,watch";
/// The path of all definitions.
pub(super) const DEFINITIONS: &str = "/api/v2/applicationdefinitions";

/// An API, and a namespace for its people.
pub(super) struct Rig {
    pub(super) namespace: KubeNamespace,
    pub(super) api: Api,
    /// What is left beside the namespace: kind and name.
    leftovers: Vec<(&'static str, String)>,
}

impl Rig {
    pub(super) async fn new() -> Rig {
        Rig::with("installations = true\n", "https://hub.example.com").await
    }

    /// With these keys of `[api]`. A site on loopback is served at its own address.
    pub(super) async fn with(keys: &str, site: &str) -> Rig {
        let namespace = KubeNamespace::new().await;
        namespace.grant("api.yaml").await;
        let rights = cluster_rights(&namespace).await;
        let kubeconfig = namespace.kubeconfig_of("ludgate-api").await;
        let platform = format!("{keys}{PLATFORM}");
        let api = Api::with(&namespace.name, &kubeconfig, site, &platform).await;
        let leftovers = vec![
            ("clusterrole", rights.clone()),
            ("clusterrolebinding", rights),
        ];
        Rig {
            namespace,
            api,
            leftovers,
        }
    }

    /// The name of an object without a namespace, which other tests do not have.
    pub(super) fn unique(&self, name: &str) -> String {
        format!("{name}-{}", self.namespace.name)
    }

    /// Makes a definition, as an administrator, and returns its name.
    pub(super) async fn define(&mut self, name: &str, more: Value) -> String {
        let name = self.unique(name);
        let mut body = definition_body(&name);
        if let (Value::Object(spec), Value::Object(more)) = (&mut body["Spec"], more) {
            spec.extend(more);
        }
        self.leftovers.push(("applicationdefinition", name.clone()));
        let (status, answer) = self.call("carol", "POST", DEFINITIONS, body).await;
        assert_eq!(status, 201, "{answer}");
        name
    }

    /// Marks an object without a namespace for deletion at the end.
    pub(super) fn leaves(&mut self, kind: &'static str, name: &str) {
        self.leftovers.push((kind, name.to_owned()));
    }

    /// Makes a namespace.
    pub(super) async fn other_namespace(&mut self, name: &str) -> String {
        let name = self.unique(name);
        kubectl(&["create", "namespace", &name], "").await;
        self.leftovers.push(("namespace", name.clone()));
        name
    }

    /// Gives a person rights on the installations of a namespace, and waits until they have them.
    pub(super) async fn allow(&self, person: &str, verbs: &str, namespace: &str) {
        let role = format!("{person}-role");
        for arguments in [
            vec![
                "create".to_owned(),
                "role".to_owned(),
                role.clone(),
                format!("--verb={verbs}"),
                "--resource=applicationinstallations.apps.kubermatic.k8c.io".to_owned(),
            ],
            vec![
                "create".to_owned(),
                "rolebinding".to_owned(),
                person.to_owned(),
                format!("--role={role}"),
                format!("--user={person}"),
            ],
        ] {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            kubectl(&[&["-n", namespace], arguments.as_slice()].concat(), "").await;
        }
        let path = format!("{}?namespace={namespace}", installations());
        let is_allowed = holds_within(PATIENCE, async || {
            self.call(person, "GET", &path, Value::Null).await.0 == 200
        });
        assert!(is_allowed.await, "{person} has no rights in {namespace}");
    }

    /// Calls as a person, and returns status and body.
    pub(super) async fn call(
        &self,
        person: &str,
        method: &str,
        path: &str,
        body: Value,
    ) -> (u16, Value) {
        let body = match body.is_null() {
            true => String::new(),
            false => body.to_string(),
        };
        let answer = self.send(person, method, path, &body).await;
        (answer.status(), answer.json())
    }

    /// Sends a body as it is.
    pub(super) async fn send(&self, person: &str, method: &str, path: &str, body: &str) -> Message {
        let token = self.api.provider.access_token(person);
        let more = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        self.api
            .send(&format!("{method} {path}"), &more, body)
            .await
    }

    /// Calls as a person; the code and the message of the error.
    pub(super) async fn error(
        &self,
        person: &str,
        method: &str,
        path: &str,
        body: Value,
    ) -> (u16, String) {
        let (status, answer) = self.call(person, method, path, body).await;
        assert_eq!(answer["error"]["code"], status, "{answer}");
        let message = answer["error"]["message"].as_str().expect("a message");
        (status, message.to_owned())
    }

    /// Installs an application, as a person.
    pub(super) async fn install(&self, person: &str, app: &str, namespace: &str, name: &str) {
        let body = installation_body(app, namespace, name);
        let (status, answer) = self.call(person, "POST", &installations(), body).await;
        assert_eq!(status, 201, "{answer}");
    }

    /// An installation, as it is stored.
    pub(super) async fn stored(&self, namespace: &str, name: &str) -> Option<DynamicObject> {
        let kind = kind_of::<ApplicationInstallation>();
        let api: KubeApi<DynamicObject> =
            KubeApi::namespaced_with(self.namespace.client.clone(), namespace, &kind);
        api.get_opt(name).await.expect("an answer")
    }

    /// A definition, as it is stored.
    pub(super) async fn stored_definition(&self, name: &str) -> Option<DynamicObject> {
        let kind = kind_of::<ApplicationDefinition>();
        let api: KubeApi<DynamicObject> = KubeApi::all_with(self.namespace.client.clone(), &kind);
        api.get_opt(name).await.expect("an answer")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for (kind, name) in &self.leftovers {
            let _ = std::process::Command::new("kubectl")
                .args(["delete", kind, name, "--wait=false", "--ignore-not-found"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Grants the rights in all namespaces, under a name that other tests do not have. Returns it.
pub(super) async fn cluster_rights(namespace: &KubeNamespace) -> String {
    let file = "config/rbac/api-installations.yaml";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    let rights = std::fs::read_to_string(path).expect("the shipped rights");
    let name = format!("installs-api-{}", namespace.name);
    let own = rights
        .replace("namespace: hub", &format!("namespace: {}", namespace.name))
        .replace("ludgate-api-installations", &name);
    namespace.kubectl(&["apply", "-f", "-"], &own).await;
    name
}

/// The path of the installations of this cluster.
pub(super) fn installations() -> String {
    "/api/v2/clusters/self/applicationinstallations".to_owned()
}

/// The path of one of them.
pub(super) fn installation(namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", installations())
}

/// A version with a source that is valid.
pub(super) fn version(version: &str) -> Value {
    let helm = json!({
        "url": "https://charts.example", "chartName": "example", "chartVersion": version,
    });
    json!({ "version": version, "template": { "source": { "helm": helm } } })
}

/// The body of a new definition.
pub(super) fn definition_body(name: &str) -> Value {
    json!({
        "name": name,
        "labels": { "team": "a" },
        "Spec": {
            "description": "An example", "displayName": "Example", "method": "helm",
            "versions": [version("1.0.0"), version("2.0.0")],
        },
    })
}

/// The body of a new installation.
pub(super) fn installation_body(app: &str, namespace: &str, name: &str) -> Value {
    json!({
        "name": name,
        "namespace": namespace,
        "labels": { "env": "dev" },
        "spec": {
            "namespace": { "name": "target", "create": true },
            "applicationRef": { "name": app, "version": "1.0.0" },
            "valuesBlock": "# a comment\na: 1\n",
        },
    })
}
