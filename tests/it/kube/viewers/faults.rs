//! The API server refuses writes for viewers, loses them or is away: every viewer gets what it
//! should have, and nothing twice.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use serde_json::json;

use super::life::ViewerLife;
use crate::{
    kube::{
        faults::outlast_lease,
        life::{Life, Lived},
    },
    support::{
        api_faults::{ApiFaults, FaultCase},
        api_relay::ApiRelay,
        controller::{ControllerKind, Prepared},
        kube_namespace::kind_of,
        viewer::{child, is_started, viewers},
    },
};

/// Viewers that live at the same time.
const CONCURRENCY: usize = 16;
/// How long the API server is away: long past the loss of the controller's lease.
const OUTAGE: Duration = Duration::from_secs(60);
/// The most writes of a life: the one that failed comes again, and a status may be written twice
/// before the controller sees that it is.
const MAX_WRITES: usize = 2 * ViewerLife::MIN_WRITES;

#[tokio::test(flavor = "multi_thread")]
async fn a_write_for_a_viewer_that_fails_in_any_way_is_done_later_and_once() {
    let prepared = Prepared::for_controller(ControllerKind::Viewers, "").await;
    let faults = ApiFaults::insert(&prepared.kubeconfig, FaultCase::plan).await;
    let cases = || FaultCase::all(ViewerLife::MIN_WRITES);
    // The controller lists all claims before it sees a viewer.
    ViewerLife::prepare(&prepared.namespace, "undisturbed").await;
    for case in cases() {
        ViewerLife::prepare(&prepared.namespace, &case.object()).await;
    }
    let controlled = prepared.start().await;
    let namespace = &controlled.namespace;
    let wanted = ViewerLife::live(namespace, "undisturbed").await;
    let lives = stream::iter(cases().map(|case| async move {
        let lived = ViewerLife::live(namespace, &case.object()).await;
        (case, lived)
    }));
    let lives: Vec<(FaultCase, Lived)> = lives.buffer_unordered(CONCURRENCY).collect().await;
    for (case, lived) in lives {
        let (fault, at) = (case.fault(), case.at);
        assert_eq!(lived, wanted, "{fault:?} of write {at}");
        let writes = faults.writes(&case.object());
        assert!(
            writes > at && writes <= MAX_WRITES,
            "{fault:?} of write {at}: {writes} writes"
        );
    }
    let failed = controlled.count("reconciles", ",result=\"transient_error\"");
    assert!(failed > 0.0, "the faults were met");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_of_a_minute_the_viewers_catch_up() {
    let prepared = Prepared::for_controller(ControllerKind::Viewers, "").await;
    let relay = ApiRelay::insert(&prepared.kubeconfig).await;
    for claim in ["before", "during", "gone"] {
        prepared.namespace.claim(claim, "ReadWriteOnce").await;
    }
    let controlled = prepared.start().await;
    let namespace = &controlled.namespace;
    let networking = json!({ "targetPort": 80, "basePrefix": "/base" });
    let spec = |claim: &str| json!({ "pvc": claim, "networking": networking });
    for viewer in ["before", "gone"] {
        controlled.start_viewer(viewer, spec(viewer)).await;
    }

    let outage = tokio::time::sleep(OUTAGE);
    relay.cut().await;
    namespace.viewer("during", spec("during")).await;
    namespace.viewer("before", json!({ "pvc": "before" })).await;
    namespace.delete_claim("gone").await;
    outlast_lease(&controlled).await;
    outage.await;
    relay.mend();

    controlled.until_viewer("during", is_started).await;
    controlled.until_viewer("before", is_started).await;
    namespace
        .until_gone(&kind_of::<Service>(), &child("before"))
        .await;
    namespace.until_gone(&viewers(), "gone").await;
    namespace
        .until_gone(&kind_of::<Deployment>(), &child("gone"))
        .await;
    // Written once; and once more, since its base path has changed.
    for (viewer, generation) in [("during", 1), ("before", 2)] {
        let deployment = controlled.child::<Deployment>(viewer).await;
        let deployment = deployment.expect("a Deployment");
        assert_eq!(deployment.metadata.generation, Some(generation), "{viewer}");
    }
}
