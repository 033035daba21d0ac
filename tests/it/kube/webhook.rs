//! The admission webhook with the shipped objects and rights: the API server refuses an invalid
//! object with the message that its status would have.

use kube::api::ApiResource;
use ludgate::cluster::crd::viewer::PVCViewer;
use serde_json::{Value, json};

use crate::support::{
    controller::Prepared,
    installs::Installs,
    kube_namespace::{KubeNamespace, application, kubectl, phapplications, try_kubectl},
    until::{until, until_async},
};

/// An address that no other test has: the API server calls it on this machine. Tests of one process
/// have different numbers.
fn address(test: u8) -> String {
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{high}.{low}", 80 + test)
}

/// A shipped file, with names of its own, and an address in place of the Service.
fn adapted(file: &str, namespace: &str, host: &str) -> String {
    let path = format!("{}/config/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a shipped file");
    text.replace("namespace: hub", &format!("namespace: {namespace}"))
        .replace("name: ludgate\n", &format!("name: {namespace}\n"))
        .replace(
            "resourceNames: [ludgate]",
            &format!("resourceNames: [{namespace}]"),
        )
        .replace(
            "name: ludgate-controller-webhook\n",
            &format!("name: webhook-{namespace}\n"),
        )
        .replace(
            &format!("service: {{ name: ludgate-webhook, namespace: {namespace}, path: "),
            &format!("url: \"https://{host}:8443"),
        )
        .replace("/validate }", "/validate\"")
        .replace("/default }", "/default\"")
}

/// Deletes the objects that belong to no namespace.
struct ClusterWide(String);

impl Drop for ClusterWide {
    fn drop(&mut self) {
        for (kind, name) in [
            ("validatingwebhookconfiguration", self.0.clone()),
            ("mutatingwebhookconfiguration", self.0.clone()),
            ("clusterrole", format!("webhook-{}", self.0)),
            ("clusterrolebinding", format!("webhook-{}", self.0)),
        ] {
            let _ = std::process::Command::new("kubectl")
                .args(["delete", kind, &name])
                .output();
        }
    }
}

/// The table of a webhook at this address. `NAMESPACE` stands for the name of the namespace.
fn webhook_table(host: &str) -> String {
    format!(
        "[controller.webhook]\naddress = \"{host}:8443\"\nnames = [\"{host}\"]\n\
         configuration = \"NAMESPACE\"\n"
    )
}

/// Writes the configuration of a controller with a webhook. `more` is more TOML.
async fn prepared(host: &str, more: &str) -> Prepared {
    let platform = "[groups.phusers]\n[instance_types.cpu-1]\ncpu = 1\nmemory = \"1GiB\"\n";
    let webhook = webhook_table(host);
    Prepared::with(&format!("{platform}{more}{webhook}")).await
}

/// Makes the objects of the webhook, with the rights to write them.
async fn install(namespace: &KubeNamespace, host: &str) {
    for file in ["rbac/webhook.yaml", "webhook.yaml"] {
        let objects = adapted(file, &namespace.name, host);
        namespace.kubectl(&["apply", "-f", "-"], &objects).await;
    }
}

/// What the API server says to `kubectl apply` of an app.
async fn applied(namespace: &KubeNamespace, app: &str, more: Value) -> Result<String, String> {
    applied_object(namespace, application(app, "public", more)).await
}

/// What the API server says to `kubectl apply` of a viewer.
async fn applied_viewer(namespace: &KubeNamespace, spec: Value) -> Result<String, String> {
    let object = json!({
        "apiVersion": "kubeflow.org/v1alpha1", "kind": "PVCViewer",
        "metadata": { "name": "v" }, "spec": spec,
    });
    applied_object(namespace, object).await
}

async fn applied_object(namespace: &KubeNamespace, object: Value) -> Result<String, String> {
    let object = object.to_string();
    let arguments = [
        "-n",
        &namespace.name,
        "apply",
        "--dry-run=server",
        "-f",
        "-",
    ];
    try_kubectl(&arguments, &object).await
}

fn host_network() -> Value {
    json!({ "podTemplate": { "spec": {
        "hostNetwork": true, "containers": [{ "name": "app", "image": "app:1" }],
    } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_app_is_refused_with_the_message_of_its_status() {
    let host = address(0);
    let prepared = prepared(&host, "").await;
    let name = prepared.namespace.name.clone();
    let _wide = ClusterWide(name.clone());
    // Stored before the webhook is there.
    prepared
        .namespace
        .app("old", "public", host_network())
        .await;
    install(&prepared.namespace, &host).await;
    let controlled = prepared.start().await;
    let namespace = &controlled.namespace;
    let message = controlled.until_phase("old", "Error").await;
    assert_eq!(message, "podTemplate: not allowed: hostNetwork");
    let ready = &controlled.running.process.ready;
    until("it has a certificate", || ready.waiting_for().is_empty()).await;

    until_async("the API server calls the webhook", async || {
        applied(namespace, "new", host_network()).await.is_err()
    })
    .await;
    let refusal = applied(namespace, "new", host_network()).await;
    let refusal = refusal.expect_err("refused");
    let wanted =
        format!("admission webhook \"validate.ludgate.primehub.io\" denied the request: {message}");
    assert!(refusal.contains(&wanted), "{refusal}");
    applied(namespace, "new", json!({}))
        .await
        .expect("a valid app");

    // The old one can be labelled, and stopped.
    namespace
        .kubectl(&["label", "phapplication", "old", "a=b"], "")
        .await;
    let stop = r#"{"spec":{"stop":true}}"#;
    let patch = ["patch", "phapplication", "old", "--type=merge", "-p", stop];
    namespace.kubectl(&patch, "").await;
    controlled.until_phase("old", "Stopped").await;

    namespace.app("lab", "public", json!({})).await;
    let lab = namespace
        .api(&phapplications())
        .get("lab")
        .await
        .expect("the app");
    assert_eq!(
        lab.data["spec"]["svcTemplate"]["spec"]["ports"],
        json!([{ "name": "http", "port": 5000, "protocol": "TCP", "targetPort": 5000 }])
    );

    // Another replica finds the certificate due. Both are trusted then.
    let record = r#"ludgate/webhook-certificate={"names":[],"expires":"2020-01-01T00:00:00Z","authorityExpires":"2020-01-01T00:00:00Z"}"#;
    namespace
        .kubectl(
            &[
                "annotate",
                "--overwrite",
                "secret",
                "ludgate-webhook",
                record,
            ],
            "",
        )
        .await;
    let bundle = || bundle(&name);
    let before = bundle().await;
    let other = ludgate::settings::load_controller(&controlled.config()).map(|mut settings| {
        if let Some(webhook) = &mut settings.webhook {
            webhook.address.set_port(0);
        }
        settings
    });
    let other =
        ludgate::run::controllers::start_controllers(other.expect("valid"), "b".into()).await;
    let other = other.expect("started");
    until("it has a certificate", || {
        other.process.ready.waiting_for().is_empty()
    })
    .await;
    let after = bundle().await;
    assert!(
        after != before && after.ends_with(&before),
        "the old authority is still trusted"
    );
    let refusal = applied(namespace, "new", host_network()).await;
    assert!(refusal.expect_err("refused").contains(&wanted));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_viewer_is_refused_with_the_message_of_its_condition() {
    let host = address(1);
    let prepared = prepared(&host, "[controller.viewers]\n").await;
    prepared.namespace.grant("viewers.yaml").await;
    let _wide = ClusterWide(prepared.namespace.name.clone());
    install(&prepared.namespace, &host).await;
    let controlled = prepared.start().await;
    let namespace = &controlled.namespace;
    let ready = &controlled.running.process.ready;
    until("it has a certificate", || ready.waiting_for().is_empty()).await;
    let volume =
        |claim: &str| json!({ "name": "v", "persistentVolumeClaim": { "claimName": claim } });
    let with_pod = |claim: &str, host_pid: bool| {
        let containers = json!([{ "name": "main", "image": "browser" }]);
        let volumes = json!([volume(claim)]);
        let pod = json!({ "containers": containers, "volumes": volumes, "hostPID": host_pid });
        json!({ "pvc": "data", "podSpec": pod })
    };

    until_async("the API server calls the webhook", async || {
        applied_viewer(namespace, with_pod("data", true))
            .await
            .is_err()
    })
    .await;
    // An API server with CEL says the first one itself. Unit tests have the message of an empty
    // name: the API server of these tests refuses it before it calls a webhook.
    for (spec, message) in [
        (
            with_pod("other", false),
            "PVC data must be used in the podSpec",
        ),
        (with_pod("data", true), "podSpec: not allowed: hostPID"),
    ] {
        let refusal = applied_viewer(namespace, spec).await.expect_err(message);
        assert!(refusal.contains(message), "{refusal}");
    }
    let least = json!({ "pvc": "data" });
    for spec in [least.clone(), with_pod("data", false)] {
        applied_viewer(namespace, spec)
            .await
            .expect("a valid viewer");
    }

    let viewer = json!({ "metadata": { "name": "v" }, "spec": least });
    let kind = ApiResource::erase::<PVCViewer>(&());
    namespace.apply(&kind, &viewer).await;
    let refusal = applied_viewer(namespace, json!({ "pvc": "other" })).await;
    let refusal = refusal.expect_err("another claim");
    assert!(refusal.contains("PVC name is immutable"), "{refusal}");
    let stored = namespace.api(&kind).get("v").await.expect("the viewer");
    let wanted = json!({ "pvc": "data", "rwoScheduling": false });
    assert_eq!(stored.data["spec"], wanted, "it stays as it was written");
}

/// An installation with values in both forms, which no schema refuses.
fn with_both_values(namespace: &KubeNamespace, definition: &str) -> Value {
    json!({
        "apiVersion": "apps.kubermatic.k8c.io/v1", "kind": "ApplicationInstallation",
        "metadata": { "name": "new", "namespace": namespace.name },
        "spec": {
            "applicationRef": { "name": definition, "version": "1.0.0" },
            "values": { "a": 1 }, "valuesBlock": "a: 1\n",
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_installation_is_refused_with_the_message_of_its_condition() {
    let host = address(2);
    let installs = Installs::stopped(&webhook_table(&host)).await;
    let _wide = ClusterWide(installs.namespace().name.clone());
    // Stored before the webhook is there.
    let both = json!({ "values": { "a": 1 }, "valuesBlock": "a: 1\n" });
    installs.installation("old", both).await;
    installs.definition(json!({})).await;
    install(installs.namespace(), &host).await;
    let installs = installs.restart().await;
    let status = installs
        .until_condition("old", "Accepted", ("False", "Invalid"))
        .await;
    let message = status["conditions"]["Accepted"]["message"].as_str();
    let message = message.expect("a message").to_owned();
    let namespace = installs.namespace();
    let definition = installs.own("example");
    let apply = async |object: Value| applied_object(namespace, object).await;
    let invalid = with_both_values(namespace, &definition);
    until_async("the API server calls the webhook", async || {
        apply(invalid.clone()).await.is_err()
    })
    .await;
    let refusal = apply(invalid.clone()).await.expect_err("refused");
    let wanted =
        format!("admission webhook \"validate.ludgate.primehub.io\" denied the request: {message}");
    assert!(refusal.contains(&wanted), "{refusal}");
    let mut unknown = invalid.clone();
    unknown["spec"] = json!({ "applicationRef": { "name": "nothing", "version": "1.0.0" } });
    let refusal = apply(unknown).await.expect_err("refused");
    let wanted = "spec.applicationRef.name: Not found: \"nothing\"";
    assert!(refusal.contains(wanted), "{refusal}");
    // The old one can be labelled, and removed.
    let label = ["label", "applicationinstallation", "old", "a=b"];
    namespace.kubectl(&label, "").await;
    installs.delete("old").await;
    installs.until_gone("old").await;

    // A new one gets its defaults.
    let mut valid = invalid;
    valid["spec"] = json!({
        "applicationRef": { "name": definition, "version": "1.0.0" },
        "namespace": { "name": installs.own("target"), "create": true },
        "deployOptions": { "helm": { "atomic": true } },
    });
    namespace
        .kubectl(&["apply", "-f", "-"], &valid.to_string())
        .await;
    let stored = installs.get("new").await.expect("an installation");
    let spec = &stored.data["spec"];
    let whole = json!({ "helm": { "atomic": true, "wait": true, "timeout": "5m0s" } });
    assert_eq!(
        (&spec["deployOptions"], &spec["values"]),
        (&whole, &json!({}))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_definition_and_the_deletion_of_an_enforced_app_are_refused() {
    let host = address(3);
    let installs = Installs::stopped(&webhook_table(&host)).await;
    let name = installs.namespace().name.clone();
    let _wide = ClusterWide(name.clone());
    install(installs.namespace(), &host).await;
    let installs = installs.restart().await;
    let definition = installs.own("other");
    let version = installs.version("1.0.0", "example", "0.1.0");
    // Two versions of one name.
    let invalid = json!({
        "apiVersion": "apps.kubermatic.k8c.io/v1", "kind": "ApplicationDefinition",
        "metadata": { "name": definition },
        "spec": { "description": "d", "method": "helm", "versions": [version, version] },
    });
    // The webhook of another test would refuse a definition too, but no installation of this one.
    let installation = with_both_values(installs.namespace(), &definition);
    until_async("the API server calls the webhook", async || {
        let applied = applied_object(installs.namespace(), installation.clone()).await;
        applied.is_err()
    })
    .await;
    let refusal = applied_object(installs.namespace(), invalid).await;
    let refusal = refusal.expect_err("refused");
    let wanted = "spec.versions[1].version: Duplicate value: \"1.0.0\"";
    assert!(refusal.contains(wanted), "{refusal}");

    let enforced = json!({
        "enforced": true, "selector": { "targets": [name] },
        "defaultNamespace": { "name": installs.own("target"), "create": true },
    });
    installs.definition(enforced).await;
    let app = installs.own("example");
    installs.until_ready(&app).await;
    let deletion = ["-n", &name, "delete", "applicationinstallation", &app];
    let refusal = try_kubectl(&deletion, "").await.expect_err("refused");
    let wanted = format!("application \"{app}\" is enforced and cannot be deleted");
    assert!(refusal.contains(&wanted), "{refusal}");
    installs
        .definition(json!({ "defaultVersion": "1.0.0" }))
        .await;
    installs.delete(&app).await;
    installs.until_gone(&app).await;
}

/// The authorities that the API server trusts, PEM.
async fn bundle(name: &str) -> String {
    let path = "jsonpath={.webhooks[0].clientConfig.caBundle}";
    let encoded = kubectl(
        &["get", "validatingwebhookconfiguration", name, "-o", path],
        "",
    )
    .await;
    use base64::{Engine, engine::general_purpose::STANDARD};
    String::from_utf8(STANDARD.decode(encoded).expect("base64")).expect("PEM")
}
