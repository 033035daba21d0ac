//! Pods of a Deployment behind the gateway: their pages, their logs, and their replacement.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::json;

use super::busybox::Busybox;
use crate::support::{
    changes::POD_PATIENCE, kube_namespace::KubeNamespace, until::holds_within, world::World,
};

const PAGE: &str = "GET /apps/lab/ HTTP/1.1\r\nHost: HOST\r\n\r\n";

/// A gateway with the shipped rights, and a PhApplication `lab` whose pods are ready.
async fn gateway(namespace: &KubeNamespace) -> World {
    namespace.grant("logs.yaml").await;
    namespace.app("lab", "public", json!({})).await;
    let world = World::with(&format!("{}logs = true\n", namespace.toml()), |_| {})
        .await
        .ready()
        .await;
    world.until_running("lab").await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pods_page_and_its_log_are_read_through_the_gateway() {
    let namespace = KubeNamespace::new().await;
    let lab = Busybox {
        namespace: &namespace,
        name: "lab",
        replicas: 1,
    };
    lab.apply("one").await;
    lab.rolled_out().await;
    let world = gateway(&namespace).await;
    let page = world.exchange(PAGE).await;
    assert_eq!((page.status(), page.text().as_str()), (200, "one\n"));
    let pods = ["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"];
    let pod = namespace.kubectl(&pods, "").await;
    let mut alice = world.signed_in("alice").await;
    let log = alice.open(&format!("/api/logs/phapplications/{pod}")).await;
    assert_eq!(
        (log.status(), log.text().as_str()),
        (200, "started with one\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_the_pods_are_replaced() {
    let namespace = KubeNamespace::new().await;
    let lab = Busybox {
        namespace: &namespace,
        name: "lab",
        replicas: 2,
    };
    lab.apply("one").await;
    lab.rolled_out().await;
    let world = Arc::new(gateway(&namespace).await);
    let (answered, done) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let clients = (0..4).map(|_| {
        let (world, answered, done) = (world.clone(), answered.clone(), done.clone());
        tokio::spawn(async move {
            // Fifty requests a second each.
            let mut pace = tokio::time::interval(Duration::from_millis(20));
            while !done.load(Relaxed) {
                pace.tick().await;
                let page = world.exchange(PAGE).await;
                assert_eq!(page.status(), 200, "{}", page.text());
                answered.fetch_add(1, Relaxed);
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    lab.apply("two").await;
    lab.rolled_out().await;
    let during = answered.load(Relaxed);
    assert!(during > 100, "{during} requests during the rollout");
    // The old pods answer until the gateway knows that they end.
    let is_new = holds_within(POD_PATIENCE, async || {
        world.exchange(PAGE).await.text() == "two\n"
    });
    assert!(is_new.await, "the old page is still there");
    done.store(true, Relaxed);
    for client in clients {
        client.await.expect("no request failed");
    }
}
