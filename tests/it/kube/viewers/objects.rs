//! The objects of viewers, field by field as Kubeflow's controller makes them.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service, networking::v1::NetworkPolicy};
use kube::{
    ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::golden::{GoldenViewer, assert_golden, default_pod};
use crate::support::{
    controller::{Controlled, ControllerKind, Prepared},
    kube_namespace::kind_of,
    viewer::{child, claim_volume, is_started, viewer_controller},
};

const IMAGE: &str = "filebrowser/filebrowser:v2.32.0";

/// The base URL that the web app of a Deployment's pod gets.
fn base_url(deployment: &DynamicObject) -> Value {
    let container = &deployment.data["spec"]["template"]["spec"]["containers"][0];
    let mut env = container["env"].as_array().into_iter().flatten();
    let variable = env.find(|variable| variable["name"] == "FB_BASEURL");
    variable.expect("a base URL")["value"].clone()
}

/// Checks the objects of the viewer `v` with this pod and this port.
async fn check(controlled: &Controlled, pod: Value, port: Option<u16>) {
    let namespace = &controlled.namespace;
    let golden = GoldenViewer::new(namespace, "v").await;
    let deployment = controlled.child::<Deployment>("v").await;
    let deployment = deployment.expect("a Deployment");
    assert_golden(namespace, &deployment, golden.deployment(pod)).await;
    let policy = controlled.child::<NetworkPolicy>("v").await;
    let policy = policy.expect("a NetworkPolicy");
    assert_golden(namespace, &policy, golden.policy(port)).await;
    let Some(port) = port else {
        // The controller may learn of a new Service after its end was due.
        namespace
            .until_gone(&kind_of::<Service>(), &child("v"))
            .await;
        return;
    };
    let service = controlled.child::<Service>("v").await;
    let service = service.expect("a Service");
    assert_golden(namespace, &service, golden.service(port)).await;
}

fn own_pod(containers: Value) -> Value {
    json!({ "containers": containers, "volumes": [claim_volume("pvc", "test-pvc")] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minimal_viewer_has_the_default_pod_and_no_service() {
    let controlled = viewer_controller("").await;
    controlled
        .namespace
        .claim("test-pvc", "ReadWriteMany")
        .await;
    controlled
        .start_viewer("v", json!({ "pvc": "test-pvc" }))
        .await;
    let base = format!("/{}/v/", controlled.namespace.name);
    check(&controlled, default_pod(IMAGE, &base, "test-pvc"), None).await;
    let status = controlled.until_viewer("v", is_started).await;
    assert_eq!(status["ready"], false);
    assert_eq!(status["url"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_pod_comes_from_the_configured_file() {
    let more = "default_pod_file = \"pod.yaml\"\n";
    let prepared = Prepared::for_controller(ControllerKind::Viewers, more).await;
    let file = "securityContext: {runAsUser: 1234}\ncontainers:\n- name: test\n  image: busybox\n  \
                volumeMounts: [{name: viewer-volume, mountPath: /data}]\n";
    std::fs::write(prepared.config().with_file_name("pod.yaml"), file).expect("written");
    let controlled = prepared.start().await;
    controlled.start_viewer("v", json!({ "pvc": "p" })).await;
    let mount = json!({ "name": "viewer-volume", "mountPath": "/data" });
    let pod = json!({
        "securityContext": { "runAsUser": 1234 },
        "containers": [{ "name": "test", "image": "busybox", "volumeMounts": [mount] }],
        "volumes": [claim_volume("viewer-volume", "p")],
    });
    check(&controlled, pod, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_own_pod_is_taken_as_it_is_and_follows_its_author() {
    let controlled = viewer_controller("").await;
    let main = json!({ "name": "main", "image": "busybox" });
    let side = json!({ "name": "side", "image": "busybox" });
    for containers in [json!([main]), json!([main, side]), json!([side])] {
        let pod = own_pod(containers);
        let spec = json!({ "pvc": "test-pvc", "podSpec": pod });
        controlled.start_viewer("v", spec).await;
        check(&controlled, pod, None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_of_kubeflows_volumes_web_app_is_taken_as_it_is() {
    let controlled = viewer_controller("service_accounts = [\"default-editor\"]\n").await;
    let namespace = controlled.namespace.name.clone();
    let base = format!("/pvcviewers/{namespace}/v/");
    let pod = json!({
        "serviceAccountName": "default-editor",
        "containers": [{
            "name": "main",
            "image": "filebrowser/filebrowser:v2.23.0",
            "ports": [{ "containerPort": 8080, "protocol": "TCP" }],
            "env": [{ "name": "FB_BASEURL", "value": base }],
            "readinessProbe": {
                "tcpSocket": { "port": 8080 }, "initialDelaySeconds": 2, "periodSeconds": 10,
            },
            "securityContext": { "capabilities": { "drop": ["ALL"] } },
            "volumeMounts": [{ "name": "viewer-volume", "mountPath": "/srv" }],
        }],
        "volumes": [claim_volume("viewer-volume", "v")],
    });
    let networking = json!({
        "targetPort": 8080, "basePrefix": "/pvcviewers", "rewrite": "/", "timeout": "30s",
    });
    let spec = json!({
        "pvc": "v", "podSpec": pod, "networking": networking, "rwoScheduling": true,
    });
    controlled.start_viewer("v", spec).await;
    check(&controlled, pod, Some(8080)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn networking_makes_a_service_that_changes_and_goes_with_it() {
    let controlled = viewer_controller("").await;
    let namespace = controlled.namespace.name.clone();
    let pod = |base: &str| default_pod(IMAGE, &format!("{base}/{namespace}/v/"), "p");
    controlled.start_viewer("v", json!({ "pvc": "p" })).await;
    check(&controlled, pod(""), None).await;
    let newest = json!({
        "targetPort": 81, "basePrefix": "/newbase", "timeout": "10s", "rewrite": "/newrewrite",
    });
    for (networking, base, port) in [
        (json!({ "targetPort": 1234 }), "", 1234),
        (json!({ "targetPort": 1235 }), "", 1235),
        (
            json!({ "targetPort": 80, "basePrefix": "/base" }),
            "/base",
            80,
        ),
        (newest, "/newbase", 81),
    ] {
        let spec = json!({ "pvc": "p", "networking": networking });
        controlled.start_viewer("v", spec).await;
        check(&controlled, pod(base), Some(port)).await;
        let status = controlled.until_viewer("v", is_started).await;
        assert_eq!(status["url"], format!("{base}/{namespace}/v/"));
    }
    controlled.start_viewer("v", json!({ "pvc": "p" })).await;
    check(&controlled, pod(""), None).await;
    let status = controlled.until_viewer("v", is_started).await;
    assert_eq!(status["url"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_and_annotations_of_others_stay_on_the_objects() {
    let controlled = viewer_controller("").await;
    let namespace = controlled.namespace.name.clone();
    let spec =
        |base: &str| json!({ "pvc": "p", "networking": { "targetPort": 80, "basePrefix": base } });
    controlled.start_viewer("v", spec("/base")).await;
    let service = controlled.child::<Service>("v").await.expect("a Service");
    let foreign = json!({ "metadata": {
        "labels": { "team.example.com/cost": "7" }, "annotations": { "example.com/note": "kept" },
    } });
    for kind in [kind_of::<Deployment>(), kind_of::<Service>()] {
        let api = controlled.namespace.api(&kind);
        let patch = Patch::Merge(&foreign);
        let (name, parameters) = (child("v"), PatchParams::default());
        let patched = api.patch(&name, &parameters, &patch).await;
        patched.expect("patched");
    }
    controlled.start_viewer("v", spec("/newbase")).await;
    let deployment = controlled.child::<Deployment>("v").await;
    let deployment = deployment.expect("a Deployment");
    assert_eq!(base_url(&deployment), format!("/newbase/{namespace}/v/"));
    let after = controlled.child::<Service>("v").await.expect("a Service");
    assert_eq!(
        after.data["spec"]["clusterIP"],
        service.data["spec"]["clusterIP"]
    );
    for object in [deployment, after] {
        assert_eq!(object.labels()["team.example.com/cost"], "7");
        assert_eq!(object.annotations()["example.com/note"], "kept");
    }
}
