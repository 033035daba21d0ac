//! EndpointSlices of a Kubernetes API: which addresses are used, and which never are
//! (docs/behaviour.md#kubernetes).

use ludgate::model::app::UpstreamScheme;
use serde_json::{Value, json};

use crate::support::{
    backend::Backend,
    kubernetes_api::{
        APPS, HUB, KubernetesApi, RequestKind, SLICES, application, decision, problems, slice,
    },
    world::World,
};

/// A ready endpoint; addresses are of networks for documentation, and nothing is sent there.
fn pod(address: &str, uid: &str) -> Value {
    json!({ "addresses": [address], "conditions": { "ready": true }, "targetRef": { "kind": "Pod", "uid": uid } })
}

/// Where an app's requests would go.
fn addresses(world: &World, app: &str) -> Vec<String> {
    let snapshot = world.running.internals().snapshot();
    match snapshot.find(app).map(|app| &app.spec.upstream.scheme) {
        Some(UpstreamScheme::Pods(pods)) => pods.iter().map(ToString::to_string).collect(),
        other => panic!("{app} has no pods: {other:?}"),
    }
}

async fn until_pods(world: &World, app: &str, expected: &[&str]) {
    world
        .until(
            |snapshot| match snapshot.find(app).map(|app| &app.spec.upstream.scheme) {
                Some(UpstreamScheme::Pods(pods)) => {
                    pods.iter().map(ToString::to_string).collect::<Vec<_>>() == expected
                }
                _ => false,
            },
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_knows_the_beta_alone_is_read_and_one_that_is_upgraded_is_read_on() {
    let api = KubernetesApi::start().await;
    api.serve_slices_as(&["v1beta1"]);
    api.app("one", "primehub", json!({}));
    api.put(
        SLICES,
        HUB,
        slice("one-1", "one", json!([pod("192.0.2.1", "u1")])),
    );
    let world = api.world("").await;
    assert_eq!(addresses(&world, "one"), ["192.0.2.1:5000"]);
    // The API server comes back as a newer one, that knows the beta no longer.
    api.away().await;
    api.serve_slices_as(&["v1"]);
    api.put(
        SLICES,
        HUB,
        slice("one-1", "one", json!([pod("192.0.2.2", "u2")])),
    );
    api.back().await;
    until_pods(&world, "one", &["192.0.2.2:5000"]).await;
    let lists = api
        .calls()
        .into_iter()
        .filter(|call| call.kind == RequestKind::List(SLICES));
    let versions: Vec<bool> = lists
        .map(|call| call.target.contains("/v1beta1/"))
        .collect();
    assert_eq!(
        (versions.first(), versions.last()),
        (Some(&true), Some(&false))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_pods_that_are_ready_and_not_going_away_are_used() {
    let api = KubernetesApi::start().await;
    api.app("one", "primehub", json!({}));
    let conditions = [
        (
            1,
            json!({ "ready": true, "serving": true, "terminating": false }),
        ),
        (
            2,
            json!({ "ready": false, "serving": true, "terminating": true }),
        ),
        (
            3,
            json!({ "ready": true, "serving": true, "terminating": true }),
        ),
        (
            4,
            json!({ "ready": false, "serving": false, "terminating": false }),
        ),
        (
            5,
            json!({ "ready": null, "serving": null, "terminating": null }),
        ),
        (6, json!({})),
    ];
    let endpoint = |(last, conditions): (i32, Value)| json!({ "addresses": [format!("192.0.2.{last}")], "conditions": conditions });
    api.put(
        SLICES,
        HUB,
        slice(
            "one-1",
            "one",
            conditions.into_iter().map(endpoint).collect(),
        ),
    );
    let world = api.world("").await;
    assert_eq!(
        addresses(&world, "one"),
        ["192.0.2.1:5000", "192.0.2.5:5000", "192.0.2.6:5000"]
    );
    // A change of readiness alone is a change.
    let gone = json!([{ "addresses": ["192.0.2.1"], "conditions": { "ready": false } }]);
    api.put(SLICES, HUB, slice("one-1", "one", gone));
    until_pods(&world, "one", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_pods_of_two_apps_claim_is_neithers_until_that_is_settled() {
    let api = KubernetesApi::start().await;
    let namespaces = ["first", "second"];
    for (namespace, app) in [("first", "one"), ("first", "two"), ("second", "three")] {
        api.put(APPS, namespace, application(app, "primehub", json!({})));
    }
    let put = |namespace: &str, app: &str, endpoints: Value| {
        api.put(
            SLICES,
            namespace,
            slice(&format!("{app}-1"), app, endpoints),
        );
    };
    put(
        "first",
        "one",
        json!([pod("192.0.2.1", "u1"), pod("192.0.2.9", "u9")]),
    );
    put("first", "two", json!([pod("192.0.2.2", "u2")]));
    put("second", "three", json!([pod("192.0.2.3", "u3")]));
    let world = api.gateway(&format!("namespaces = {namespaces:?}")).await;
    world.until(|snapshot| snapshot.is_complete()).await;
    assert_eq!(problems(&world).await, []);
    // An address goes to another pod before the slice of its last one says so; in one namespace, or
    // in two.
    for (namespace, thief) in [("first", "two"), ("second", "three")] {
        put(
            namespace,
            thief,
            json!([pod("192.0.2.1", "new"), pod("192.0.2.8", "other")]),
        );
        until_pods(&world, thief, &["192.0.2.8:5000"]).await;
        assert_eq!(addresses(&world, "one"), ["192.0.2.9:5000"]);
        let told = problems(&world).await;
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told.iter()
                .all(|(_, text, kept)| text.contains("another app's pods") && *kept),
            "{told:?}"
        );
        // Settled for the new one.
        put("first", "one", json!([pod("192.0.2.9", "u9")]));
        until_pods(&world, thief, &["192.0.2.1:5000", "192.0.2.8:5000"]).await;
        // And back.
        put(namespace, thief, json!([]));
        put(
            "first",
            "one",
            json!([pod("192.0.2.1", "u1"), pod("192.0.2.9", "u9")]),
        );
        until_pods(&world, "one", &["192.0.2.1:5000", "192.0.2.9:5000"]).await;
    }
    // One pod behind two Services is no contest, until its address is a third one's.
    put("first", "two", json!([pod("192.0.2.1", "u1")]));
    until_pods(&world, "two", &["192.0.2.1:5000"]).await;
    assert_eq!(
        addresses(&world, "one"),
        ["192.0.2.1:5000", "192.0.2.9:5000"]
    );
    api.put(
        SLICES,
        "first",
        slice("zone-2", "one", json!([pod("192.0.2.1", "new")])),
    );
    until_pods(&world, "one", &["192.0.2.9:5000"]).await;
    assert_eq!(
        addresses(&world, "two"),
        [""; 0],
        "the new one's may not get what is meant for the old one"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_object_leads_a_request_to_an_address_that_is_no_pods() {
    // Counts the connections that reach this machine.
    let trap = Backend::start("trap").await;
    let port = trap.address().port();
    let api = KubernetesApi::start().await;
    let hostile = [
        ("IPv4", "127.0.0.1"),
        ("IPv4", "127.8.8.8"),
        ("IPv4", "0.0.0.0"),
        ("IPv4", "169.254.169.254"),
        ("IPv4", "255.255.255.255"),
        ("IPv4", "2130706433"),
        ("IPv4", "0x7f000001"),
        ("IPv4", "0177.0.0.1"),
        ("IPv4", "127.1"),
        ("IPv4", "localhost"),
        ("IPv4", "127.0.0.1:80"),
        ("IPv6", "::1"),
        ("IPv6", "::"),
        ("IPv6", "::ffff:127.0.0.1"),
        ("IPv6", "::ffff:169.254.169.254"),
        ("IPv6", "[::1]"),
        ("IPv6", "fe80::1%lo"),
        ("IPv6", "fd00:ec2::254"),
        ("FQDN", "localhost"),
        ("FQDN", "127.0.0.1"),
        ("FQDN", "kubernetes.default.svc"),
        ("", "127.0.0.1"),
    ];
    for (number, (kind, address)) in hostile.iter().enumerate() {
        let app = format!("app-{number}");
        let mut written = application(&app, "public", json!({ "httpPort": port }));
        written["spec"]["svcTemplate"]["spec"] = json!({
            "type": "ExternalName", "externalName": "localhost", "externalIPs": ["127.0.0.1"],
            "ports": [{ "name": "http", "port": port }],
        });
        written["metadata"]["annotations"] = json!({
            "primehub.io/internalAppUrl": format!("http://127.0.0.1:{port}/"),
            "internalAppUrl": format!("http://{}/", trap.address()),
        });
        written["status"] = json!({ "phase": "Ready", "serviceName": "localhost" });
        api.put(APPS, HUB, written);
        let mut listed = slice(
            &format!("{app}-1"),
            &app,
            json!([pod(address, "u"), pod(address, "v")]),
        );
        listed["addressType"] = (*kind).into();
        listed["ports"][0]["port"] = port.into();
        api.put(SLICES, HUB, listed);
    }
    let world = api.world("").await;
    for (number, (kind, address)) in hostile.iter().enumerate() {
        let app = format!("app-{number}");
        assert_eq!(
            decision(&world, &app).await,
            "503 starting",
            "{kind} {address}"
        );
        assert_eq!(addresses(&world, &app), [""; 0], "{kind} {address}");
    }
    assert_eq!(trap.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_slice_has_no_addresses_and_harms_no_other() {
    let api = KubernetesApi::start().await;
    for app in ["sick", "well"] {
        api.app(app, "primehub", json!({}));
        api.put(
            SLICES,
            HUB,
            slice(&format!("{app}-1"), app, json!([pod("192.0.2.1", "u1")])),
        );
    }
    let world = api.world("").await;
    let garbage: [(&str, Value); 8] = [
        ("endpoints", 5.into()),
        ("endpoints", json!([5])),
        ("endpoints", json!([{ "addresses": "192.0.2.1" }])),
        ("endpoints", json!([{ "addresses": [5] }])),
        (
            "endpoints",
            json!([{ "addresses": ["192.0.2.1"], "conditions": { "ready": "yes" } }]),
        ),
        ("ports", "5000".into()),
        ("ports", json!([{ "name": "http", "port": 70_000 }])),
        (
            "ports",
            json!([{ "name": "http", "port": 5000, "protocol": "UDP" }]),
        ),
    ];
    for (part, written) in garbage {
        let mut broken = api.get(SLICES, "sick-1");
        broken[part] = written.clone();
        api.put(SLICES, HUB, broken);
        until_pods(&world, "sick", &[]).await;
        assert_eq!(
            addresses(&world, "well"),
            ["192.0.2.1:5000"],
            "{part} {written}"
        );
        api.put(
            SLICES,
            HUB,
            slice("sick-1", "sick", json!([pod("192.0.2.1", "u1")])),
        );
        until_pods(&world, "sick", &["192.0.2.1:5000"]).await;
    }
    // In a list it is no worse.
    let mut broken = api.get(SLICES, "sick-1");
    broken["endpoints"] = "192.0.2.1".into();
    api.expire(SLICES).await;
    api.put(SLICES, HUB, broken);
    api.until_count(RequestKind::Watch(SLICES), 3).await;
    until_pods(&world, "sick", &[]).await;
    assert_eq!(addresses(&world, "well"), ["192.0.2.1:5000"]);
    // With malformed labels it belongs to no Service.
    let mut lost = api.get(SLICES, "sick-1");
    lost["metadata"]["labels"] = json!({ "kubernetes.io/service-name": ["app-sick"] });
    api.put(SLICES, HUB, lost);
    until_pods(&world, "sick", &[]).await;
}
