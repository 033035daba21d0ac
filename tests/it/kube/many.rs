//! Ten thousand apps: known in a moment, and a change of one of them without another list.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use kube::{Api, Client, api::DynamicObject};
use serde_json::json;

use super::namespace::Namespace;
use crate::support::kube_namespace::{application, phapplications};

const MANY: usize = 10_000;
/// The longest time to a change among them. Without the watch, the next list would come after
/// minutes.
const AT_ONCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_applications_are_listed_at_once_and_a_change_among_them_is_seen_at_once() {
    let namespace = Namespace::new().await;
    let app = namespace.running("one", 0).await;
    namespace
        .app("one", "group", json!({ "groupName": "other" }))
        .await;
    let client =
        Client::try_from(kube::Config::infer().await.expect("KUBECONFIG")).expect("a client");
    let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace.name, &phapplications());
    stream::iter(1..MANY)
        .map(|number| {
            let (api, written) = (
                api.clone(),
                application(&format!("app-{number}"), "group", json!({})),
            );
            async move {
                let object = serde_json::from_value(written).expect("an object");
                api.create(&Default::default(), &object)
                    .await
                    .expect("created");
            }
        })
        .buffer_unordered(32)
        .collect::<Vec<()>>()
        .await;
    let started = Instant::now();
    let world = namespace.world().await;
    let took = started.elapsed();
    let internals = world.running.internals();
    let published = *internals.policy_changes().borrow();
    let known = internals
        .snapshot()
        .apps()
        .filter(|app| app.spec.upstream.host.ends_with(".svc"))
        .count();
    assert_eq!(known, MANY + 1, "with the one that is written last");
    eprintln!(
        "{MANY} applications were known after {took:?}, the start of gateway and provider included"
    );
    // A snapshot per app would take minutes. The time is measured by `benches/kubernetes/run`: an
    // unoptimised build beside other work must not fail for its slowness.
    assert!(published < MANY as u64 / 100, "{published} snapshots");
    let get = "GET /apps/one/ HTTP/1.1\r\nHost: HOST\r\n\r\n";
    assert_eq!(world.exchange(get).await.status(), 401);
    let changed = Instant::now();
    namespace.app("one", "public", json!({})).await;
    world
        .until(|snapshot| {
            snapshot
                .find("one")
                .is_some_and(|app| app.spec.access.kind() == "public")
        })
        .await;
    assert_eq!(world.exchange(get).await.status(), 200);
    let took = changed.elapsed();
    assert!(took < AT_ONCE, "{took:?}");
    eprintln!("one change among them was in force after {took:?}");
    assert_eq!(app.count(), 1);
}
