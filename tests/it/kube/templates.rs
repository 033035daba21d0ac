//! The shipped templates of apps, in a real API server.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::support::{api::Api, controller::Controlled, kube_namespace::KubeNamespace};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config/templates")
}

/// The templates as in their files.
fn shipped() -> Vec<Value> {
    let files = std::fs::read_dir(folder()).expect("the folder");
    let texts =
        files.map(|file| std::fs::read_to_string(file.expect("an entry").path()).expect("a text"));
    texts
        .map(|text| serde_saphyr::from_str(&text).expect("YAML"))
        .collect()
}

async fn apply_shipped(namespace: &KubeNamespace) {
    let folder = folder();
    let folder = folder.to_str().expect("text");
    namespace.kubectl(&["apply", "-f", folder], "").await;
}

/// `kubectl get` must return what the files have: a definition that drops a field would lose it
/// without a word.
#[tokio::test]
async fn the_shipped_templates_are_stored_as_they_are() {
    let namespace = KubeNamespace::new().await;
    apply_shipped(&namespace).await;
    let stored = namespace
        .kubectl(&["get", "phapptemplates", "-o", "json"], "")
        .await;
    let stored: Value = serde_json::from_str(&stored).expect("JSON");
    let stored = stored["items"].as_array().expect("a list");
    let shipped = shipped();
    for written in &shipped {
        let name = &written["metadata"]["name"];
        let found = stored.iter().find(|it| it["metadata"]["name"] == *name);
        assert_eq!(found.expect("stored")["spec"], written["spec"], "{name}");
    }
    assert_eq!(stored.len(), shipped.len());
}

/// A group with a volume, and one without.
const GROUPS: [&str; 2] = ["phusers", "friends"];
const PLATFORM: &str = "folder_image = \"ludgate:1\"\n[groups.phusers]\nvolume = \"project-phusers\"\n[groups.friends]\n\
     [instance_types.cpu-1]\ncpu = 0.5\nmemory = \"512MiB\"\n";
const CREATE: &str =
    "mutation Create($data: PhApplicationCreateInput!) { createPhApplication(data: $data) { id } }";

/// The input with which a console makes an app of a template, with all defaults.
fn with_defaults(template: &Value, id: &str, group: &str) -> Value {
    let defaults = template["spec"]["defaultEnvs"]
        .as_array()
        .into_iter()
        .flatten();
    let env = defaults.map(|it| json!({ "name": it["name"], "value": it["defaultValue"] }));
    json!({ "data": {
        "templateId": template["metadata"]["name"],
        "id": id,
        "displayName": template["spec"]["name"],
        "groupName": group,
        "instanceType": "cpu-1",
        "scope": "group",
        "env": env.collect::<Vec<_>>(),
    } })
}

/// Made by the API and the controller. Nothing runs here, so the apps stay as they start.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_accepts_every_object_of_an_app_of_each_shipped_template() {
    let controlled = Controlled::with(PLATFORM).await;
    let namespace = &controlled.namespace;
    apply_shipped(namespace).await;
    let api = Api::start(namespace).await;
    let mut wanted = BTreeSet::new();
    for template in shipped() {
        let name = template["metadata"]["name"].as_str().expect("a name");
        for group in GROUPS {
            let id = format!("{}-{group}", name.replace('.', "-"));
            let input = with_defaults(&template, &id, group);
            api.data("alice", CREATE, input).await;
            let is_seen = |status: &Value| !status["phase"].is_null();
            let status = controlled.until(&id, is_seen).await;
            assert_eq!(
                (&status["phase"], &status["message"]),
                (&json!("Starting"), &json!("Deployment is starting")),
                "{id}"
            );
            wanted.extend([
                format!("deployment.apps/app-{id}"),
                format!("networkpolicy.networking.k8s.io/app-{id}-group"),
                format!("networkpolicy.networking.k8s.io/app-{id}-proxy"),
                format!("service/app-{id}"),
            ]);
        }
    }
    assert_eq!(wanted.len(), 11 * GROUPS.len() * 4);
    let all = ["get", "deployments,networkpolicies,services", "-o", "name"];
    let made = namespace.kubectl(&all, "").await;
    let made: BTreeSet<String> = made.lines().map(str::to_owned).collect();
    assert_eq!(made, wanted);
}
