//! `PVCViewer`: a web app that shows the files of a volume, as Kubeflow defines it.
//!
//! Invariant: every object that Kubeflow's definition and webhook accept is accepted, except for
//! changes of `pvc`. The bounds of lengths are those of Kubernetes' names; CEL needs them to
//! estimate the cost of a rule.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::schema::whole;
use crate::conditions::{self, Condition};

/// Prefix of the names of a viewer's Deployment, Service and NetworkPolicy.
pub const VIEWER_PREFIX: &str = "pvcviewer-";
/// Label of a viewer's objects with the viewer's name.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";
/// Label of a viewer's objects with the name of its Deployment.
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
/// Label of the objects of all viewers.
pub const PART_OF_LABEL: &str = "app.kubernetes.io/part-of";
/// The value of [`PART_OF_LABEL`].
pub const PART_OF: &str = "pvc-viewer";
/// Annotation of a viewer: it is scaled to zero after this time without use, such as `30m`. `0`:
/// never.
pub const IDLE_AFTER_ANNOTATION: &str = "ludgate/idle-after";

/// The pod mounts the claim. Clients in Go write an absent pod as `{"containers": null}`, which the
/// server stores as `{}`.
const USES_CLAIM: &str = "!has(self.podSpec) || !has(self.podSpec.containers) || \
    (has(self.podSpec.volumes) && self.podSpec.volumes.exists(volume, \
    has(volume.persistentVolumeClaim) && has(volume.persistentVolumeClaim.claimName) && \
    volume.persistentVolumeClaim.claimName == self.pvc))";
/// The message of [`USES_CLAIM`], as an expression.
const UNUSED_CLAIM: &str = "'PVC ' + self.pvc + ' must be used in the podSpec'";

/// The volume to show, and how.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "kubeflow.org",
    version = "v1alpha1",
    kind = "PVCViewer",
    plural = "pvcviewers",
    namespaced,
    doc = "A web app that shows the files of a volume.",
    status = "PVCViewerStatus",
    printcolumn = r#"{"name":"Claim","type":"string","jsonPath":".spec.pvc"}"#,
    printcolumn = r#"{"name":"Ready","type":"boolean","jsonPath":".status.ready"}"#,
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".status.url"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[x_kube(
    validation = Rule::new(USES_CLAIM).message(Message::Expression(UNUSED_CLAIM.into()))
)]
#[serde(rename_all = "camelCase")]
pub struct PVCViewerSpec {
    /// The name of the PersistentVolumeClaim. It cannot be changed.
    #[schemars(length(max = 253))]
    #[x_kube(
        validation = Rule::new("self != ''").message("PVC name must be specified"),
        validation = Rule::new("self == oldSelf").message("PVC name is immutable")
    )]
    pub pvc: String,
    /// The pod to run, which mounts the claim; without it the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod_spec")]
    pub pod_spec: Option<Map<String, Value>>,
    /// How the pod is reached; without it there is no Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<ViewerNetworking>,
    /// Whether the pod of a ReadWriteOnce claim runs on the node where other pods use the claim.
    #[serde(default)]
    pub rwo_scheduling: bool,
}

/// How a viewer's pod is reached.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewerNetworking {
    /// The pod's port; without it 80.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_string")]
    pub target_port: Option<IntOrString>,
    /// The viewer's path is this one with `/<namespace>/<name>/` at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_prefix: Option<String>,
    /// Replaces the viewer's path when a request is forwarded; without it the path stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<String>,
    /// Deadline of a request, such as `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

/// The observed state of the viewer.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PVCViewerStatus {
    /// The pod's conditions, and why there is no pod: `Invalid`, `PodSpecRejected`, `VolumeInUse`
    /// or `Idle`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::list_schema")]
    pub conditions: Vec<Condition>,
    /// Whether the viewer can be used: its pod has the conditions `Ready` and `ContainersReady`.
    #[serde(default)]
    pub ready: bool,
    /// The viewer's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The generation of the spec that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A pod's spec as a whole, with the fields that a rule reads: CEL knows only declared ones.
fn pod_spec(generator: &mut SchemaGenerator) -> Schema {
    let mut volume = whole(generator);
    let mut claim = whole(generator);
    let name = json!({ "claimName": { "type": "string", "maxLength": 253 } });
    claim.insert("properties".into(), name);
    volume.insert(
        "properties".into(),
        json!({ "persistentVolumeClaim": claim }),
    );
    let mut spec = whole(generator);
    let fields = json!({
        "containers": { "type": "array", "items": whole(generator) },
        "volumes": { "type": "array", "maxItems": 1000, "items": volume },
    });
    spec.insert("properties".into(), fields);
    spec
}

fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-int-or-string": true })
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;

    fn definition() -> Value {
        serde_json::to_value(PVCViewer::crd()).expect("JSON")
    }

    #[test]
    fn the_server_validates_with_the_messages_of_kubeflows_webhook() {
        let definition = definition();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let spec = &schema["properties"]["spec"];
        let rules = "x-kubernetes-validations";
        assert_eq!(
            spec["properties"]["pvc"][rules],
            json!([
                { "rule": "self != ''", "message": "PVC name must be specified" },
                { "rule": "self == oldSelf", "message": "PVC name is immutable" },
            ])
        );
        assert_eq!(
            spec[rules],
            json!([{ "rule": USES_CLAIM, "messageExpression": UNUSED_CLAIM }])
        );
        // A rule over unbounded texts and lists is refused as too expensive.
        assert_eq!(spec["properties"]["pvc"]["maxLength"], 253);
        let pod = &spec["properties"]["podSpec"];
        assert_eq!(pod["x-kubernetes-preserve-unknown-fields"], true);
        let volumes = &pod["properties"]["volumes"];
        assert_eq!(volumes["maxItems"], 1000);
        let volume = &volumes["items"];
        assert_eq!(volume["x-kubernetes-preserve-unknown-fields"], true);
        let claim = &volume["properties"]["persistentVolumeClaim"];
        assert_eq!(claim["properties"]["claimName"]["maxLength"], 253);
    }

    #[test]
    fn fields_have_kubeflows_names_types_and_defaults() {
        let definition = definition();
        assert_eq!(definition["metadata"]["name"], "pvcviewers.kubeflow.org");
        let version = &definition["spec"]["versions"][0];
        assert_eq!(version["subresources"]["status"], json!({}));
        let schema = &version["schema"]["openAPIV3Schema"]["properties"];
        let spec = &schema["spec"];
        assert_eq!(spec["required"], json!(["pvc"]));
        assert_eq!(spec["properties"]["rwoScheduling"]["default"], false);
        let networking = &spec["properties"]["networking"]["properties"];
        for (field, key, wanted) in [
            ("targetPort", "x-kubernetes-int-or-string", json!(true)),
            ("basePrefix", "type", json!("string")),
            ("rewrite", "type", json!("string")),
            ("timeout", "type", json!("string")),
        ] {
            assert_eq!(networking[field][key], wanted, "{field}");
        }
        let status = &schema["status"]["properties"];
        assert_eq!(status["ready"]["default"], false);
        assert_eq!(status["conditions"]["x-kubernetes-list-type"], "map");
    }

    #[test]
    fn a_viewer_is_read_and_written_without_loss() {
        let port = |port: Value| {
            json!({
                "pvc": "data", "rwoScheduling": true,
                "podSpec": { "containers": [{ "name": "a", "aFieldOfTomorrow": [1] }] },
                "networking": { "targetPort": port, "basePrefix": "/b", "rewrite": "/" },
            })
        };
        for written in [port(json!(8080)), port(json!("http"))] {
            let read: PVCViewerSpec = serde_json::from_value(written.clone()).expect("a spec");
            assert_eq!(serde_json::to_value(&read).expect("JSON"), written);
        }
        let least: PVCViewerSpec = serde_json::from_value(json!({ "pvc": "data" })).expect("read");
        assert!(!least.rwo_scheduling && least.networking.is_none());
    }
}
