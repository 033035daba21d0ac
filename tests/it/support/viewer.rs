//! Viewers of volumes: what their authors, the scheduler and kubelets write, and what comes of it.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use ludgate::cluster::crd::viewer::PVCViewer;
use serde_json::{Value, json};

use super::{
    changes::{Changes, POD_PATIENCE},
    controller::{Controlled, ControllerKind, Prepared},
    kube_namespace::{KubeNamespace, kind_of},
    until::holds_within,
};

/// The conditions of a viewer that has no pod.
const STOPPED: [&str; 4] = ["Invalid", "PodSpecRejected", "VolumeInUse", "Idle"];

pub fn viewers() -> ApiResource {
    kind_of::<PVCViewer>()
}

/// The name of a viewer's objects.
pub fn child(viewer: &str) -> String {
    format!("pvcviewer-{viewer}")
}

/// The labels of a viewer's objects.
pub fn labels(viewer: &str) -> Value {
    json!({
        "app.kubernetes.io/name": viewer,
        "app.kubernetes.io/instance": child(viewer),
        "app.kubernetes.io/part-of": "pvc-viewer",
    })
}

/// A volume of a pod.
pub fn claim_volume(name: &str, claim: &str) -> Value {
    json!({ "name": name, "persistentVolumeClaim": { "claimName": claim } })
}

/// The condition of this type in a status.
pub fn condition<'s>(status: &'s Value, kind: &str) -> Option<&'s Value> {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == kind)
}

/// Whether the controller has seen a viewer's spec, and lets its pod run.
pub fn is_started(viewer: &DynamicObject) -> bool {
    let status = &viewer.data["status"];
    status["observedGeneration"].as_i64() == viewer.metadata.generation
        && STOPPED.iter().all(|kind| condition(status, kind).is_none())
}

/// The nodes to which a Deployment's pods are bound; null: they are free.
pub fn required_nodes(deployment: &DynamicObject) -> Value {
    let affinity = &deployment.data["spec"]["template"]["spec"]["affinity"]["nodeAffinity"];
    let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"].clone()
}

impl KubeNamespace {
    /// Makes a viewer, or changes it.
    pub async fn viewer(&self, name: &str, spec: Value) {
        let object = json!({ "metadata": { "name": name }, "spec": spec });
        self.apply(&viewers(), &object).await;
    }

    /// Makes a claim with this access mode.
    pub async fn claim(&self, name: &str, mode: &str) {
        let resources = json!({ "requests": { "storage": "1Gi" } });
        let claim = json!({
            "metadata": { "name": name },
            "spec": { "accessModes": [mode], "resources": resources },
        });
        self.apply(&kind_of::<PersistentVolumeClaim>(), &claim)
            .await;
    }

    /// Deletes a claim, as a person does: it stays while a pod uses it.
    pub async fn delete_claim(&self, name: &str) {
        let deleted = self.claims().delete(name, &DeleteParams::default()).await;
        deleted.expect("deleted");
    }

    /// Makes a pod of a notebook that mounts claims and is bound to a node.
    pub async fn notebook(&self, name: &str, node: &str, claims: &[&str]) {
        let volumes = claims.iter().map(|claim| claim_volume(claim, claim));
        let pod = json!({
            // Many charts set this label too.
            "metadata": { "name": name, "labels": { "app.kubernetes.io/name": name } },
            "spec": {
                "nodeName": node,
                "containers": [{ "name": "notebook", "image": "notebook:1" }],
                "volumes": volumes.collect::<Vec<Value>>(),
            },
        });
        self.apply(&kind_of::<Pod>(), &pod).await;
    }

    /// Makes the pod of a viewer as its Deployment has it, bound to a node.
    pub async fn viewer_pod(&self, viewer: &str, name: &str, node: &str) {
        let deployments = self.api(&kind_of::<Deployment>());
        let deployment = deployments.get(&child(viewer)).await.expect("a Deployment");
        let mut spec = deployment.data["spec"]["template"]["spec"].clone();
        spec["nodeName"] = node.into();
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "name": child(viewer),
            "uid": deployment.uid(), "controller": true, "blockOwnerDeletion": true,
        });
        let metadata =
            json!({ "name": name, "labels": labels(viewer), "ownerReferences": [owner] });
        let pod = json!({ "metadata": metadata, "spec": spec });
        self.apply(&kind_of::<Pod>(), &pod).await;
    }

    /// Says what the kubelet of a pod, or the controller of a Deployment, says.
    pub async fn set_status<K: Resource<DynamicType = ()>>(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let api = self.api(&kind_of::<K>());
        let patched = api
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        patched.expect("a status");
    }

    /// Removes a pod, as its kubelet does when its containers have ended.
    pub async fn remove_pod(&self, name: &str) {
        let at_once = DeleteParams::default().grace_period(0);
        let pods = self.api(&kind_of::<Pod>());
        pods.delete(name, &at_once).await.expect("deleted");
    }

    /// Waits until there is no object of this name.
    pub async fn until_gone(&self, kind: &ApiResource, name: &str) {
        let api = self.api(kind);
        let is_gone = holds_within(POD_PATIENCE, async || {
            let found = api.get_opt(name).await;
            found.is_ok_and(|object| object.is_none())
        });
        assert!(is_gone.await, "{} {name} is still there", kind.kind);
    }

    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.name)
    }
}

/// A namespace with the controller of viewers. `more` is TOML: keys of its table.
pub async fn viewer_controller(more: &str) -> Controlled {
    let prepared = Prepared::for_controller(ControllerKind::Viewers, more).await;
    prepared.start().await
}

impl Controlled {
    /// Makes a viewer, and waits until its objects are made.
    pub async fn start_viewer(&self, name: &str, spec: Value) {
        self.namespace.viewer(name, spec).await;
        self.until_viewer(name, is_started).await;
    }

    /// Waits until a viewer is as wanted, and returns its status.
    pub async fn until_viewer(
        &self,
        name: &str,
        wanted: impl FnMut(&DynamicObject) -> bool,
    ) -> Value {
        let mut changes = Changes::named(self.namespace.api(&viewers()), name);
        changes.until(wanted).await.data["status"].clone()
    }

    /// Waits until a viewer is stopped for a reason with this condition, and returns the message.
    pub async fn until_stopped(&self, name: &str, kind: &str) -> String {
        let is_stopped = |viewer: &DynamicObject| {
            let status = &viewer.data["status"];
            status["observedGeneration"].as_i64() == viewer.metadata.generation
                && condition(status, kind).is_some_and(|found| found["status"] == "True")
        };
        let status = self.until_viewer(name, is_stopped).await;
        let message = condition(&status, kind).and_then(|found| found["message"].as_str());
        message.expect("a message").to_owned()
    }

    /// Waits until the Deployment of a viewer is as wanted.
    pub async fn until_deployment(
        &self,
        viewer: &str,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        self.until_object::<Deployment>(&child(viewer), wanted)
            .await
    }

    /// The object of a kind that a viewer has, or another one of that name.
    pub async fn child<K: Resource<DynamicType = ()>>(
        &self,
        viewer: &str,
    ) -> Option<DynamicObject> {
        let api = self.namespace.api(&kind_of::<K>());
        api.get_opt(&child(viewer)).await.expect("an answer")
    }

    /// Changes an annotation of a viewer, and waits until a reconcile has come of it.
    pub async fn touch(&self, viewer: &str, value: &str) {
        // Also those of a viewer that is refused.
        let reconciles = || self.reconciles() + self.count("reconciles", ",result=\"rejected\"");
        let before = reconciles();
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "touched": value } } }));
        let api = self.namespace.api(&viewers());
        let patched = api.patch(viewer, &PatchParams::default(), &patch).await;
        patched.expect("patched");
        let reconciled = holds_within(POD_PATIENCE, async || reconciles() > before);
        assert!(reconciled.await, "no reconcile of {viewer}");
    }
}
