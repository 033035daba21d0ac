//! Stopping an app works whatever else is missing or wrong.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ApiResource;
use serde_json::json;

use crate::support::{api::Api, controller::Controlled, kube_namespace::phapplications};

const STOP: &str = "mutation Stop($where: PhApplicationWhereUniqueInput!) { stopPhApplication(where: $where) { id stop } }";

/// The group of the apps is neither in the API's configuration nor in the controller's.
#[tokio::test(flavor = "multi_thread")]
async fn apps_stop_when_their_group_and_their_instance_type_are_gone() {
    let controlled = Controlled::start().await;
    let apps = ["by-object", "by-api"];
    for app in apps {
        controlled.app(app, json!({})).await;
    }
    for app in apps {
        controlled.until_phase(app, "Ready").await;
    }
    controlled.change(|settings| {
        settings.groups.clear();
        settings.instance_types.clear();
    });
    controlled.app("by-object", json!({ "stop": true })).await;
    let namespace = &controlled.namespace;
    namespace.grant("api.yaml").await;
    let kubeconfig = namespace.kubeconfig_of("ludgate-api").await;
    let site = "https://hub.example.com";
    let api = Api::with(&namespace.name, &kubeconfig, site, "[groups.others]\n").await;
    let named = json!({ "where": { "id": "by-api" } });
    let stopped = api.data("alice", STOP, named).await;
    let wanted = json!({ "id": "by-api", "stop": true });
    assert_eq!(stopped["stopPhApplication"], wanted);
    for app in apps {
        controlled.until_phase(app, "Stopped").await;
        assert!(controlled.pods(app).await.is_empty(), "{app}");
    }
}

/// No Service can have such a name, but PrimeHub's controller makes the Deployment nevertheless.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_cannot_be_read_stops_nevertheless() {
    let controlled = Controlled::start().await;
    controlled.app("old.app", json!({})).await;
    let message = controlled.until_phase("old.app", "Error").await;
    assert!(message.starts_with("the name of an app has"), "{message}");
    let kind = phapplications();
    let app = controlled.namespace.api(&kind).get("old.app").await;
    let owner = json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": "old.app",
        "uid": app.expect("an app").metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    });
    let labels = json!({
        "primehub.io/phapplication": "app-old.app",
        "primehub.io/group": "escaped-phusers",
    });
    let pod = json!({
        "terminationGracePeriodSeconds": 1,
        "containers": [{ "name": "app", "image": "localhost/busybox:1" }],
    });
    let deployment = json!({
        "metadata": { "name": "app-old.app", "labels": labels, "ownerReferences": [owner] },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    });
    controlled
        .namespace
        .apply(&ApiResource::erase::<Deployment>(&()), &deployment)
        .await;
    controlled
        .until_object::<Deployment>("app-old.app", |it| it.data["status"]["readyReplicas"] == 1)
        .await;
    controlled.app("old.app", json!({ "stop": true })).await;
    controlled
        .until_object::<Deployment>("app-old.app", |it| {
            it.data["spec"]["replicas"] == 0 && it.data["status"]["replicas"].is_null()
        })
        .await;
}
