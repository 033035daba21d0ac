//! Other pods of a group, such as notebooks, use its apps inside of the cluster.

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ApiResource;
use serde_json::json;

use crate::support::controller::Controlled;

/// The test cluster has no network plugin that enforces NetworkPolicies. So this shows that the
/// Service leads to the pod, with the path that the app has everywhere. That the policies let in
/// these pods, and no others, is checked in the objects alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_the_group_reaches_the_app_at_the_address_of_its_service() {
    let controlled = Controlled::start().await;
    controlled.app("lab", json!({})).await;
    controlled.until_phase("lab", "Ready").await;
    let service = controlled
        .until_object::<Service>("app-lab", |_| true)
        .await;
    let address = service.data["spec"]["clusterIP"].as_str().expect("one");
    // The end of a container has its message.
    let fetch = format!(
        "wget -q -O - http://{address}:5000/apps/lab/ | grep ^PRIMEHUB_APP_ID= >/dev/termination-log"
    );
    let notebook = json!({
        "metadata": { "name": "notebook", "labels": { "primehub.io/group": "escaped-phusers" } },
        "spec": {
            "restartPolicy": "OnFailure",
            "containers": [{
                "name": "notebook",
                "image": "localhost/busybox:1",
                "command": ["sh", "-c", fetch],
            }],
        },
    });
    controlled
        .namespace
        .apply(&ApiResource::erase::<Pod>(&()), &notebook)
        .await;
    let ended = controlled
        .until_object::<Pod>("notebook", |it| it.data["status"]["phase"] == "Succeeded")
        .await;
    let state = &ended.data["status"]["containerStatuses"][0]["state"];
    let message = state["terminated"]["message"].as_str();
    assert_eq!(message.map(str::trim), Some("PRIMEHUB_APP_ID=lab"));
}
