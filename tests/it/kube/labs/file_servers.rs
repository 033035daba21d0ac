//! File servers are created on demand, and their objects are deleted with them.

use k8s_openapi::api::{
    core::v1::{Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::Api;
use ludgate_labs::error::LabError;
use serde_json::json;

use crate::support::{
    changes::{Changes, POD_PATIENCE},
    file_servers::{ADMIN_POD, FileServersInCluster, OWNER, SERVER, gateway_pods},
    until::holds_within,
};

/// Seconds that no test waits for.
const LONG: u64 = 120;

/// The message of a failed creation.
fn failure(created: Result<(), LabError>) -> String {
    match created {
        Err(LabError::ServerFailed { kind, message }) => {
            assert_eq!(kind, "file_server_create_failed");
            message
        }
        other => panic!("not failed: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_idle_is_deleted_and_created_again_on_demand() {
    let files = FileServersInCluster::start(LONG).await;
    let job = files.run_server().await;
    let servers = files.servers();
    assert_eq!(servers.is_running(OWNER), Ok(true));
    assert_eq!(servers.is_running("ross"), Ok(false));
    assert_eq!(servers.running(), Ok(vec![OWNER.to_owned()]));
    // It runs already.
    assert_eq!(files.begin().await.expect("no panic"), Ok(()));
    assert_eq!(
        files.objects().await.lines().collect::<Vec<_>>(),
        [
            "job.batch/rachel-fs",
            "pod/rachel-fs",
            "service/rachel-fs",
            "networkpolicy.networking.k8s.io/rachel-fs",
            "persistentvolumeclaim/rachel-fs-pvc-scratch",
        ]
    );
    files.set_phase(SERVER, "Succeeded").await;
    files.until_nothing_is_left().await;
    assert_eq!(servers.running(), Ok(Vec::new()));
    let next = files.run_server().await;
    assert_ne!(next.metadata.uid, job.metadata.uid);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_a_server_is_found_by_the_labels_of_its_owner() {
    let files = FileServersInCluster::start(LONG).await;
    files.run_server().await;
    let services: Api<Service> =
        Api::namespaced(files.namespace.client.clone(), &files.namespace.name);
    let service = services.get(SERVER).await.expect("a Service");
    let spec = service.spec.expect("a spec");
    let labels = spec.selector.expect("a selector");
    for (name, value) in [
        ("nublado.lsst.io/category", "fileserver"),
        ("nublado.lsst.io/user", OWNER),
    ] {
        assert_eq!(labels[name], value);
        let own = service.metadata.labels.as_ref().expect("labels");
        assert_eq!(own[name], value);
    }
    let ports: Vec<i32> = spec.ports.iter().flatten().map(|port| port.port).collect();
    assert_eq!(ports, [8000]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_gateway_connects_to_a_server() {
    let files = FileServersInCluster::start(LONG).await;
    files.run_server().await;
    let policies: Api<NetworkPolicy> =
        Api::namespaced(files.namespace.client.clone(), &files.namespace.name);
    let policy = policies.get(SERVER).await.expect("a NetworkPolicy");
    let spec = serde_json::to_value(policy.spec).expect("JSON");
    let labels = &spec["podSelector"]["matchLabels"];
    assert_eq!(labels["nublado.lsst.io/user"], OWNER);
    assert_eq!(labels["nublado.lsst.io/category"], "fileserver");
    assert_eq!(spec["policyTypes"], json!(["Ingress"]));
    let ports = json!([{ "port": 8000, "protocol": "TCP" }]);
    let ingress = json!([{ "from": [gateway_pods()], "ports": ports }]);
    assert_eq!(spec["ingress"], ingress);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_the_same_time_get_one_server() {
    let files = FileServersInCluster::start(LONG).await;
    let others = [files.begin(), files.begin(), files.begin()];
    files.run_server().await;
    for other in others {
        assert_eq!(other.await.expect("no panic"), Ok(()));
    }
    assert_eq!(files.objects().await.lines().count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_deleted_while_it_runs_and_while_it_starts() {
    let files = FileServersInCluster::start(LONG).await;
    assert_eq!(files.delete().await, Err(LabError::unknown_user(OWNER)));
    files.run_server().await;
    assert_eq!(files.delete().await, Ok(()));
    assert_eq!(files.objects().await, "");
    let creation = files.begin();
    let job = files.until_job().await;
    files.make_pod(&job).await;
    assert_eq!(files.delete().await, Ok(()));
    let message = failure(creation.await.expect("no panic"));
    assert!(message.contains("cancelled"), "{message}");
    files.until_nothing_is_left().await;
    assert_eq!(files.delete().await, Err(LabError::unknown_user(OWNER)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_start_in_time_or_ends_at_once_leaves_nothing() {
    let files = FileServersInCluster::start(2).await;
    let message = failure(files.begin().await.expect("no panic"));
    assert!(message.contains("Timed out after 2 seconds"), "{message}");
    files.until_nothing_is_left().await;
    let files = FileServersInCluster::start(LONG).await;
    let creation = files.begin();
    let job = files.until_job().await;
    files.make_pod(&job).await;
    files.set_phase(SERVER, "Failed").await;
    let message = failure(creation.await.expect("no panic"));
    assert!(message.contains("its pod has ended"), "{message}");
    files.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_server_without_its_job_is_deleted() {
    let files = FileServersInCluster::start(LONG).await;
    files.run_server().await;
    let arguments = ["delete", "job", SERVER, "--wait=false"];
    files.namespace.kubectl(&arguments, "").await;
    files.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_process_knows_what_runs_and_deletes_what_was_begun() {
    let files = FileServersInCluster::start(LONG).await;
    files.run_server().await;
    let files = files.restart().await;
    assert_eq!(files.servers().running(), Ok(vec![OWNER.to_owned()]));
    assert_eq!(files.delete().await, Ok(()));
    let creation = files.begin();
    files.until_job().await;
    let files = files.restart().await;
    let created = creation.await.expect("no panic");
    assert!(
        matches!(created, Err(LabError::Unavailable(_))),
        "{created:?}"
    );
    files.until_nothing_is_left().await;
    files.run_server().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_for_administrators_runs_until_it_is_stopped() {
    let files = FileServersInCluster::start(LONG).await;
    let admin = files.admin();
    assert!(matches!(admin.started_at(), Err(LabError::NotFound(_))));
    let starting = {
        let admin = admin.clone();
        tokio::spawn(async move { admin.start().await })
    };
    let pods = files.pods();
    Changes::named(pods, ADMIN_POD).until(|_: &Pod| true).await;
    files.set_phase(ADMIN_POD, "Running").await;
    let started = starting.await.expect("no panic").expect("started");
    assert!(started.ends_with('Z'), "{started}");
    assert_eq!(admin.start().await, Ok(started.clone()));
    assert_eq!(admin.started_at(), Ok(started));
    assert_eq!(admin.stop().await, Ok(()));
    assert!(matches!(admin.started_at(), Err(LabError::NotFound(_))));
    assert_eq!(files.objects().await, "");
    assert_eq!(admin.stop().await, Ok(()));
    // One that has ended by itself is replaced.
    let starting = {
        let admin = admin.clone();
        tokio::spawn(async move { admin.start().await })
    };
    Changes::named(files.pods(), ADMIN_POD)
        .until(|_: &Pod| true)
        .await;
    files.set_phase(ADMIN_POD, "Failed").await;
    assert!(starting.await.expect("no panic").is_err());
    let is_gone = holds_within(POD_PATIENCE, async || files.objects().await.is_empty());
    assert!(is_gone.await, "left: {}", files.objects().await);
}
