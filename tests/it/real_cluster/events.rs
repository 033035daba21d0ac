//! What happened to an app is told in Events.

use futures_util::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;

use super::controller::Controlled;
use crate::support::message::PATIENCE;

impl Controlled {
    /// Waits for an Event of an app, and returns its message.
    async fn until_event(&self, app: &str, kind: &str, reason: &str) -> String {
        let api: Api<Event> = Api::namespaced(self.namespace.client.clone(), &self.namespace.name);
        let fields = format!("involvedObject.kind=PhApplication,involvedObject.name={app}");
        let config = watcher::Config::default().fields(&fields);
        let events = watcher(api, config).default_backoff().applied_objects();
        pin_mut!(events);
        let found = async {
            loop {
                let event = events.next().await.expect("a watch does not end");
                let Ok(event) = event else { continue };
                let found = (event.type_.as_deref(), event.reason.as_deref());
                if found == (Some(kind), Some(reason)) {
                    return event.message.unwrap_or_default();
                }
            }
        };
        let waited = tokio::time::timeout(PATIENCE, found).await;
        waited.unwrap_or_else(|_| panic!("{app} has no event {kind} {reason}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_phase_are_events() {
    let controlled = Controlled::start().await;
    let node = json!({ "podTemplate": { "spec": { "hostNetwork": true, "containers": [{
        "name": "app", "image": "localhost/busybox:1",
    }] } } });
    controlled.app("lab", node).await;
    assert_eq!(
        controlled.until_event("lab", "Warning", "Error").await,
        "podTemplate: not allowed: hostNetwork"
    );
    controlled.app("lab", json!({})).await;
    assert_eq!(
        controlled.until_event("lab", "Normal", "Ready").await,
        "Deployment is ready"
    );
    let described = controlled
        .namespace
        .kubectl(&["describe", "phapplication", "lab"], "")
        .await;
    assert!(
        described.contains("podTemplate: not allowed: hostNetwork"),
        "{described}"
    );
}
