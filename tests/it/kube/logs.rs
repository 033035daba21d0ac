//! The logs of apps' pods, through a real API server, from a stand-in of the node's kubelet.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use kube::{
    Api,
    api::{ApiResource, Patch, PatchParams},
};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::json;
use tokio::{io::AsyncWriteExt, sync::watch};
use tokio_rustls::TlsAcceptor;

use super::namespace::Namespace;
use crate::support::{
    kube_namespace::{application, kubectl},
    message::{Message, Reader},
    raw::Raw,
    world::World,
};

/// What a node runs: knows every pod, and says two lines of each, the second when it is told to.
struct Kubelet {
    node: String,
    seen: Arc<Mutex<Vec<String>>>,
    second_line: watch::Sender<bool>,
}

impl Kubelet {
    async fn start(namespace: &Namespace) -> Kubelet {
        let listener = namespace.pods.listen(9, 0);
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("a socket");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
        let made =
            rcgen::generate_simple_self_signed([address.ip().to_string()]).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a certificate and its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (seen, (second_line, told)) =
            (Arc::<Mutex<Vec<String>>>::default(), watch::channel(false));
        let noted = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, noted, mut told) = (acceptor.clone(), noted.clone(), told.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let (read, mut write) = tokio::io::split(stream);
                    let Ok(Some(head)) = Reader::new(read).head().await else {
                        return;
                    };
                    noted
                        .lock()
                        .expect("no panic")
                        .push(head.target().to_owned());
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\nA\r\nfirst line\r\n";
                    let _ = write.write_all(head.as_bytes()).await;
                    let _ = write.flush().await;
                    if told.wait_for(|told| *told).await.is_ok() {
                        let _ = write.write_all(b"C\r\n\nsecond line\r\n0\r\n\r\n").await;
                        let _ = write.flush().await;
                    }
                });
            }
        });
        let node = format!("node-{}", namespace.name);
        register(&node, address).await;
        Kubelet {
            node,
            seen,
            second_line,
        }
    }

    async fn pod(&self, namespace: &Namespace, name: &str, label: Option<&str>) {
        let labels = label.map_or(
            json!({}),
            |label| json!({ "primehub.io/phapplication": label }),
        );
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels },
            "spec": { "nodeName": self.node, "containers": [{ "name": "app", "image": "app:1" }] },
        });
        namespace
            .kubectl(&["apply", "-f", "-"], &pod.to_string())
            .await;
    }
}

/// Tells the API server where the node's kubelet listens.
async fn register(name: &str, kubelet: SocketAddr) {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    kubectl(&["apply", "-f", "-"], &node.to_string()).await;
    let client =
        kube::Client::try_from(kube::Config::infer().await.expect("KUBECONFIG")).expect("a client");
    let kind = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
    let nodes: Api<kube::api::DynamicObject> = Api::all_with(client, &kind);
    let status = json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": kubelet.ip().to_string() }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": kubelet.port() } },
    }});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("a status");
}

async fn get(world: &World, target: &str, cookies: &str) -> Message {
    world
        .exchange(&format!(
            "GET {target} HTTP/1.1\r\nHost: HOST\r\nAccept: application/json\r\n{cookies}\r\n"
        ))
        .await
}

/// A log that is followed, of which the first line has come.
async fn follow(world: &World, target: &str, cookies: &str) -> Raw {
    let mut raw = world.raw().await;
    raw.send(format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\n{cookies}\r\n",
        world.host
    ))
    .await;
    let head = raw.reader.head().await.expect("readable").expect("a head");
    assert_eq!(head.status(), 200);
    assert_eq!(
        head.header("content-type").as_deref(),
        Some("text/plain; charset=utf-8")
    );
    let first = raw.reader.some().await.expect("the first line");
    assert!(String::from_utf8_lossy(&first).contains("first line"));
    raw
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_an_apps_group_read_the_logs_of_its_pods_as_they_are_written() {
    let namespace = Namespace::new().await;
    namespace.grant("logs.yaml").await;
    let kubelet = Kubelet::start(&namespace).await;
    // The app is public; its logs are for the group.
    namespace.app("lab", "public", json!({})).await;
    namespace
        .app("tcp", "group", json!({ "groupName": "friends" }))
        .await;
    let without_port = application(
        "tcp",
        "group",
        json!({ "groupName": "friends", "httpPort": null }),
    );
    namespace
        .kubectl(
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
            &without_port.to_string(),
        )
        .await;
    for (pod, label) in [
        ("app-lab-1", Some("app-lab")),
        ("app-lab-2", Some("lab")),
        ("app-tcp-1", Some("app-tcp")),
        ("other", None),
        ("stray", Some("app-gone")),
    ] {
        kubelet.pod(&namespace, pod, label).await;
    }
    let world = namespace.world_with("logs = true").await;
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let (hers, his) = (alice.cookie_line("/"), bob.cookie_line("/"));
    let mut followed = follow(
        &world,
        "/api/logs/pods/app-lab-1?follow=true&tailLines=5",
        &hers,
    )
    .await;
    assert_eq!(
        kubelet
            .seen
            .lock()
            .expect("no panic")
            .last()
            .map(String::as_str),
        Some(
            format!(
                "/containerLogs/{}/app-lab-1/app?follow=true&tailLines=5",
                namespace.name
            )
            .as_str()
        )
    );
    kubelet.second_line.send_replace(true);
    let rest = followed.reader.some().await.expect("the second line");
    assert!(String::from_utf8_lossy(&rest).contains("second line"));
    for (target, cookies, status) in [
        ("/api/logs/phapplications/app-lab-2", hers.as_str(), 200),
        ("/api/logs/pods/app-tcp-1", &his, 200),
        ("/api/logs/pods/app-lab-1", &his, 403),
        ("/api/logs/pods/app-lab-1", "", 401),
        ("/api/logs/pods/other", &hers, 404),
        ("/api/logs/pods/stray", &hers, 404),
        ("/api/logs/pods/unknown", &hers, 404),
        ("/api/logs/pods/..%2Fother", &hers, 404),
        ("/api/logs/pods/app-lab-1?tailLines=-1", &hers, 400),
        (
            "/api/logs/pods/app-lab-1?tailLines=1&tailLines=2",
            &hers,
            400,
        ),
        ("/api/logs/pods/app-lab-1?follow=perhaps", &hers, 400),
        ("/api/logs/pods/app-lab-1?container=app%20x", &hers, 400),
        ("/api/logs/pods/app-lab-1?container=none", &hers, 400),
        ("/api/logs/pods/app-lab-1?container=app", &hers, 200),
    ] {
        let answer = get(&world, target, cookies).await;
        assert_eq!(
            answer.status(),
            status,
            "{target} with {cookies:.20}: {}",
            answer.text()
        );
        if status == 200 {
            assert_eq!(answer.text(), "first line\nsecond line");
        }
    }
    let token = world.provider.access_token("alice");
    let bearer = get(
        &world,
        "/api/logs/pods/app-lab-1",
        &format!("Authorization: Bearer {token}\r\n"),
    )
    .await;
    assert_eq!(bearer.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_followed_ends_with_the_membership_the_session_and_the_app() {
    let namespace = Namespace::new().await;
    namespace.grant("logs.yaml").await;
    let kubelet = Kubelet::start(&namespace).await;
    namespace.app("lab", "public", json!({})).await;
    kubelet.pod(&namespace, "app-lab-1", Some("app-lab")).await;
    let world = namespace.world_with("logs = true").await;
    let (alice, mut carol) = (world.signed_in("alice").await, world.browser());
    let target = "/api/logs/pods/app-lab-1?follow=true";
    let mut followed = follow(&world, target, &alice.cookie_line("/")).await;
    let changed = Instant::now();
    namespace
        .app("lab", "public", json!({ "groupName": "other" }))
        .await;
    assert!(
        followed.is_closed().await,
        "the app belongs to another group"
    );
    assert!(
        changed.elapsed() < Duration::from_secs(1),
        "{:?}",
        changed.elapsed()
    );
    namespace.app("lab", "public", json!({})).await;
    world
        .until(|snapshot| {
            snapshot
                .group_of(&namespace.name, "lab")
                .is_some_and(|group| group.as_str() == "phusers")
        })
        .await;
    let mut followed = follow(&world, target, &alice.cookie_line("/")).await;
    world.manual_clock.advance(Duration::from_secs(31 * 60));
    assert!(
        followed.is_closed().await,
        "a log that is followed is no use of a session"
    );
    assert_eq!(carol.sign_in("/apps/usr/", "alice").await.status(), 200);
    let mut followed = follow(&world, target, &carol.cookie_line("/")).await;
    namespace.delete("lab").await;
    assert!(followed.is_closed().await, "the app is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_served_only_where_that_is_switched_on_and_with_a_right_of_its_own() {
    let namespace = Namespace::new().await;
    let kubelet = Kubelet::start(&namespace).await;
    namespace.app("lab", "public", json!({})).await;
    kubelet.pod(&namespace, "app-lab-1", Some("app-lab")).await;
    let off = namespace.world().await;
    let alice = off.signed_in("alice").await;
    assert_eq!(
        get(&off, "/api/logs/pods/app-lab-1", &alice.cookie_line("/"))
            .await
            .status(),
        404
    );
    let on = namespace.world_with("logs = true").await;
    let alice = on.signed_in("alice").await;
    let refused = get(&on, "/api/logs/pods/app-lab-1", &alice.cookie_line("/")).await;
    assert_eq!(
        (refused.status(), refused.json()["reason"].as_str()),
        (503, Some("unverifiable"))
    );
    assert!(kubelet.seen.lock().expect("no panic").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ambiguous_label_needs_both_groups_and_no_user_can_open_all_logs() {
    let namespace = Namespace::new().await;
    namespace.grant("logs.yaml").await;
    let kubelet = Kubelet::start(&namespace).await;
    namespace
        .app("app-foo", "group", json!({ "groupName": "phusers" }))
        .await;
    kubelet.pod(&namespace, "app-foo-1", Some("app-foo")).await;
    let world = namespace.world_with("logs = true").await;
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let (hers, his) = (alice.cookie_line("/"), bob.cookie_line("/"));
    let target = "/api/logs/pods/app-foo-1?follow=1";
    let mut followed = Vec::new();
    for _ in 0..4 {
        followed.push(follow(&world, target, &hers).await);
    }
    let fifth = get(&world, target, &hers).await;
    assert_eq!(
        (fifth.status(), fifth.json()["reason"].as_str()),
        (503, Some("busy"))
    );
    // The label may also mean this app: its Service would be `app-foo`.
    namespace
        .app("foo", "group", json!({ "groupName": "friends" }))
        .await;
    world.until(|snapshot| snapshot.find("foo").is_some()).await;
    assert_eq!(
        get(&world, target, &his).await.status(),
        403,
        "of one of the two groups only"
    );
    drop(followed);
}
