//! The lives of objects, for tests that disturb their controller: the same steps lead to the same
//! children, each written as often as without the disturbance.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service, networking::v1::NetworkPolicy};
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::support::{
    changes::Changes,
    controller::{ControllerKind, is_current},
    kube_namespace::{KubeNamespace, kind_of, phapplications},
};

/// What an object has after its life.
#[derive(Debug, PartialEq, Eq)]
pub struct Lived {
    /// How often its Deployment was written.
    generation: Option<i64>,
    /// The kinds and names of its children; `NAME` stands for the object's name.
    children: Vec<String>,
}

impl Lived {
    /// What an object has now: its Deployment, and the children with this label.
    pub async fn so_far(namespace: &KubeNamespace, name: &str, child: &str, label: &str) -> Lived {
        let deployments = namespace.api(&kind_of::<Deployment>());
        let deployment = deployments.get(child).await.expect("a Deployment");
        let selected = ListParams::default().labels(label);
        let mut children = Vec::new();
        for kind in [
            kind_of::<Deployment>(),
            kind_of::<Service>(),
            kind_of::<NetworkPolicy>(),
        ] {
            let listed = namespace.api(&kind).list(&selected).await.expect("a list");
            let names = listed.items.iter().map(ResourceExt::name_any);
            children.extend(names.map(|it| format!("{} {}", kind.kind, it.replace(name, "NAME"))));
        }
        Lived {
            generation: deployment.metadata.generation,
            children,
        }
    }
}

/// The steps of an object's life.
pub trait Life {
    /// Who makes its children.
    const CONTROLLER: ControllerKind;
    /// The least number of writes for it.
    const MIN_WRITES: usize;

    /// Makes what must be there before the controller starts.
    async fn prepare(namespace: &KubeNamespace, name: &str);

    /// Takes an object of this name through all steps.
    async fn live(namespace: &KubeNamespace, name: &str) -> Lived;
}

/// An app that starts, changes, stops, starts again and loses its port. No pods run here, and
/// nothing writes the status of a Deployment.
pub struct ApplicationLife;

impl Life for ApplicationLife {
    const CONTROLLER: ControllerKind = ControllerKind::Applications;
    /// Five for the new app, four deletions and changes of the Deployment, and statuses. A status
    /// that changes twice in a short time may be written once.
    const MIN_WRITES: usize = 12;

    async fn prepare(_: &KubeNamespace, _: &str) {}

    async fn live(namespace: &KubeNamespace, app: &str) -> Lived {
        for (more, phase) in application_steps() {
            namespace.app(app, "public", more).await;
            let mut changes = Changes::named(namespace.api(&phapplications()), app);
            changes.until(|app| is_current(app, phase)).await;
        }
        let child = format!("app-{app}");
        let label = format!("primehub.io/phapplication={child}");
        Lived::so_far(namespace, app, &child, &label).await
    }
}

/// What happens to an app, in order, with the phase that follows.
fn application_steps() -> [(Value, &'static str); 5] {
    let pod = |env: &str| {
        json!({ "spec": { "containers": [{
            "name": "app", "image": "app:1", "env": [{ "name": "A", "value": env }],
        }] } })
    };
    [
        (json!({ "podTemplate": pod("1") }), "Starting"),
        (json!({ "podTemplate": pod("2") }), "Starting"),
        (json!({ "podTemplate": pod("2"), "stop": true }), "Stopping"),
        (json!({ "podTemplate": pod("2") }), "Starting"),
        (
            json!({ "podTemplate": pod("2"), "svcTemplate": { "spec": { "ports": [] } } }),
            "Starting",
        ),
    ]
}
