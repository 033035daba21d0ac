//! InstanceType objects of the cluster, which PrimeHub defines. Its definition is in
//! `tests/real/kube/instance_types.yaml`.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::support::{api::Api, controller::Controlled};

/// The same groups for the controller and the API, and no instance type.
const PLATFORM: &str = "[groups.phusers]\n";

impl Controlled {
    /// Makes an object, or changes it.
    async fn instance_type(&self, name: &str, limits: Value) {
        let kind = GroupVersionKind::gvk("primehub.io", "v1alpha1", "InstanceType");
        let kind = ApiResource::from_gvk_with_plural(&kind, "instancetypes");
        let object = json!({
            "metadata": { "name": name },
            "spec": { "displayName": format!("The {name}"), "limits": limits },
        });
        self.namespace.apply(&kind, &object).await;
    }

    /// Waits until the container of an app has these limits.
    async fn until_limits(&self, app: &str, wanted: Value) {
        let has_them = |it: &DynamicObject| limits(it) == Some(&wanted);
        let name = format!("app-{app}");
        self.until_object::<Deployment>(&name, has_them).await;
    }
}

fn limits(deployment: &DynamicObject) -> Option<&Value> {
    let path = "/spec/template/spec/containers/0/resources/limits";
    deployment.data.pointer(path)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_keys_of_an_instance_type_count_in_the_pod_and_in_the_api() {
    let controlled = Controlled::with(PLATFORM).await;
    let older = json!({ "cpu": 0.1, "memory": "64M", "nvidia.com/gpu": 1 });
    controlled.instance_type("older", older).await;
    let small = json!({ "cpu": 0.1, "memory": "64M" });
    controlled.instance_type("small", small).await;
    for app in ["older", "small"] {
        let size = json!({ "instanceType": app });
        controlled.app(app, size).await;
    }
    controlled.until_phase("small", "Ready").await;
    let pods = controlled.pods("small").await;
    let spec = pods[0].spec.as_ref().expect("a spec");
    let resources = json!(spec.containers[0].resources);
    let wanted = json!({ "cpu": "100m", "memory": "64Mi" });
    assert_eq!(resources["limits"], wanted);
    let with_gpu = json!({ "cpu": "100m", "memory": "64Mi", "nvidia.com/gpu": "1" });
    controlled.until_limits("older", with_gpu).await;
    // The node has none.
    let is_without = |status: &Value| {
        let message = status["message"].as_str().unwrap_or_default();
        message.starts_with("Unschedulable: ") && message.contains("nvidia.com/gpu")
    };
    controlled.until("older", is_without).await;

    let namespace = &controlled.namespace;
    namespace.grant("api.yaml").await;
    let kubeconfig = namespace.kubeconfig_of("ludgate-api").await;
    let site = "https://hub.example.com";
    let api = Api::with(&namespace.name, &kubeconfig, site, PLATFORM).await;
    let query = "{ me { effectiveGroups { instanceTypes { name displayName cpuLimit memoryLimit gpuLimit gpuResourceName } } } }";
    let answer = api.data("alice", query, json!({})).await;
    let offered = |name: &str, gpus: u32, resource: Option<&str>| {
        json!({
            "name": name,
            "displayName": format!("The {name}"),
            "cpuLimit": 0.1,
            "memoryLimit": 0.0625,
            "gpuLimit": gpus,
            "gpuResourceName": resource,
        })
    };
    assert_eq!(
        answer["me"]["effectiveGroups"],
        json!([{ "instanceTypes": [
            offered("older", 1, Some("nvidia.com/gpu")),
            offered("small", 0, None),
        ] }])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_instance_type_object_restarts_no_app_and_counts_with_its_next_change() {
    let groups = format!("{PLATFORM}[groups.others]\ninstance_types = [\"theirs\"]\n");
    let controlled = Controlled::with(&groups).await;
    let size = |cpu: f64| json!({ "cpu": cpu, "memory": "32M" });
    let small = json!({ "instanceType": "small" });
    controlled.instance_type("small", size(0.1)).await;
    controlled.app("lab", small).await;
    controlled.until_phase("lab", "Ready").await;
    controlled
        .app("other", json!({ "instanceType": "last" }))
        .await;
    assert_eq!(
        controlled.until_phase("other", "Error").await,
        "instance type last does not exist"
    );
    controlled.instance_type("theirs", size(0.1)).await;
    let theirs = json!({ "instanceType": "theirs" });
    controlled.app("greedy", theirs).await;
    // The type may be seen later than the app.
    let is_refused = |status: &Value| {
        status["phase"] == "Error"
            && status["message"] == "instance type theirs is for other groups"
    };
    controlled.until("greedy", is_refused).await;
    // One watch shows all instance types: the changed one is known before the last one.
    controlled.instance_type("small", size(0.2)).await;
    controlled.instance_type("last", size(0.3)).await;
    let last = json!({ "cpu": "300m", "memory": "32Mi" });
    controlled.until_limits("other", last).await;
    let lab = controlled
        .until_object::<Deployment>("app-lab", |_| true)
        .await;
    let before = json!({ "cpu": "100m", "memory": "32Mi" });
    assert_eq!(limits(&lab), Some(&before));
    let next = json!({ "instanceType": "small", "displayName": "Another name" });
    controlled.app("lab", next).await;
    let changed = json!({ "cpu": "200m", "memory": "32Mi" });
    controlled.until_limits("lab", changed).await;
    controlled.until_current("lab", "Ready").await;
}
