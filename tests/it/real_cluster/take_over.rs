//! Apps whose pods PrimeHub's controller has started: they run on as they are, until their next
//! change.

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
};
use serde_json::{Value, json};

use super::primehub::{PrimeHubApp, app_spec};
use crate::support::controller::{Controlled, Prepared, is_current, until_page};

const INPUTS: &str = "phapplication.primehub.io/inputs";
const HASH: &str = "ludgate/desired-hash";

fn variables(greeting: &str) -> Value {
    json!([{ "name": "GREETING", "value": greeting }])
}

/// What must not change while an app is taken over.
#[derive(Debug, PartialEq)]
struct Kept {
    pods: Vec<String>,
    template: Value,
    addresses: Value,
}

impl Controlled {
    /// The pods of `lab` that do not end.
    async fn lasting_pods(&self) -> Vec<Pod> {
        let mut pods = self.pods("lab").await;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods
    }

    async fn kept(&self) -> Kept {
        let pods = self.pods("lab").await;
        let deployment = self.until_object::<Deployment>("app-lab", |_| true).await;
        let service = self.until_object::<Service>("app-lab", |_| true).await;
        Kept {
            pods: pods.iter().filter_map(|pod| pod.uid()).collect(),
            template: deployment.data["spec"]["template"].clone(),
            addresses: service.data["spec"]["clusterIP"].clone(),
        }
    }

    /// Changes the variables of `lab`, and waits until its pods have them.
    async fn change_variables(&self, variables: &Value) {
        let spec = app_spec(variables);
        self.namespace.app("lab", "public", spec).await;
        self.until_current("lab", "Ready").await;
    }

    /// Checks that the pod of `lab` has nothing of PrimeHub's, and these variables.
    async fn check_own_pod(&self, own: &[&str]) {
        let pods = self.lasting_pods().await;
        assert_eq!(pods.len(), 1, "{pods:?}");
        let pod = json!(pods[0].spec);
        assert_eq!(pod["initContainers"], Value::Null);
        let container = &pod["containers"][0];
        assert_eq!(container["lifecycle"], Value::Null);
        // The API server adds the token of the service account to pods.
        let names = |list: &Value| -> Vec<String> {
            let entries = list.as_array().into_iter().flatten();
            let names = entries.filter_map(|entry| entry["name"].as_str());
            names
                .filter(|name| !name.contains("token") && !name.starts_with("kube-api-access"))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(names(&pod["volumes"]), ["primehub-app-root"]);
        assert_eq!(names(&container["volumeMounts"]), ["primehub-app-root"]);
        assert_eq!(names(&container["env"])[5..], *own);
    }

    /// Checks that updates own nothing of the specs of the objects of `lab`, and server-side apply
    /// does.
    async fn check_owners(&self) {
        // The hash is written with the last step of a take-over, which may come after the phase.
        let is_done = |object: &DynamicObject| object.annotations().contains_key(HASH);
        for object in [
            self.until_object::<Deployment>("app-lab", is_done).await,
            self.until_object::<Service>("app-lab", is_done).await,
            self.until_object::<NetworkPolicy>("app-lab-group", is_done)
                .await,
            self.until_object::<NetworkPolicy>("app-lab-proxy", is_done)
                .await,
        ] {
            let owners = object.managed_fields().iter();
            let of_spec = owners.filter(|entry| {
                let fields = entry.fields_v1.as_ref();
                fields.is_some_and(|fields| !fields.0["f:spec"].is_null())
            });
            let of_spec: Vec<_> = of_spec
                .map(|entry| (entry.manager.as_deref(), entry.operation.as_deref()))
                .collect();
            let wanted = [(Some("ludgate"), Some("Apply"))];
            assert_eq!(of_spec, wanted, "{}", object.name_any());
        }
    }
}

/// Starts `lab` as PrimeHub does, then the controller. The variables of the spec are in force.
async fn adopted(prepared: Prepared, variables: &Value) -> (Controlled, Kept) {
    let namespace = &prepared.namespace;
    let lab = PrimeHubApp {
        namespace,
        name: "lab",
    };
    lab.start(variables, variables).await;
    let pods: Api<Pod> = Api::namespaced(namespace.client.clone(), &namespace.name);
    let before = pods.list(&ListParams::default()).await.expect("pods");
    let uids: Vec<String> = before.iter().filter_map(|pod| pod.uid()).collect();
    assert_eq!(uids.len(), 1);
    let controlled = prepared.start().await;
    let mut changes = controlled.changes("lab");
    let app = changes.until(|app| is_current(app, "Ready")).await;
    assert_eq!(app.data["status"]["serviceName"], "app-lab");
    let kept = controlled.kept().await;
    assert_eq!(kept.pods, uids, "the same pod");
    (controlled, kept)
}

/// Checks that an app whose variables are written so keeps its pod until they change.
async fn check_take_over(written: Value) {
    let (controlled, kept) = adopted(Prepared::new().await, &written).await;
    let (namespace, client) = (&controlled.namespace.name, &controlled.namespace.client);
    let deployment = controlled
        .until_object::<Deployment>("app-lab", |it| it.annotations().contains_key(INPUTS))
        .await;
    assert!(!deployment.annotations().contains_key(HASH));
    assert!(kept.template["spec"]["initContainers"].is_array());
    let world = controlled.gateway("lab").await;
    until_page(&world, "lab", &["GREETING=one"]).await;

    // A change that does not concern the pods.
    let spec = app_spec(&written);
    controlled.namespace.app("lab", "primehub", spec).await;
    controlled.until_current("lab", "Ready").await;
    assert_eq!(controlled.kept().await, kept);

    controlled.change_variables(&variables("two")).await;
    controlled.check_own_pod(&["GREETING"]).await;
    controlled.check_owners().await;
    until_page(&world, "lab", &["GREETING=two"]).await;
    let after = controlled.kept().await;
    assert_eq!(after.addresses, kept.addresses);
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
    let sets = sets.list(&ListParams::default()).await.expect("a list");
    assert_eq!(sets.items.len(), 2, "one rollout: {:?}", sets.items);

    // PrimeHub's controller had written this variable too.
    controlled.change_variables(&json!([])).await;
    controlled.check_own_pod(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_of_primehub_keeps_its_pod_until_its_variables_change() {
    check_take_over(variables("one")).await;
}

/// Server-side apply refuses such a Deployment, and the API server records no fields of it.
#[tokio::test(flavor = "multi_thread")]
async fn two_variables_of_one_name_do_not_hinder_the_take_over() {
    let variable = |value: &str| json!({ "name": "GREETING", "value": value });
    check_take_over(json!([variable("template"), variable("one")])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_of_primehub_stops_and_starts_in_its_new_form() {
    let (controlled, _) = adopted(Prepared::new().await, &variables("one")).await;
    let change = |stop: bool| {
        let mut spec = app_spec(&variables("one"));
        spec["stop"] = stop.into();
        spec
    };
    controlled
        .namespace
        .app("lab", "public", change(true))
        .await;
    controlled.until_current("lab", "Stopped").await;
    assert!(controlled.pods("lab").await.is_empty());
    controlled
        .namespace
        .app("lab", "public", change(false))
        .await;
    controlled.until_current("lab", "Ready").await;
    controlled.check_own_pod(&["GREETING"]).await;
    controlled.check_owners().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_spec_is_not_in_force_is_applied_at_once() {
    let prepared = Prepared::new().await;
    let lab = PrimeHubApp {
        namespace: &prepared.namespace,
        name: "lab",
    };
    lab.start(&variables("two"), &variables("one")).await;
    let controlled = prepared.start().await;
    controlled.until_current("lab", "Ready").await;
    controlled.check_own_pod(&["GREETING"]).await;
    controlled.check_owners().await;
    let world = controlled.gateway("lab").await;
    until_page(&world, "lab", &["GREETING=two"]).await;
}

/// The instance type has grown since the pod was made.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_primehub_counts_for_the_quota_with_its_own_limits() {
    let platform = "[groups.phusers]\nquota = { cpu = 0.1 }\n[instance_types.cpu-1]\ncpu = 0.2\nmemory = \"32MiB\"\n";
    let (controlled, kept) = adopted(Prepared::with(platform).await, &variables("one")).await;
    let spec = app_spec(&variables("two"));
    controlled.namespace.app("lab", "public", spec).await;
    assert_eq!(
        controlled.until_phase("lab", "Error").await,
        "Group phusers exceeded cpu quota: 0.1, requesting 0.2"
    );
    assert_eq!(controlled.kept().await, kept);
}
