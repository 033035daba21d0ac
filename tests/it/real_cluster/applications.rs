//! A PhApplication becomes pods that people can open, and its status says what became of it.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{Api, ResourceExt, api::ApiResource};
use ludgate::model::app::AppState;
use serde_json::{Value, json};

use crate::support::{
    controller::{Controlled, until},
    kube_namespace::{application, phapplications},
    message::PATIENCE,
    until::holds_within,
    world::World,
};

/// A quota with room for one app.
const ONE_APP: &str = "[groups.phusers]\nquota = { cpu = 0.1 }\n[instance_types.cpu-1]\ncpu = 0.1\nmemory = \"32MiB\"\n";

async fn gateway(controlled: &Controlled, app: &str) -> World {
    let world = World::with(&controlled.namespace.toml(), |_| {})
        .await
        .ready()
        .await;
    world.until_running(app).await;
    world
}

async fn page(world: &World, app: &str) -> (u16, String) {
    let request = format!("GET /apps/{app}/ HTTP/1.1\r\nHost: HOST\r\n\r\n");
    let answer = world.exchange(&request).await;
    (answer.status(), answer.text())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_starts_serves_stops_starts_again_and_is_deleted() {
    let controlled = Controlled::start().await;
    controlled.app("lab", json!({})).await;
    assert_eq!(
        controlled.until_phase("lab", "Ready").await,
        "Deployment is ready"
    );
    let world = gateway(&controlled, "lab").await;
    let (status, environment) = page(&world, "lab").await;
    assert_eq!(status, 200, "{environment}");
    for line in [
        "PRIMEHUB_APP_ID=lab",
        "PRIMEHUB_APP_ROOT=/phapplications/lab",
        "PRIMEHUB_APP_BASE_URL=/apps/lab",
        "PRIMEHUB_URL=https://hub.example.com",
        "PRIMEHUB_GROUP=phusers",
    ] {
        assert!(
            environment.lines().any(|found| found == line),
            "{line}\n{environment}"
        );
    }

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
        "--timeout=60s",
        "deployment/app-lab",
        "service/app-lab",
    ];
    controlled.namespace.kubectl(&wait, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_pod_is_said_in_the_status() {
    let controlled = Controlled::start().await;
    let pod = |container: Value| {
        let mut container = container;
        container["name"] = "app".into();
        json!({ "podTemplate": { "spec": { "containers": [container] } } })
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
async fn an_app_recovers_when_its_group_appears_and_stops_when_it_is_gone() {
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
    controlled.change(|settings| settings.groups.clear());
    controlled.app("lab", json!({ "stop": true })).await;
    controlled.until_phase("lab", "Stopped").await;
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

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_app_is_not_written_and_a_changed_child_is_mended() {
    let controlled = Controlled::start().await;
    controlled.app("lab", json!({})).await;
    controlled.until_phase("lab", "Ready").await;
    let deployments = controlled.deployments();
    let before = deployments.get("app-lab").await.expect("made");
    let app = controlled
        .namespace
        .api(&phapplications())
        .get("lab")
        .await
        .expect("an app");
    let (reconciles, writes) = (controlled.reconciles(), controlled.count("writes", ""));
    let are_repeated = holds_within(PATIENCE, async || {
        controlled.change(|_| {});
        controlled.reconciles() >= reconciles + 20.0
    });
    assert!(are_repeated.await, "no reconciles");
    assert_eq!(controlled.count("writes", ""), writes);
    // Objects of a list have no kind, those of events have one.
    let controlled = controlled.restart().await;
    let are_repeated = holds_within(PATIENCE, async || {
        controlled.change(|_| {});
        controlled.reconciles() >= 20.0
    });
    assert!(are_repeated.await, "no reconciles");
    assert_eq!(controlled.count("writes", ""), 0.0);
    let after = deployments.get("app-lab").await.expect("made");
    assert_eq!(before.resource_version(), after.resource_version());
    let unchanged = controlled
        .namespace
        .api(&phapplications())
        .get("lab")
        .await
        .expect("an app");
    assert_eq!(app.resource_version(), unchanged.resource_version());

    let scale = ["scale", "deployment/app-lab", "--replicas=3"];
    controlled.namespace.kubectl(&scale, "").await;
    let kind = ApiResource::erase::<Deployment>(&());
    let api = controlled.namespace.api(&kind);
    until(api, &kind, "app-lab", |deployment| {
        deployment.data["spec"]["replicas"] == 1
    })
    .await;
    let services: Api<Service> = Api::namespaced(
        controlled.namespace.client.clone(),
        &controlled.namespace.name,
    );
    let uid = services.get("app-lab").await.expect("made").uid();
    controlled
        .namespace
        .kubectl(&["delete", "service/app-lab"], "")
        .await;
    let kind = ApiResource::erase::<Service>(&());
    let api = controlled.namespace.api(&kind);
    until(api, &kind, "app-lab", |service| service.uid() != uid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_others_are_left_alone() {
    let controlled = Controlled::start().await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "app-lab" },
        "spec": { "ports": [{ "port": 80, "protocol": "TCP" }] },
    });
    controlled
        .namespace
        .kubectl(&["apply", "-f", "-"], &foreign.to_string())
        .await;
    controlled.app("lab", json!({})).await;
    let message = controlled.until_phase("lab", "Error").await;
    assert_eq!(
        message,
        "Service app-lab already exists and has another owner"
    );
    let services: Api<Service> = Api::namespaced(
        controlled.namespace.client.clone(),
        &controlled.namespace.name,
    );
    let service = services.get("app-lab").await.expect("there");
    assert_eq!(service.spec.and_then(|spec| spec.selector), None);
    controlled
        .namespace
        .kubectl(&["delete", "service/app-lab"], "")
        .await;
    controlled.until_phase("lab", "Ready").await;
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
    let kind = ApiResource::erase::<Deployment>(&());
    let api = controlled.namespace.api(&kind);
    let limit = "/spec/template/spec/containers/0/resources/limits/cpu";
    until(api, &kind, "app-lab", |made| {
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
    let kind = ApiResource::erase::<Service>(&());
    let api = controlled.namespace.api(&kind);
    until(api, &kind, "app-tcp", |_| true).await;
    let names = controlled.namespace.kubectl(&all, "").await;
    for name in [
        "service/app-tcp",
        "networkpolicy.networking.k8s.io/app-tcp-group",
        "networkpolicy.networking.k8s.io/app-tcp-proxy",
    ] {
        assert!(names.contains(name), "{name} in {names}");
    }
    controlled.app("tcp", without.clone()).await;
    let wait = ["wait", "--for=delete", "--timeout=60s", "service/app-tcp"];
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
