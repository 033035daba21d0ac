//! A lab starts: its objects, its states, and who may have which.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use ludgate_labs::{
    error::LabError,
    quantity::{CpuCores, MemoryBytes},
    size::NotebookQuota,
    state::LabStatus,
};

use crate::support::labs::{HUB_TOKEN, Labs, USER, USER_TOKEN, caller, quota, specification};

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_of_a_lab_are_made_in_their_order_and_once() {
    let labs = Labs::start().await;
    let made = Arc::new(Mutex::new(Vec::new()));
    let seen = made.clone();
    labs.faults.plan(move |object, count| {
        // Of a write that is repeated, the first.
        if count == 0 {
            seen.lock().expect("no panic").push(object.to_owned());
        }
        None
    });
    let caller = caller(Some(quota()));
    labs.service
        .create(&caller, specification(), None)
        .await
        .expect("created");
    labs.until_pod().await;
    assert_eq!(labs.status(), Some(LabStatus::Pending));
    labs.set_phase("Running").await;
    labs.events().await;
    let made = made.lock().expect("no panic").clone();
    assert_eq!(
        made,
        [
            "namespaces",
            "configmaps/rachel-nb-env",
            "configmaps/rachel-nb-nss",
            "secrets/rachel-nb",
            "resourcequotas/rachel-nb",
            "networkpolicies/rachel-nb",
            "services/lab",
            "pods/rachel-nb",
        ]
    );
    let state = labs.service.get(USER).expect("a lab");
    let url = format!("http://lab.{}:8888/nb/user/rachel/", labs.lab_namespace());
    assert_eq!(state.internal_url, Some(url));
    assert_eq!((state.status, state.has_pod), (LabStatus::Running, true));
    assert_eq!(labs.service.running(), Ok(vec![USER.to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_the_hub_and_of_the_person_are_in_the_secret_alone() {
    let labs = Labs::start().await;
    labs.run_lab().await;
    let maps = labs.config_maps().await;
    assert!(maps.contains("JUPYTERHUB_SERVICE_PREFIX"), "{maps}");
    let api: Api<Secret> = Api::namespaced(labs.namespace.client.clone(), &labs.lab_namespace());
    let secret = api.get("rachel-nb").await.expect("a Secret");
    let data = secret.data.unwrap_or_default();
    for (key, value) in [("JUPYTERHUB_API_TOKEN", HUB_TOKEN), ("token", USER_TOKEN)] {
        assert!(!maps.contains(value), "{key} in {maps}");
        let found = data.get(key).map(|value| value.0.as_slice());
        assert_eq!(found, Some(value.as_bytes()), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_lab_is_refused_and_a_repeated_request_is_not() {
    let labs = Labs::start().await;
    let again = async |key: Option<&'static str>| {
        let caller = caller(None);
        labs.service.create(&caller, specification(), key).await
    };
    assert_eq!(again(Some("first")).await, Ok(()));
    assert_eq!(again(Some("first")).await, Ok(()));
    let busy = LabError::OperationInProgress(USER.to_owned());
    assert_eq!(again(Some("second")).await, Err(busy));
    labs.until_pod().await;
    labs.set_phase("Running").await;
    labs.events().await;
    assert_eq!(again(Some("first")).await, Ok(()));
    let exists = LabError::LabExists(USER.to_owned());
    assert_eq!(again(None).await, Err(exists));
    assert_eq!(labs.faults.writes("pods/rachel-nb"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_above_the_quota_or_without_an_identity_is_refused_before_anything_is_made() {
    let labs = Labs::start().await;
    let small = NotebookQuota {
        cpu: CpuCores::new(0.5).expect("an amount"),
        memory: MemoryBytes::from_gib(1.0).expect("an amount"),
        may_spawn: true,
    };
    let none = NotebookQuota {
        may_spawn: false,
        ..quota()
    };
    let unknown = ludgate_labs::service::callers::LabCaller {
        user: None,
        ..caller(None)
    };
    for (caller, error) in [
        (caller(Some(small)), LabError::InsufficientQuota),
        (caller(Some(none)), LabError::SpawnNotAllowed),
        (unknown, LabError::NoPosixIdentity(USER.to_owned())),
    ] {
        let refused = labs.service.create(&caller, specification(), None).await;
        assert_eq!(refused, Err(error));
    }
    assert_eq!(labs.status(), None);
    assert_eq!(labs.faults.writes("namespaces"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_ends_at_once_fails_the_start_and_is_replaced() {
    let labs = Labs::start().await;
    labs.create().await.expect("created");
    labs.until_pod().await;
    labs.set_phase("Failed").await;
    let ended = Instant::now();
    let messages = labs.messages().await;
    assert!(
        ended.elapsed() < Duration::from_secs(10),
        "{:?}",
        ended.elapsed()
    );
    assert_eq!(
        messages,
        [
            "Starting lab creation for rachel",
            "Created Kubernetes objects for user lab",
            "The pod of the lab ended with phase Failed",
            "Lab spawn failed",
        ]
    );
    assert_eq!(labs.status(), Some(LabStatus::Terminated));

    let dead = labs
        .pods()
        .get("rachel-nb")
        .await
        .expect("a pod")
        .metadata
        .uid;
    labs.create().await.expect("a replacement");
    let mut pods = crate::support::changes::Changes::named(labs.pods(), "rachel-nb");
    pods.until(|pod| pod.metadata.uid != dead).await;
    labs.set_phase("Running").await;
    assert_eq!(
        labs.messages().await,
        [
            "Starting lab creation for rachel",
            "Deleting existing failed lab for rachel",
            "Shutting down Kubernetes pod",
            "Deleting user namespace",
            "Lab for rachel deleted",
            "Created Kubernetes objects for user lab",
            "Lab Kubernetes pod started for rachel",
        ]
    );
    assert_eq!(labs.status(), Some(LabStatus::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_follows_its_pod_after_the_start() {
    let labs = Labs::start().await;
    labs.run_lab().await;
    labs.set_phase("Succeeded").await;
    labs.until_status(Some(LabStatus::Terminated)).await;
    assert_eq!(labs.service.running(), Ok(Vec::new()));
}
