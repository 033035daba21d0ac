//! Logs of pods through the API: by the URL that an app names, and for as long as the right to it
//! lasts.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    kube::{kubelet::Kubelet, namespace::Namespace},
    support::{
        api::{Api, PLATFORM},
        message::Message,
        raw::Raw,
        until::assert_soon,
        world::free_port,
    },
};

const PODS: &str = "{ phApplication(where: { id: \"lab\" }) { pods { name logEndpoint } } }";

/// A log that is followed at a URL, of which the head has come.
async fn open(server: SocketAddr, url: &str, token: &str) -> Raw {
    let url = url.strip_prefix("http://").expect("a URL");
    let (host, path) = url.split_once('/').expect("a path");
    let mut raw = Raw::connect(server).await;
    raw.send(format!(
        "GET /{path}?follow=true HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    ))
    .await;
    let head = raw.head().await;
    assert_eq!(head.status(), 200);
    assert_eq!(
        head.header("transfer-encoding").as_deref(),
        Some("chunked"),
        "PrimeHub's client would wait for 8 KiB otherwise"
    );
    raw
}

/// Waits until a text comes.
async fn until_text(log: &mut Raw, wanted: &str) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        let more = log.reader.some().await.expect("readable");
        assert!(!more.is_empty(), "the log ended before {wanted:?}");
        seen.extend(more);
    }
}

/// A log that is followed, of which the first line has come.
async fn follow(server: SocketAddr, url: &str, token: &str) -> Raw {
    let mut log = open(server, url, token).await;
    until_text(&mut log, "first line").await;
    log
}

/// The log at the only URL that an app names comes as it is written.
async fn comes_as_it_is_written(
    kubelet: &Kubelet,
    server: SocketAddr,
    answer: &Value,
    token: &str,
) {
    let pods = &answer["phApplication"]["pods"];
    let url = pods[0]["logEndpoint"].as_str().expect("a URL");
    kubelet.second_line.send_replace(false);
    let mut log = follow(server, url, token).await;
    let logged = Instant::now();
    kubelet.second_line.send_replace(true);
    until_text(&mut log, "second line").await;
    assert_soon(Duration::from_secs(1), logged.elapsed());
}

impl Api {
    /// Asks for a path, as a person or without a token.
    async fn get(&self, path: &str, person: Option<&str>) -> Message {
        let bearer = person.map_or_else(String::new, |person| {
            let token = self.provider.access_token(person);
            format!("Authorization: Bearer {token}\r\n")
        });
        self.send(&format!("GET {path}"), &bearer, "").await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_names_the_url_of_its_log_and_each_line_comes_within_a_second() {
    let namespace = Namespace::new().await;
    let kubelet = Kubelet::start(&namespace).await;
    namespace.app("lab", "group", json!({})).await;
    kubelet.pod(&namespace, "app-lab-1", Some("app-lab")).await;
    namespace.grant("api.yaml").await;
    let kubeconfig = namespace.kubeconfig_of("ludgate-api").await;
    let site = format!("http://127.0.0.1:{}", free_port());
    let api = Api::with(&namespace.name, &kubeconfig, &site, PLATFORM).await;
    let answer = api.data("alice", PODS, json!({})).await;
    let url = format!("{site}/api/logs/phapplications/app-lab-1");
    assert_eq!(
        answer["phApplication"]["pods"],
        json!([{ "name": "app-lab-1", "logEndpoint": url }])
    );
    let token = api.provider.access_token("alice");
    comes_as_it_is_written(&kubelet, api.running.address, &answer, &token).await;

    let world = namespace.world_with_api().await;
    let answer = world.graphql("alice", PODS, json!({})).await["data"].clone();
    let token = world.provider.access_token("alice");
    comes_as_it_is_written(&kubelet, world.running.address, &answer, &token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_a_person_may_not_read_is_one_line_that_says_so() {
    let namespace = Namespace::new().await;
    let kubelet = Kubelet::start(&namespace).await;
    kubelet.second_line.send_replace(true);
    // The app is public; its logs are for the group.
    namespace.app("lab", "public", json!({})).await;
    for (pod, label) in [
        ("app-lab-1", Some("app-lab")),
        ("app-lab-2", Some("lab")),
        ("other", None),
        ("stray", Some("app-gone")),
    ] {
        kubelet.pod(&namespace, pod, label).await;
    }
    let api = Api::start(&namespace).await;
    let (alice, bob, carol) = (Some("alice"), Some("bob"), Some("carol"));
    for (path, person, status) in [
        ("/api/logs/phapplications/app-lab-1", alice, 200),
        (
            "/api/logs/pods/app-lab-2?tailLines=2&container=app",
            alice,
            200,
        ),
        ("/api/logs/pods/app-lab-1", carol, 200),
        ("/api/logs/phapplications/app-lab-1", bob, 404),
        ("/api/logs/pods/app-lab-1", bob, 404),
        ("/api/logs/phapplications/app-lab-1", None, 401),
        ("/api/logs/pods/other", alice, 404),
        ("/api/logs/pods/stray", alice, 404),
        ("/api/logs/pods/unknown", alice, 404),
        ("/api/logs/pods/..%2Fother", alice, 404),
        ("/api/logs/pods/app-lab-1%3Fx", alice, 404),
        ("/api/logs/pods/app-lab-1%2Flog", alice, 404),
        ("/api/logs/pods/app-lab-1?tailLines=-1", alice, 400),
        ("/api/logs/pods/app-lab-1?follow=perhaps", alice, 400),
        ("/api/logs/pods/app-lab-1?container=none", alice, 400),
    ] {
        let answer = api.get(path, person).await;
        let text = answer.text();
        assert_eq!(answer.status(), status, "{path} as {person:?}: {text}");
        match status {
            200 => assert_eq!(text, "first line\nsecond line"),
            404 => assert_eq!(text, "there is no such pod\n", "{path}"),
            _ => assert!(text.ends_with('\n') && text.lines().count() == 1, "{text}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_with_a_fitting_name_gives_access_to_no_log() {
    let namespace = Namespace::new().await;
    let kubelet = Kubelet::start(&namespace).await;
    kubelet.second_line.send_replace(true);
    // The label of its pods may also mean an app with the name `app-lab`.
    namespace.app("lab", "group", json!({})).await;
    kubelet.pod(&namespace, "app-lab-1", Some("app-lab")).await;
    let api = Api::start(&namespace).await;
    let path = "/api/logs/phapplications/app-lab-1";
    assert_eq!(api.get(path, Some("bob")).await.status(), 404);
    namespace
        .app("app-lab", "group", json!({ "groupName": "friends" }))
        .await;
    // alice is in both groups.
    for (person, status) in [("bob", 404), ("alice", 200), ("carol", 200)] {
        let answer = api.get(path, Some(person)).await;
        assert_eq!(answer.status(), status, "{person}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_waits_to_start_has_an_empty_log_and_is_waited_for() {
    let namespace = Namespace::new().await;
    let kubelet = Kubelet::start(&namespace).await;
    kubelet.is_starting.send_replace(true);
    namespace.app("lab", "group", json!({})).await;
    kubelet.pod(&namespace, "app-lab-1", Some("app-lab")).await;
    let api = Api::start(&namespace).await;
    let path = "/api/logs/phapplications/app-lab-1";
    let empty = api.get(path, Some("alice")).await;
    assert_eq!((empty.status(), empty.text()), (200, String::new()));
    let token = api.provider.access_token("alice");
    let server = api.running.address;
    let mut log = open(server, &format!("http://{server}{path}"), &token).await;
    kubelet.is_starting.send_replace(false);
    until_text(&mut log, "first line").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_ends_within_fifteen_seconds_after_its_reader_lost_the_right_to_it() {
    let namespace = Namespace::new().await;
    let kubelet = Kubelet::start(&namespace).await;
    for (app, group) in [
        ("moved", "phusers"),
        ("gone", "phusers"),
        ("theirs", "friends"),
        ("kept", "phusers"),
    ] {
        let more = json!({ "groupName": group });
        namespace.app(app, "group", more).await;
        let (pod, label) = (format!("app-{app}-1"), format!("app-{app}"));
        kubelet.pod(&namespace, &pod, Some(&label)).await;
    }
    let api = Api::start(&namespace).await;
    let server = api.running.address;
    let of_app = async |app: &str, token: &str| {
        let url = format!("http://{server}/api/logs/phapplications/app-{app}-1");
        follow(server, &url, token).await
    };
    let alices = api.provider.access_token("alice");
    let bobs = api.provider.offline_token("bob").expect("a token");
    let moved = of_app("moved", &alices).await;
    let gone = of_app("gone", &alices).await;
    let theirs = of_app("theirs", &bobs).await;
    let mut kept = of_app("kept", &alices).await;

    let changed = Instant::now();
    let more = json!({ "groupName": "other" });
    namespace.app("moved", "group", more).await;
    namespace.delete("gone").await;
    // What is known of a token is remembered for half a minute.
    api.provider.end_grants();
    api.clock.advance(Duration::from_secs(31));
    for (app, mut log) in [("moved", moved), ("gone", gone), ("theirs", theirs)] {
        let rest = log.reader.rest().await.expect("an end");
        assert_eq!(rest, b"0\r\n\r\n", "{app} ends without an error");
    }
    assert_soon(Duration::from_secs(15), changed.elapsed());
    kubelet.second_line.send_replace(true);
    until_text(&mut kept, "second line").await;
}
