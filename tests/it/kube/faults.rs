//! The API server refuses writes of the controller, loses its connections or is away: every app
//! gets what it should have, and nothing twice.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::json;

use crate::support::{
    api_faults::{ApiFaults, FaultCase},
    api_relay::ApiRelay,
    changes::POD_PATIENCE,
    controller::{Controlled, Prepared},
    until::holds_within,
};

/// Two policies, the Service, the Deployment and the status.
const WRITES: usize = 5;

/// Asserts that an app has one of each child, as the controller made it at first.
async fn assert_made_once(controlled: &Controlled, app: &str) {
    let label = format!("primehub.io/phapplication=app-{app}");
    let names = controlled
        .namespace
        .kubectl(
            &["get", "deploy,svc,netpol", "-l", &label, "-o", "name"],
            "",
        )
        .await;
    let wanted = [
        format!("deployment.apps/app-{app}"),
        format!("service/app-{app}"),
        format!("networkpolicy.networking.k8s.io/app-{app}-group"),
        format!("networkpolicy.networking.k8s.io/app-{app}-proxy"),
    ];
    assert_eq!(names.lines().collect::<Vec<_>>(), wanted);
    let api: Api<Deployment> = Api::namespaced(
        controlled.namespace.client.clone(),
        &controlled.namespace.name,
    );
    let deployment = api.get(&format!("app-{app}")).await.expect("a Deployment");
    assert_eq!(
        deployment.metadata.generation,
        Some(1),
        "{app}: written twice"
    );
}

/// Waits until a controller without the API server has stopped: longer than the lease lasts, so
/// another process could lead now.
pub async fn outlast_lease(controlled: &Controlled) {
    let stopped = holds_within(POD_PATIENCE, async || !controlled.leads().await).await;
    assert!(stopped, "a controller that cannot renew its lease stops");
    assert!(controlled.count("watch_errors", "") > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_fails_in_any_way_is_done_later_and_once() {
    let prepared = Prepared::new().await;
    let faults = ApiFaults::insert(&prepared.kubeconfig, FaultCase::plan).await;
    let controlled = prepared.start().await;
    for case in FaultCase::all(WRITES) {
        controlled.app(&case.object(), json!({})).await;
    }
    for case in FaultCase::all(WRITES) {
        let app = case.object();
        controlled.until_phase(&app, "Starting").await;
        assert_made_once(&controlled, &app).await;
        // The one that failed, again; and those of its reconcile that had not come yet.
        let writes = faults.writes(&app);
        assert!(
            writes > case.at && writes <= 2 * WRITES + 1,
            "{:?} of write {}: {writes} writes",
            case.fault(),
            case.at
        );
    }
    let failed = controlled.count("reconciles", ",result=\"transient_error\"");
    assert!(failed > 0.0, "the faults were met");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_long_outage_the_controller_catches_up() {
    let prepared = Prepared::new().await;
    let relay = ApiRelay::insert(&prepared.kubeconfig).await;
    let controlled = prepared.start().await;
    controlled.app("before", json!({})).await;
    controlled.until_phase("before", "Starting").await;

    relay.cut().await;
    controlled.app("during", json!({})).await;
    controlled.app("before", json!({ "stop": true })).await;
    outlast_lease(&controlled).await;
    relay.mend();

    controlled.until_phase("during", "Starting").await;
    // No controller of Deployments runs here, which would say that no pod is left.
    controlled.until_phase("before", "Stopping").await;
    assert_made_once(&controlled, "during").await;
}
