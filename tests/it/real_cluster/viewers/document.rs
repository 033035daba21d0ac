//! docs/viewers.md as a reader follows it who has installed the chart with
//! docs/apps-on-kubernetes.md: each of its commands runs, and the viewer is opened. The commands
//! in its sentences and tables run last.
//!
//! The test does four things differently. The image with File Browser's name is a stand-in:
//! cloudcmd, started with the variables of the default pod. The cluster makes no volumes, so the
//! test offers one. The cluster's kubectl is older than `x-kubernetes-validations`, so the server
//! alone validates the definitions. And Kubeflow's objects are made by the test: a Deployment
//! without a program, and webhooks that nothing answers.

use std::fs;

use serde_json::{Value, json};

use crate::{
    real_cluster::{
        document_reader::{
            DocumentReader, blocks, browser, ludgate_image, opened_by_alice, shipped,
            stand_in_deployment,
        },
        images::{load_cloudcmd_image, load_ludgate_image},
    },
    support::{
        bound_volume::BoundVolume,
        changes::POD_PATIENCE,
        kube_namespace::{KubeNamespace, kubectl, try_kubectl},
        message::PATIENCE,
        until::holds_within,
    },
};

/// The image of viewers without a podSpec, as containerd names it.
const FILE_BROWSER: &str = "docker.io/filebrowser/filebrowser:v2.32.0";
/// The command of docs/apps-on-kubernetes.md.
const FORWARD: &str = "kubectl port-forward deployment/hub-ludgate 8080:8080 8081:8081";
/// The label of the namespace whose viewers Kubeflow's webhooks check.
const CHECKED: &str = "ludgate.tests/kubeflow";

/// The commands in the sentences and tables of a document. The name of a command without an
/// object, such as `kubectl apply`, is none. The deletion of the claim ends the viewer, so it is
/// the last one.
fn commands_in_text(document: &str) -> Vec<String> {
    let text: String = document.split("\n```").step_by(2).collect();
    let spans = text.split('`').skip(1).step_by(2);
    let words = spans.map(|span| span.split_whitespace().collect::<Vec<_>>());
    let is_command = |words: &Vec<&str>| words.len() > 2 && ["kubectl", "helm"].contains(&words[0]);
    let commands = words.filter(is_command).map(|words| words.join(" "));
    let mut commands: Vec<String> = commands.collect();
    commands.sort_by_key(|command| command.starts_with("kubectl delete persistentvolumeclaim"));
    commands
}

/// The commands for the cluster's kubectl.
fn adapted(commands: &str) -> String {
    let definitions = "kubectl apply -f config/crd/";
    assert!(commands.contains(definitions), "{commands}");
    let unchecked = "kubectl apply --validate=false -f config/crd/";
    commands.replace(definitions, unchecked)
}

/// A webhook of Kubeflow for the viewers of one namespace. Its Service does not exist.
fn webhook(kind: &str, word: &str, namespace: &KubeNamespace) -> Value {
    let rule = json!({
        "apiGroups": ["kubeflow.org"], "apiVersions": ["v1alpha1"],
        "operations": ["CREATE", "UPDATE"], "resources": ["pvcviewers"],
    });
    let service = json!({ "namespace": "kubeflow", "name": "pvcviewer-webhook-service" });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": { "name": format!("pvcviewer-{word}-webhook-configuration") },
        "webhooks": [{
            "name": format!("{word}.pvcviewers.kubeflow.org"),
            "clientConfig": { "service": service },
            "namespaceSelector": { "matchLabels": { CHECKED: namespace.name } },
            "rules": [rule],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    })
}

/// What the document expects of Kubeflow. Its webhooks check only the viewers of this namespace.
async fn make_kubeflow(namespace: &KubeNamespace) {
    let label = format!("{CHECKED}={}", namespace.name);
    kubectl(&["label", "namespace", &namespace.name, &label], "").await;
    let labels = json!({ "control-plane": "pvcviewer-controller-manager" });
    let mut controller = stand_in_deployment("pvcviewer-controller-manager", &labels);
    controller["metadata"]["namespace"] = "kubeflow".into();
    for object in [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kubeflow" } }),
        controller,
        webhook("MutatingWebhookConfiguration", "mutating", namespace),
        webhook("ValidatingWebhookConfiguration", "validating", namespace),
    ] {
        kubectl(&["apply", "-f", "-"], &object.to_string()).await;
    }
}

/// Waits until the API server accepts, or refuses, a change of the viewer.
async fn until_changes_are(namespace: &KubeNamespace, accepted: bool) {
    let mut count = 0;
    let is_so = holds_within(PATIENCE, async || {
        count += 1;
        let annotation = format!("example.com/change={count}");
        let change = [
            "-n",
            &namespace.name,
            "annotate",
            "--overwrite",
            "pvcviewer/data",
            &annotation,
        ];
        try_kubectl(&change, "").await.is_ok() == accepted
    });
    assert!(is_so.await, "changes are accepted: {}", !accepted);
}

/// Makes the kind of the routes that the document deletes.
async fn make_kind_of_routes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/kube/routes.yaml");
    kubectl(&["apply", "--validate=false", "-f", path], "").await;
    let wait = ["wait", "--for=condition=established", "-f", path];
    kubectl(&wait, "").await;
}

/// Waits until the gateway before the upgrade is gone: `kubectl port-forward` prefers the pod that
/// is ready for longer.
async fn until_one_gateway(namespace: &KubeNamespace) {
    let label = "app.kubernetes.io/component=ludgate-gateway";
    let pods = ["get", "pods", "-l", label, "-o", "name"];
    let is_one = holds_within(POD_PATIENCE, async || {
        namespace.kubectl(&pods, "").await.lines().count() == 1
    });
    assert!(is_one.await, "the earlier gateway does not end");
}

#[test]
fn commands_in_sentences_and_tables_are_found() {
    let text = concat!(
        "Use `kubectl get\npods`.\n\n```sh\nkubectl get a b\n```\n\n",
        "| `kubectl apply` | `helm list -a` |\n",
    );
    assert_eq!(commands_in_text(text), ["kubectl get pods", "helm list -a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_document_show_a_volume_and_delete_it() {
    let installation = shipped("docs/apps-on-kubernetes.md");
    let document = shipped("docs/viewers.md");
    let [turn_on, open, idle, from_kubeflow] = blocks(&document, "sh")[..] else {
        panic!("the document has other blocks with commands");
    };
    let namespace = KubeNamespace::new().await;
    load_ludgate_image(&ludgate_image()).await;
    load_cloudcmd_image(FILE_BROWSER).await;
    let volume = BoundVolume::offer(&namespace, "data", "ReadWriteOnce").await;
    fs::write(volume.path().join("note.txt"), "found").expect("written");
    let reader = DocumentReader::new(&namespace).await;
    reader.run(blocks(&installation, "sh")[0]).await;

    reader.run(&adapted(turn_on)).await;
    let printed = reader.run(open).await;
    let path = format!("/pvcviewers/{}/data/", namespace.name);
    assert!(printed.ends_with(&format!("\n{path}\n")), "{printed}");
    until_one_gateway(&namespace).await;
    let ports = reader.forward_ports(FORWARD).await;
    let page = opened_by_alice(&path).await;
    assert!(page.contains("note.txt"), "{page}");
    let page = browser().sign_in(&path, "bob").await;
    assert_eq!(page.status(), 403, "bob is not in phusers");
    ports.stop().await;

    let printed = reader.run(idle).await;
    assert!(printed.contains("hub is upgraded"), "{printed}");

    make_kubeflow(&namespace).await;
    until_changes_are(&namespace, false).await;
    let printed = reader.run(&adapted(from_kubeflow)).await;
    assert!(printed.contains("/0 "), "{printed}");
    until_changes_are(&namespace, true).await;

    make_kind_of_routes().await;
    let mut printed = String::new();
    for command in commands_in_text(&document) {
        printed += &reader.run(&command).await;
    }
    for wanted in [path.as_str(), "\"data\" deleted"] {
        assert!(printed.contains(wanted), "no {wanted:?} in {printed}");
    }
    // The claim goes last.
    let left = ["get", "pvcviewers,persistentvolumeclaims", "-o", "name"];
    assert_eq!(namespace.kubectl(&left, "").await, "");

    reader.run("helm uninstall hub").await;
    kubectl(&["delete", "namespace", "kubeflow", "--wait=false"], "").await;
    volume.delete().await;
}
