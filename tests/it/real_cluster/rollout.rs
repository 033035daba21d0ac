//! Pods of an app behind the gateway: their pages, their logs, and their replacement.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::support::{
    bound_volume::BoundVolume,
    controller::{Controlled, page, pod, serving},
    kube_namespace::kind_of,
    until::until,
    world::World,
};

/// The claim of the group's volume.
const CLAIM: &str = "project-phusers";
/// Requests a second, of all clients together.
const RATE: u32 = 200;
const CLIENTS: u32 = 4;
/// The shell ends at SIGTERM, and the server with it. As process 1 of a container, httpd would
/// ignore that signal.
const SERVE: &str = "www=/tmp/www$PRIMEHUB_APP_BASE_URL; mkdir -p $www; echo $GREETING >$www/index.html; trap exit TERM; httpd -f -p 5000 -h /tmp/www & wait";

/// The spec of an app whose page is a greeting.
fn greeting_app(greeting: &str) -> Value {
    let mut container = serving("true");
    container["command"] = json!(["sh", "-c", SERVE]);
    container["env"] = json!([{ "name": "GREETING", "value": greeting }]);
    // The gateway reads in the endpoints that a pod ends, a moment after its deletion begins. On a
    // loaded machine that takes some seconds.
    container["lifecycle"] = json!({ "preStop": { "exec": { "command": ["sleep", "10"] } } });
    let mut spec = pod(json!([container]));
    spec["podTemplate"]["spec"]["terminationGracePeriodSeconds"] = json!(20);
    spec["appRoot"] = "/data".into();
    spec
}

/// People who read the page of the app `lab` all the time.
struct Readers {
    world: Arc<World>,
    /// Pages of the pod before the change.
    old: AtomicU32,
    /// Pages of the pod after it.
    new: AtomicU32,
    is_over: AtomicBool,
}

impl Readers {
    /// One of the clients. Requests that are late are made up for.
    async fn read(self: Arc<Readers>) {
        let mut pace = tokio::time::interval(Duration::from_secs(1) * CLIENTS / RATE);
        while !self.is_over.load(Relaxed) {
            pace.tick().await;
            let (status, text) = page(&self.world, "lab").await;
            assert_eq!(status, 200, "{text}");
            let read = match text.as_str() {
                "one\n" => &self.old,
                "two\n" => &self.new,
                other => panic!("neither page: {other}"),
            };
            read.fetch_add(1, Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pods_page_and_its_log_are_read_through_the_gateway() {
    let controlled = Controlled::start().await;
    let namespace = &controlled.namespace;
    namespace.grant("logs.yaml").await;
    let container = serving("echo one; echo started with one >&2");
    controlled.app("lab", pod(json!([container]))).await;
    controlled.until_phase("lab", "Ready").await;
    let world = World::with(&format!("{}logs = true\n", namespace.toml()), |_| {})
        .await
        .ready()
        .await;
    world.until_running("lab").await;
    assert_eq!(page(&world, "lab").await, (200, "one\n".to_owned()));
    let pods = controlled.pods("lab").await;
    let pod = pods.first().expect("a pod").name_any();
    let mut alice = world.signed_in("alice").await;
    let log = alice.open(&format!("/api/logs/phapplications/{pod}")).await;
    assert_eq!(
        (log.status(), log.text().as_str()),
        (200, "started with one\n")
    );
}

/// The app has a volume, so that only its own word makes its pods overlap.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_the_controller_replaces_the_pod_of_an_app() {
    let platform = format!(
        "[groups.phusers]\nvolume = \"{CLAIM}\"\n[instance_types.cpu-1]\ncpu = 0.3\nmemory = \"32MiB\"\n"
    );
    let controlled = Controlled::with(&platform).await;
    let namespace = &controlled.namespace;
    let folder = BoundVolume::bind(namespace, CLAIM, "ReadWriteMany").await;
    controlled.app("lab", greeting_app("one")).await;
    controlled.until_phase("lab", "Ready").await;
    let rolling = json!({ "maxSurge": 1, "maxUnavailable": 0 });
    controlled.choose_strategy("RollingUpdate", &rolling).await;
    let pods = controlled.pods("lab").await;
    let first = pods.first().expect("a pod").name_any();

    let readers = Arc::new(Readers {
        world: Arc::new(controlled.gateway("lab").await),
        old: AtomicU32::new(0),
        new: AtomicU32::new(0),
        is_over: AtomicBool::new(false),
    });
    let begun = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| tokio::spawn(readers.clone().read()))
        .collect();
    until("the first pod is read", || readers.old.load(Relaxed) > 0).await;
    controlled.app("lab", greeting_app("two")).await;
    controlled.until_current("lab", "Ready").await;
    // The first pod serves until the gateway knows that it ends, then it is removed.
    namespace.until_gone(&kind_of::<Pod>(), &first).await;
    until("the new pod is read", || readers.new.load(Relaxed) > 0).await;
    readers.is_over.store(true, Relaxed);
    for client in clients {
        client.await.expect("no request failed");
    }

    let read = readers.old.load(Relaxed) + readers.new.load(Relaxed);
    // A busy machine may be late with most of them.
    let due = begun.elapsed().as_millis() * u128::from(RATE) / 1000;
    assert!(u128::from(read) * 10 > due, "{read} of {due} requests");
    folder.delete().await;
}
