//! Events of apps.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::ListParams, runtime::watcher};
use serde_json::json;

use crate::support::{changes::Changes, controller::Controlled};

/// The Events of an app.
fn of_app(app: &str) -> String {
    format!("involvedObject.kind=PhApplication,involvedObject.name={app}")
}

impl Controlled {
    fn events(&self) -> Api<Event> {
        Api::namespaced(self.namespace.client.clone(), &self.namespace.name)
    }

    /// Waits for an Event of an app.
    async fn until_event(&self, app: &str, is_wanted: impl Fn(&Event) -> bool) -> Event {
        let selected = watcher::Config::default().fields(&of_app(app));
        Changes::new(self.events(), selected).until(is_wanted).await
    }

    /// Waits for an Event of an app, and returns its message.
    async fn until_message(&self, app: &str, kind: &str, reason: &str) -> String {
        let wanted = (Some(kind), Some(reason));
        let event = self
            .until_event(app, |event| {
                (event.type_.as_deref(), event.reason.as_deref()) == wanted
            })
            .await;
        event.message.unwrap_or_default()
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
        controlled.until_message("lab", "Warning", "Error").await,
        "podTemplate: not allowed: hostNetwork"
    );
    controlled.app("lab", json!({})).await;
    assert_eq!(
        controlled.until_message("lab", "Normal", "Ready").await,
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

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_crashes_again_and_again_has_one_event_for_each_reason() {
    let controlled = Controlled::start().await;
    let crash = json!({ "podTemplate": { "spec": { "containers": [{
        "name": "app", "image": "localhost/busybox:1", "command": ["sh", "-c", "exit 3"],
    }] } } });
    controlled.app("lab", crash).await;
    controlled
        .until_event("lab", |event| {
            let count = event.series.as_ref().and_then(|series| series.count);
            event.reason.as_deref() == Some("CrashLoopBackOff") && count >= Some(2)
        })
        .await;
    let params = ListParams::default().fields(&of_app("lab"));
    let listed = controlled.events().list(&params).await.expect("a list");
    let mut reasons: Vec<_> = listed.iter().map(|event| event.reason.clone()).collect();
    reasons.sort();
    let once: BTreeSet<_> = reasons.iter().cloned().collect();
    assert_eq!(reasons.len(), once.len(), "{reasons:?}");
}
