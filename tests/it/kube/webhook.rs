//! The admission webhook with the shipped objects and rights: the API server refuses an invalid
//! object with the message that its status would have.

use serde_json::{Value, json};

use crate::support::{
    controller::Prepared,
    kube_namespace::{KubeNamespace, application, kubectl, phapplications, try_kubectl},
    until::{until, until_async},
};

/// An address that no other test has: the API server calls it on this machine.
fn address() -> String {
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.80.{high}.{low}")
}

/// A shipped file, with names of its own, and an address in place of the Service.
fn adapted(file: &str, namespace: &str) -> String {
    let path = format!("{}/config/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a shipped file");
    let host = address();
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

/// What the API server says to `kubectl apply` of an app.
async fn applied(namespace: &KubeNamespace, app: &str, more: Value) -> Result<String, String> {
    let object = application(app, "public", more).to_string();
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
    let host = address();
    let platform = "[groups.phusers]\n[instance_types.cpu-1]\ncpu = 1\nmemory = \"1GiB\"\n";
    let prepared = Prepared::with(&format!("{platform}[controller.webhook]\naddress = \"{host}:8443\"\nnames = [\"{host}\"]\nconfiguration = \"NAMESPACE\"\n")).await;
    let name = prepared.namespace.name.clone();
    let config = std::fs::read_to_string(prepared.config()).expect("a configuration");
    std::fs::write(prepared.config(), config.replace("NAMESPACE", &name)).expect("written");
    let _wide = ClusterWide(name.clone());
    // Stored before the webhook is there.
    prepared
        .namespace
        .app("old", "public", host_network())
        .await;
    for file in ["rbac/webhook.yaml", "webhook.yaml"] {
        let apply = ["apply", "-f", "-"];
        prepared
            .namespace
            .kubectl(&apply, &adapted(file, &name))
            .await;
    }
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
