//! A PhApplication becomes pods that people can open, and its status says what became of it.

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Service,
};
use kube::{Api, ResourceExt, api::ListParams};
use ludgate::model::app::AppState;
use serde_json::{Value, json};

use crate::support::{
    changes::POD_PATIENCE,
    controller::{Controlled, page, pod, until_page},
    kube_namespace::{application, phapplications},
    message::PATIENCE,
    until::holds_within,
};

/// A quota with room for one app.
const ONE_APP: &str = "[groups.phusers]\nquota = { cpu = 0.1 }\n[instance_types.cpu-1]\ncpu = 0.1\nmemory = \"32MiB\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn an_app_starts_serves_stops_starts_again_and_is_deleted() {
    let controlled = Controlled::start().await;
    controlled.app("lab", json!({})).await;
    assert_eq!(
        controlled.until_phase("lab", "Ready").await,
        "Deployment is ready"
    );
    let world = controlled.gateway("lab").await;
    let environment = [
        "PRIMEHUB_APP_ID=lab",
        "PRIMEHUB_APP_ROOT=/phapplications/lab",
        "PRIMEHUB_APP_BASE_URL=/apps/lab",
        "PRIMEHUB_URL=https://hub.example.com",
        "PRIMEHUB_GROUP=phusers",
    ];
    until_page(&world, "lab", &environment).await;

    controlled.app("lab", json!({ "stop": true })).await;
    assert_eq!(
        controlled.until_phase("lab", "Stopped").await,
        "Deployment had stopped"
    );
    assert_eq!(
        controlled.pods("lab").await.len(),
        0,
        "only then it is stopped"
    );
    world
        .until(|snapshot| {
            snapshot
                .find("lab")
                .is_some_and(|app| app.spec.state == AppState::Stopped)
        })
        .await;

    controlled.app("lab", json!({ "stop": false })).await;
    controlled.until_phase("lab", "Ready").await;
    world.until_running("lab").await;
    assert_eq!(page(&world, "lab").await.0, 200);

    controlled.namespace.delete("lab").await;
    world.until(|snapshot| snapshot.find("lab").is_none()).await;
    assert_eq!(page(&world, "lab").await.0, 404);
    let wait = [
        "wait",
        "--for=delete",
        "--timeout=120s",
        "deployment/app-lab",
        "service/app-lab",
    ];
    controlled.namespace.kubectl(&wait, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_pod_is_said_in_the_status() {
    let controlled = Controlled::start().await;
    let pod = |mut container: Value| {
        container["name"] = "app".into();
        pod(json!([container]))
    };
    let image = pod(json!({ "image": "localhost/missing:1" }));
    controlled.app("image", image).await;
    let crash = ["sh", "-c", "echo one argument is missing; exit 3"];
    let crash = pod(json!({ "image": "localhost/busybox:1", "command": crash }));
    controlled.app("crash", crash).await;
    let large = pod(json!({ "image": "localhost/busybox:1" }));
    controlled.app("large", large).await;
    let broken = json!({ "podTemplate": { "spec": { "containers": "none" } } });
    controlled.app("broken", broken).await;
    let node =
        pod(json!({ "image": "localhost/busybox:1", "securityContext": { "privileged": true } }));
    controlled.app("node", node).await;
    let typo = pod(json!({ "image": "localhost/busybox:1", "commandd": ["true"] }));
    controlled.app("typo", typo).await;
    for (app, wanted) in [
        ("image", "localhost/missing:1"),
        ("crash", "one argument is missing"),
        ("typo", "commandd"),
        ("broken", "podTemplate.spec.containers has no container"),
        (
            "node",
            "podTemplate: not allowed: containers[app].securityContext.privileged",
        ),
    ] {
        let is_wanted = |status: &Value| {
            let message = status["message"].as_str().unwrap_or_default();
            status["phase"] == "Error" && message.contains(wanted)
        };
        controlled.until(app, is_wanted).await;
    }
    assert_eq!(controlled.pods("node").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_recovers_when_its_group_and_its_instance_type_appear() {
    let controlled = Controlled::with("").await;
    controlled.app("lab", json!({})).await;
    assert_eq!(
        controlled.until_phase("lab", "Error").await,
        "group phusers does not exist"
    );
    let platform = controlled.parsed("[groups.phusers]\n");
    controlled.change(|settings| settings.groups = platform.groups);
    let is_next = |status: &Value| status["message"] == "instance type cpu-1 does not exist";
    controlled.until("lab", is_next).await;
    let platform = controlled.parsed(ONE_APP);
    controlled.change(|settings| *settings = platform);
    controlled.until_phase("lab", "Ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_apps_with_room_for_one_the_second_runs_after_the_first() {
    let controlled = Controlled::with(ONE_APP).await;
    tokio::join!(
        controlled.app("one", json!({})),
        controlled.app("two", json!({}))
    );
    let exceeded = "Group phusers exceeded cpu quota: 0.1, requesting 0.2";
    let (first, second) = tokio::select! {
        message = controlled.until_phase("one", "Error") => { assert_eq!(message, exceeded); ("two", "one") }
        message = controlled.until_phase("two", "Error") => { assert_eq!(message, exceeded); ("one", "two") }
    };
    controlled.until_phase(first, "Ready").await;
    assert_eq!(controlled.pods(second).await.len(), 0);
    controlled.app(first, json!({ "stop": true })).await;
    controlled.until_phase(second, "Ready").await;
}

impl Controlled {
    /// Waits until the controller has looked at its apps so often since `before`.
    async fn until_reconciled(&self, before: f64, times: f64) {
        let are_repeated = holds_within(POD_PATIENCE, async || {
            // The settings are as they were, and every app is looked at again.
            self.change(|_| {});
            self.reconciles() >= before + times
        });
        assert!(are_repeated.await, "no reconciles");
    }

    /// The versions of an app and of its Deployment.
    async fn versions(&self, app: &str) -> [Option<String>; 2] {
        let object = self.namespace.api(&phapplications()).get(app).await;
        let deployment = self.deployments().get(&format!("app-{app}")).await;
        [
            object.expect("an app").resource_version(),
            deployment.expect("made").resource_version(),
        ]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_reconciles_of_an_unchanged_app_write_nothing() {
    let controlled = Controlled::start().await;
    controlled.app("lab", json!({})).await;
    controlled.until_phase("lab", "Ready").await;
    let (namespace, client) = (&controlled.namespace.name, &controlled.namespace.client);
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
    let of_app = ListParams::default().labels("primehub.io/phapplication=app-lab");
    let sets = sets.list(&of_app).await.expect("a list");
    assert_eq!(sets.items.len(), 1, "the Deployment is made once");
    let before = controlled.versions("lab").await;
    let writes = controlled.count("writes", "");
    // Each takes some milliseconds, and none makes a call.
    controlled
        .until_reconciled(controlled.reconciles(), 1000.0)
        .await;
    assert_eq!(controlled.count("writes", ""), writes);
    assert_eq!(controlled.versions("lab").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_process_writes_nothing_until_a_child_is_changed() {
    let controlled = Controlled::start().await;
    controlled.app("lab", json!({})).await;
    controlled.until_phase("lab", "Ready").await;
    let before = controlled.versions("lab").await;
    // Objects of a list have no kind, those of events have one.
    let controlled = controlled.restart().await;
    controlled.until_reconciled(0.0, 20.0).await;
    assert_eq!(controlled.count("writes", ""), 0.0);
    assert_eq!(controlled.versions("lab").await, before);

    let scale = ["scale", "deployment/app-lab", "--replicas=3"];
    controlled.namespace.kubectl(&scale, "").await;
    controlled
        .until_object::<Deployment>("app-lab", |it| it.data["spec"]["replicas"] == 1)
        .await;
    let service = controlled
        .until_object::<Service>("app-lab", |_| true)
        .await;
    let delete = ["delete", "service/app-lab"];
    controlled.namespace.kubectl(&delete, "").await;
    controlled
        .until_object::<Service>("app-lab", |it| it.uid() != service.uid())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_instance_type_takes_effect_with_the_next_change_of_the_app() {
    let controlled = Controlled::start().await;
    controlled.app("lab", json!({})).await;
    controlled.until_phase("lab", "Ready").await;
    let deployments = controlled.deployments();
    let cpu = |deployment: Deployment| {
        let value = serde_json::to_value(deployment).expect("JSON");
        value["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"].clone()
    };
    let platform = controlled
        .parsed("[groups.phusers]\n[instance_types.cpu-1]\ncpu = 0.2\nmemory = \"32MiB\"\n");
    // Another app has the new size as soon as the controller knows it.
    controlled.change(|settings| *settings = platform);
    controlled.app("other", json!({})).await;
    controlled.until_phase("other", "Ready").await;
    let other = deployments.get("app-other").await.expect("made");
    assert_eq!(cpu(other), "200m");
    assert_eq!(cpu(deployments.get("app-lab").await.expect("made")), "100m");
    controlled
        .app("lab", json!({ "displayName": "Another name" }))
        .await;
    let limit = "/spec/template/spec/containers/0/resources/limits/cpu";
    controlled
        .until_object::<Deployment>("app-lab", |made| {
            made.data.pointer(limit) == Some(&json!("200m"))
        })
        .await;
    controlled.until_phase("lab", "Ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_without_ports_has_no_service() {
    let controlled = Controlled::start().await;
    let without = json!({ "svcTemplate": { "spec": { "type": "ClusterIP" } } });
    controlled.app("tcp", without.clone()).await;
    controlled.until_phase("tcp", "Ready").await;
    let all = ["get", "services,networkpolicies", "-o", "name"];
    assert_eq!(controlled.namespace.kubectl(&all, "").await, "");
    let ports = json!({ "spec": { "ports": [{ "port": 5000 }] } });
    controlled.app("tcp", json!({ "svcTemplate": ports })).await;
    controlled
        .until_object::<Service>("app-tcp", |_| true)
        .await;
    let names = controlled.namespace.kubectl(&all, "").await;
    for name in [
        "service/app-tcp",
        "networkpolicy.networking.k8s.io/app-tcp-group",
        "networkpolicy.networking.k8s.io/app-tcp-proxy",
    ] {
        assert!(names.contains(name), "{name} in {names}");
    }
    controlled.app("tcp", without.clone()).await;
    let wait = ["wait", "--for=delete", "--timeout=120s", "service/app-tcp"];
    controlled.namespace.kubectl(&wait, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_no_app_harms_itself_only() {
    let controlled = Controlled::start().await;
    let long = "a".repeat(60);
    let bad = application(&long, "public", json!({}));
    controlled
        .namespace
        .kubectl(&["apply", "-f", "-"], &bad.to_string())
        .await;
    let message = controlled.until_phase(&long, "Error").await;
    assert!(message.contains("at most 59"), "{message}");
    let nested = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep = application("deep", "public", json!({})).to_string();
    let deep = deep.replace(
        "\"image\":\"app:1\"",
        &format!("\"image\":\"app:1\",\"x\":{nested}"),
    );
    controlled
        .namespace
        .kubectl(&["create", "-f", "-"], &deep)
        .await;
    let controlled = controlled.restart().await;
    controlled.app("lab", json!({})).await;
    controlled.until_phase("lab", "Ready").await;
    let message = [
        "get",
        "phapplication/deep",
        "-o",
        "jsonpath={.status.message}",
    ];
    let is_said = holds_within(PATIENCE, async || {
        controlled
            .namespace
            .kubectl(&message, "")
            .await
            .contains(".x")
    });
    assert!(is_said.await, "its status has no error");
}
