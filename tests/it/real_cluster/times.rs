//! How soon the phase of an app says what is so.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::DeleteParams, runtime::watcher};
use serde_json::json;

use crate::support::{
    changes::Changes,
    controller::{Controlled, pod, serving},
    until::assert_soon,
};

/// From the pod's change to the phase, by way of the Deployment's status.
const AFTER_THE_POD: Duration = Duration::from_secs(2);
const WRONG_IMAGE: Duration = Duration::from_secs(60);

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status
        .and_then(|it| it.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

/// The two moments were seen by watches of one process: the machine's load delays both.
fn check_delay(pod: Instant, phase: Instant, what: &str) {
    let delay = phase.saturating_duration_since(pod);
    println!("{what}: {delay:?} after the pod");
    assert_soon(AFTER_THE_POD, delay);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_follows_its_pod_within_two_seconds() {
    let controlled = Controlled::start().await;
    let api: Api<Pod> = Api::namespaced(
        controlled.namespace.client.clone(),
        &controlled.namespace.name,
    );
    let of_app = watcher::Config::default().labels("primehub.io/phapplication=app-lab");
    let mut pods = Changes::new(api.clone(), of_app);
    let mut phases = controlled.changes("lab");
    controlled.app("lab", json!({})).await;
    let mut earlier = String::new();
    for round in 1..=3 {
        let ((name, ready), appeared) = tokio::join!(
            async {
                let pod = pods
                    .until(|it| it.name_any() != earlier && is_ready(it))
                    .await;
                (pod.name_any(), Instant::now())
            },
            async {
                phases
                    .until(|it| it.data["status"]["phase"] == "Ready")
                    .await;
                Instant::now()
            },
        );
        check_delay(ready, appeared, &format!("Ready, round {round}"));
        earlier = name;
        let parameters = DeleteParams::default();
        api.delete(&earlier, &parameters).await.expect("deleted");
        let (ending, left) = tokio::join!(
            async {
                let is_ending =
                    |it: &Pod| it.name_any() == earlier && it.metadata.deletion_timestamp.is_some();
                pods.until(is_ending).await;
                Instant::now()
            },
            async {
                phases
                    .until(|it| it.data["status"]["phase"] != "Ready")
                    .await;
                Instant::now()
            },
        );
        check_delay(ending, left, &format!("no longer Ready, round {round}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_image_is_an_error_that_names_it_within_a_minute() {
    let controlled = Controlled::start().await;
    let mut missing = serving("env");
    missing["image"] = "localhost/missing:1".into();
    let made = Instant::now();
    controlled.app("lab", pod(json!([missing]))).await;
    let message = controlled.until_phase("lab", "Error").await;
    assert!(made.elapsed() < WRONG_IMAGE, "{:?}", made.elapsed());
    assert!(message.contains("localhost/missing:1"), "{message}");
}
