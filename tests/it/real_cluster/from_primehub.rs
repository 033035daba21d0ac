//! docs/from-primehub.md: its commands take over an app, replace its pod, and roll back.

use std::path::Path;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
};
use ludgate::settings;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    document_reader::{blocks, stand_in_deployment},
    primehub::PrimeHubApp,
};
use crate::support::{
    controller::{Controlled, Prepared},
    kube_namespace::KubeNamespace,
    message::PATIENCE,
};

const DOCUMENT: &str = include_str!("../../../docs/from-primehub.md");
/// The sections with commands, in the order in which they are run.
const SECTIONS: [&str; 3] = ["Take over", "When a pod is replaced", "Roll back"];

/// The commands of a text. A backslash joins lines.
fn commands(text: &str) -> Vec<String> {
    let joined = blocks(text, "sh").join("\n").replace("\\\n", " ");
    let lines = joined.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

fn section(title: &str) -> &'static str {
    let heading = format!("\n## {title}\n");
    let (_, rest) = DOCUMENT.split_once(&heading).expect("a section");
    rest.split("\n## ").next().expect("its text")
}

/// Runs a command of the document in this namespace, and returns what it printed.
async fn run(namespace: &KubeNamespace, command: &str) -> String {
    let command = command.replace("-n hub", &format!("-n {}", namespace.name));
    let output = Command::new("sh")
        .args(["-c", &command])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .await
        .expect("a shell");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What the document expects of PrimeHub: its controller, here without a program, and its
/// configuration.
async fn make_primehub(namespace: &KubeNamespace) {
    let labels = json!({
        "app.kubernetes.io/name": "primehub-controller",
        "app.kubernetes.io/instance": "primehub",
    });
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "primehub-controller-config" },
        "data": { "config.yaml": "primehubUrl: https://hub.example.com\n" },
    });
    let controller = stand_in_deployment("primehub-controller", &labels);
    for object in [config, controller] {
        let create = ["create", "-f", "-"];
        namespace.kubectl(&create, &object.to_string()).await;
    }
}

/// The pods of the app that do not end.
async fn pods(namespace: &KubeNamespace) -> Vec<String> {
    let api: Api<Pod> = Api::namespaced(namespace.client.clone(), &namespace.name);
    let label = ListParams::default().labels("app=primehub-app");
    let pods = api.list(&label).await.expect("pods");
    let lasting = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    lasting.filter_map(|pod| pod.uid()).collect()
}

async fn deployment(namespace: &KubeNamespace, name: &str) -> Value {
    let api: Api<Deployment> = Api::namespaced(namespace.client.clone(), &namespace.name);
    json!(api.get(name).await.expect("a Deployment"))
}

/// How many of Ludgate's annotations the app's Deployment has.
async fn own_annotations(namespace: &KubeNamespace) -> usize {
    let deployment = deployment(namespace, "app-mlflow").await;
    let annotations = &deployment["metadata"]["annotations"];
    let own = ["ludgate/desired-hash", "phapplication.primehub.io/inputs"];
    let found = own.iter().filter(|name| annotations[**name].is_string());
    found.count()
}

#[test]
fn all_commands_are_in_sections_that_are_run() {
    let all = commands(DOCUMENT).len();
    let run = SECTIONS.map(|title| commands(section(title)).len());
    assert_eq!(run.iter().sum::<usize>(), all, "{run:?}");
    assert!(run.iter().all(|count| *count > 0), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_document_take_over_replace_a_pod_and_roll_back() {
    let [take_over, replace, roll_back] = SECTIONS.map(section);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ludgate.toml");
    std::fs::write(&file, blocks(take_over, "toml").join("\n")).expect("written");
    settings::load_controller(&file).expect("the configuration is valid");

    let prepared = Prepared::new().await;
    let app = PrimeHubApp {
        namespace: &prepared.namespace,
        name: "mlflow",
    };
    make_primehub(&prepared.namespace).await;
    let variables = json!([{ "name": "GREETING", "value": "one" }]);
    app.start(&variables, &variables).await;
    let before = pods(&prepared.namespace).await;
    assert_eq!(before.len(), 1);

    let commands_of_take_over = commands(take_over);
    let mut parts = commands_of_take_over.split(|it| it.starts_with("ludgate controller"));
    let mut next_part = || parts.next().expect("commands before and after the start");
    for command in next_part() {
        run(&prepared.namespace, command).await;
    }
    // The shipped RoleBinding names another namespace.
    prepared.namespace.grant("controller.yaml").await;
    let controlled = prepared.start().await;
    controlled.until_current("mlflow", "Ready").await;
    let namespace = &controlled.namespace;
    let mut printed = String::new();
    for command in next_part() {
        printed += &run(namespace, command).await;
    }
    assert!(printed.contains("Deployment is ready"), "{printed}");
    assert_eq!(pods(namespace).await, before, "the same pod");

    let mut printed = String::new();
    for command in commands(replace) {
        printed += &run(namespace, &command).await;
    }
    assert!(printed.contains("<none>"), "{printed}");
    let after = pods(namespace).await;
    assert!(after.len() == 1 && after != before, "{after:?}");
    // The hash is written last, when the fields of PrimeHub's controller are gone.
    let has_hash = |it: &DynamicObject| it.annotations().contains_key("ludgate/desired-hash");
    controlled
        .until_object::<Deployment>("app-mlflow", has_hash)
        .await;
    assert_eq!(own_annotations(namespace).await, 2);

    let Controlled {
        namespace, running, ..
    } = controlled;
    running.process.drain.stop(PATIENCE).await;
    for command in commands(roll_back) {
        run(&namespace, &command).await;
    }
    assert_eq!(own_annotations(&namespace).await, 0);
    let controller = deployment(&namespace, "primehub-controller").await;
    assert_eq!(controller["spec"]["replicas"], 1);
    assert_eq!(pods(&namespace).await, after);
}
