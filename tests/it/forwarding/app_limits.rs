//! A slow app does not delay the others: requests that wait for an app, and connections to it, are
//! limited (docs/behaviour.md#forwarding). A client that begins too many sign-ins gets 429.

use crate::{
    forwarding::upstreams::handshake,
    support::{
        browser::From,
        until::{until, until_async},
        world::World,
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn one_more_than_may_wait_for_an_app_is_503_and_other_apps_go_on() {
    let world = World::with_threads(
        2,
        "[limits]\nrequests_per_app = 3\nclient_share = 100\n",
        |_| {},
    )
    .await;
    let mut waiting = Vec::new();
    for count in 1..=3 {
        let mut raw = world.raw().await;
        raw.send(format!(
            "GET /apps/pub/hang HTTP/1.1\r\nHost: {}\r\n\r\n",
            world.host
        ))
        .await;
        waiting.push(raw);
        until("the app gets the request", || {
            world.backend("pub").count() >= count
        })
        .await;
    }
    let refused = world
        .exchange("GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(
        (refused.status(), refused.header("retry-after").as_deref()),
        (503, Some("5"))
    );
    assert_eq!(
        (
            refused.json()["reason"].as_str(),
            world.backend("pub").count()
        ),
        (Some("upstream_busy"), 3),
        "O5"
    );
    let mut browser = world.browser();
    let other = world.ready().await;
    let alice = other.signed_in("alice").await;
    drop(alice);
    let page = browser
        .send("GET", "/apps/pub/x", From::Navigation, "", b"")
        .await;
    assert_eq!(page.status(), 503, "{}", page.text());
    // One that waits gives up: there is room for one.
    waiting.pop();
    until_async("there is room for one request", async || {
        let answer = browser.send("GET", "/apps/pub/x", From::Program, "", b"");
        answer.await.status() == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_count_as_connections_and_not_as_waiting() {
    let limits = "[limits]\nrequests_per_app = 1\nconnections_per_app = 3\nclient_share = 100\n";
    let world = World::with_threads(1, limits, |_| {}).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut raw = world.raw().await;
        raw.send(handshake(&world, "/apps/pub/ws")).await;
        assert_eq!(
            raw.reader
                .head()
                .await
                .expect("readable")
                .expect("a head")
                .status(),
            101
        );
        streams.push(raw);
    }
    let refused = world
        .exchange("GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(refused.status(), 503);
    assert!(streams[0].carries().await, "those that are there go on");
    streams.pop();
    until_async("there is room for one request", async || {
        let answer = world.exchange("GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n");
        answer.await.status() == 200
    })
    .await;
    drop(streams);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_begins_sign_ins_without_end_waits_and_another_one_does_not() {
    let world = World::with("[limits]\nsign_ins = 5\n", |_| {})
        .await
        .ready()
        .await;
    let get_as = async |source: &str, from: From| {
        let mut raw = crate::support::raw::Raw::connect_from(source, world.running.address).await;
        raw.send(format!(
            "GET /oauth2/start?rd=/apps/usr/&go=1 HTTP/1.1\r\nHost: {}\r\n{}Connection: close\r\n\r\n",
            world.host,
            from.headers()
        ))
        .await;
        raw.answer().await.expect("an answer")
    };
    let get = async |source: &str| get_as(source, From::Program).await;
    for _ in 0..5 {
        assert_eq!(get("127.0.0.3").await.status(), 302);
    }
    let refused = get("127.0.0.3").await;
    assert_eq!(
        (refused.status(), refused.header("retry-after").as_deref()),
        (429, Some("5"))
    );
    assert_eq!(refused.json()["reason"], "too_often");
    let page = get_as("127.0.0.3", From::Navigation).await.text();
    assert!(page.contains(">Try again</a>"), "{page}");
    assert!(
        !page.contains("http-equiv=\"refresh\""),
        "it would count as a sign-in: {page}"
    );
    assert_eq!(get("127.0.0.4").await.status(), 302, "another client");
    world
        .manual_clock
        .advance(std::time::Duration::from_millis(100));
    assert_eq!(
        (
            get("127.0.0.3").await.status(),
            get("127.0.0.3").await.status()
        ),
        (302, 429),
        "one each tenth of a second"
    );
    let page = world
        .exchange("GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(page.status(), 200, "apps have nothing to do with it");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_address_is_served_and_one_byte_more_is_414() {
    let world = World::new().await;
    let longest = format!("/apps/pub/{}", "a".repeat(8192 - "/apps/pub/".len()));
    for (target, status) in [
        (longest.clone(), 200),
        (format!("{longest}a"), 414),
        (format!("{longest}{longest}"), 414),
    ] {
        let answer = world
            .exchange(&format!("GET {target} HTTP/1.1\r\nHost: HOST\r\n\r\n"))
            .await;
        assert_eq!(answer.status(), status, "{}", target.len());
    }
    world.check_oracles().await;
}
