//! The life of a viewer: it starts, changes, loses its networking, follows a pod, stops for a
//! second one, starts again, and goes with its claim.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::{
    kube::life::{Life, Lived},
    support::{
        changes::Changes,
        controller::ControllerKind,
        kube_namespace::{KubeNamespace, kind_of},
        viewer::{child, condition, is_started, required_nodes, viewers},
    },
};

/// Each step waits for the one before it, so that the writes are the same in each life.
pub struct ViewerLife;

/// The claim has the viewer's name.
fn spec(name: &str, networking: Value) -> Value {
    json!({ "pvc": name, "rwoScheduling": true, "networking": networking })
}

impl Life for ViewerLife {
    const CONTROLLER: ControllerKind = ControllerKind::Viewers;
    /// Four for the new viewer, for its change and for its networking; one for the affinity, two
    /// for the stop and for the end of it, one for the affinity, and the deletion.
    const MIN_WRITES: usize = 19;

    /// Otherwise the controller could see the claim after the viewer, and write its uid separately.
    async fn prepare(namespace: &KubeNamespace, name: &str) {
        namespace.claim(name, "ReadWriteOnce").await;
    }

    async fn live(namespace: &KubeNamespace, name: &str) -> Lived {
        let mut viewer = Changes::named(namespace.api(&viewers()), name);
        for networking in [
            json!({ "targetPort": 80, "basePrefix": "/base" }),
            json!({ "targetPort": 81, "basePrefix": "/newbase", "rewrite": "/" }),
            json!({}),
        ] {
            namespace.viewer(name, spec(name, networking.clone())).await;
            // The watch may still show the viewer before this change.
            let is_changed = |viewer: &DynamicObject| {
                let base = &viewer.data["spec"]["networking"]["basePrefix"];
                *base == networking["basePrefix"] && is_started(viewer)
            };
            viewer.until(is_changed).await;
        }
        let deployments = namespace.api(&kind_of::<Deployment>());
        let mut deployment = Changes::named(deployments, &child(name));
        let (first, second) = (format!("{name}-a"), format!("{name}-b"));
        namespace.notebook(&first, "n3", &[name]).await;
        let is_bound = |deployment: &DynamicObject| required_nodes(deployment) == json!(["n3"]);
        deployment.until(is_bound).await;
        namespace.notebook(&second, "n4", &[name]).await;
        let is_stopped =
            |viewer: &DynamicObject| condition(&viewer.data["status"], "VolumeInUse").is_some();
        viewer.until(is_stopped).await;
        namespace.remove_pod(&second).await;
        viewer.until(is_started).await;
        namespace.remove_pod(&first).await;
        let is_free = |deployment: &DynamicObject| {
            required_nodes(deployment).is_null() && deployment.data["spec"]["replicas"] == 1
        };
        deployment.until(is_free).await;
        let label = format!("app.kubernetes.io/instance={}", child(name));
        let lived = Lived::so_far(namespace, name, &child(name), &label).await;

        namespace.delete_claim(name).await;
        namespace.until_gone(&viewers(), name).await;
        namespace
            .until_gone(&kind_of::<Deployment>(), &child(name))
            .await;
        lived
    }
}
