//! The logs of apps' pods, through a real API server, from a stand-in of the node's kubelet.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{kubelet::Kubelet, namespace::Namespace};
use crate::support::{
    kube_namespace::application, message::Message, raw::Raw, until::assert_soon, world::World,
};

async fn get(world: &World, target: &str, cookies: &str) -> Message {
    world
        .exchange(&format!(
            "GET {target} HTTP/1.1\r\nHost: HOST\r\nAccept: application/json\r\n{cookies}\r\n"
        ))
        .await
}

/// A log that is followed, of which the head has come.
async fn open(world: &World, target: &str, cookies: &str) -> Raw {
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
    raw
}

/// A log that is followed, of which the first line has come.
async fn follow(world: &World, target: &str, cookies: &str) -> Raw {
    let mut raw = open(world, target, cookies).await;
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
    let target = format!(
        "/containerLogs/{}/app-lab-1/app?follow=true&tailLines=5",
        namespace.name
    );
    assert_eq!(kubelet.last_seen(), Some(target));
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
async fn a_container_that_waits_to_start_has_an_empty_log_and_is_waited_for() {
    let namespace = Namespace::new().await;
    namespace.grant("logs.yaml").await;
    let kubelet = Kubelet::start(&namespace).await;
    kubelet.is_starting.send_replace(true);
    namespace.app("lab", "public", json!({})).await;
    kubelet.pod(&namespace, "app-lab-1", Some("app-lab")).await;
    let world = namespace.world_with("logs = true").await;
    let cookies = world.signed_in("alice").await.cookie_line("/");
    let target = "/api/logs/pods/app-lab-1";
    let empty = get(&world, target, &cookies).await;
    assert_eq!((empty.status(), empty.text()), (200, String::new()));
    let wrong = get(&world, &format!("{target}?container=none"), &cookies).await;
    assert_eq!(wrong.status(), 400);
    let mut followed = open(&world, &format!("{target}?follow=true"), &cookies).await;
    kubelet.is_starting.send_replace(false);
    let first = followed.reader.some().await.expect("the first line");
    assert!(String::from_utf8_lossy(&first).contains("first line"));
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
    assert_soon(Duration::from_secs(1), changed.elapsed());
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
    assert_eq!(kubelet.last_seen(), None);
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
