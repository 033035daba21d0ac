//! Streams end with the session: sign-out, expiry, a narrowed rule, an app that is gone. And only
//! then.

use std::time::Duration;

use ludgate::{catalog::snapshot::Snapshot, model::access::Access};

use serde_json::json;

use crate::support::{until::until, world::World};

pub fn with_access(world: &World, app: &str, access: Option<&str>) -> Snapshot {
    let now = world.running.internals().snapshot();
    let specs = now.apps().filter_map(|published| {
        let mut spec = published.spec.clone();
        if spec.id.as_str() == app {
            spec.access = Access::parse(access?);
        }
        Some(spec)
    });
    Snapshot::new(now.site().clone(), specs.collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_ends_the_websockets_and_event_streams_of_that_person_only() {
    // One thread checks all streams in one pass.
    let world = World::with_threads(1, "", |_| {}).await.ready().await;
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let (mut socket, mut stream) = (
        world.websocket(&alice, "grp").await,
        world.events(&alice, "usr").await,
    );
    let (mut others, _public) = (
        world.websocket(&bob, "usr").await,
        world.events(&world.browser(), "pub").await,
    );
    assert!(socket.carries().await && others.carries().await);
    let inside = world.running.internals();
    let cookie = alice.value("ludgate").expect("a sign-in");
    let sign_in = inside.sign_in(&cookie);
    sign_in.expect("signed in").end();
    assert_eq!(socket.farewell().await, Some(1008), "the WebSocket ended");
    assert!(stream.is_closed().await, "the event stream ended");
    assert!(others.carries().await, "bob's goes on");
    assert_eq!(
        inside.streams_cut(),
        2,
        "the public stream goes on, silently"
    );
    for app in ["grp", "usr"] {
        let line = world.log.line_with(&format!("\"app\":\"{app}\",\"subject\":\"alice\",\"decision\":\"allow\",\"reason\":\"{}\",\"outcome\":\"session_ended\"", if app == "grp" { "group" } else { "user" })).await;
        assert_eq!(line["outcome"], "session_ended", "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_session_expires_and_pings_do_not_keep_it() {
    let world = World::new().await.ready().await;
    let alice = world.signed_in("alice").await;
    let mut socket = world.websocket(&alice, "grp").await;
    let mut stream = world.events(&alice, "usr").await;
    for _ in 0..2 {
        world.manual_clock.advance(Duration::from_secs(14 * 60));
        // A ping comes back from the app's echo, and is no use.
        socket.send(b"\x89\x80\x01\x02\x03\x04").await;
        assert!(!socket.reader.some().await.expect("the echo").is_empty());
    }
    world.manual_clock.advance(Duration::from_secs(2 * 60 + 1));
    assert!(socket.farewell().await == Some(1008) && stream.is_closed().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_sends_on_a_websocket_keeps_the_session_until_its_lifetime() {
    let world = World::new().await.ready().await;
    let alice = world.signed_in("alice").await;
    let mut socket = world.websocket(&alice, "grp").await;
    for round in 0..35 {
        world.manual_clock.advance(Duration::from_secs(20 * 60));
        assert!(socket.carries().await, "{round}");
    }
    world.manual_clock.advance(Duration::from_secs(20 * 60));
    assert_eq!(socket.farewell().await, Some(1008), "12 h are over");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_ends_with_the_session_and_is_logged_so_before_any_answer() {
    let world = World::new().await.ready().await;
    let alice = world.signed_in("alice").await;
    let mut raw = world.raw().await;
    raw.send(format!(
        "POST /apps/grp/hang HTTP/1.1\r\nHost: {}\r\n{}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
        world.host,
        alice.cookie_line("/apps/grp/")
    ))
    .await;
    let inside = world.running.internals();
    until("the upload is a stream", || inside.open_streams() == 1).await;
    let cookie = alice.value("ludgate").expect("a sign-in");
    inside.sign_in(&cookie).expect("signed in").end();
    assert!(raw.answer().await.is_none(), "the connection is closed");
    let line = world.log.line_with("/apps/grp/hang").await;
    assert_eq!(
        (&line["status"], &line["decision"], &line["outcome"]),
        (&json!(499), &json!("allow"), &json!("session_ended"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrowed_access_rule_ends_the_streams_it_no_longer_admits() {
    let world = World::new().await.ready().await;
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let (mut of_alice, mut of_bob) = (
        world.websocket(&alice, "usr").await,
        world.websocket(&bob, "usr").await,
    );
    let mut public = world.events(&world.browser(), "pub").await;
    world
        .running
        .internals()
        .publish(with_access(&world, "usr", Some("group:phusers")));
    assert_eq!(of_bob.farewell().await, Some(1008), "bob is not in phusers");
    assert!(of_alice.carries().await, "alice notices nothing");
    assert_eq!(bob.clone().fetch("/apps/usr/").await.status(), 403);
    world
        .running
        .internals()
        .publish(with_access(&world, "pub", Some("user")));
    assert!(public.is_closed().await, "its user is not signed in there");
    world
        .running
        .internals()
        .publish(with_access(&world, "usr", None));
    assert_eq!(of_alice.farewell().await, Some(1008), "the app is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_group_ends_the_streams_that_needed_it() {
    let world = World::new().await.ready().await;
    let alice = world.signed_in("alice").await;
    let (mut grp, mut usr) = (
        world.websocket(&alice, "grp").await,
        world.websocket(&alice, "usr").await,
    );
    let gateway = world.running.internals();
    let cookie = alice.value("ludgate").expect("a sign-in");
    let sign_in = gateway.sign_in(&cookie).expect("signed in");
    let claims = ludgate::model::principal::PersonClaims {
        subject: "alice".into(),
        ..Default::default()
    };
    sign_in.set_principal(ludgate::model::principal::Principal::new(claims, &[]));
    gateway.recheck_streams();
    assert_eq!(grp.farewell().await, Some(1008));
    assert!(usr.carries().await, "what needs no group goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_opened_with_a_token_ends_when_the_token_expires() {
    let world = World::new().await.ready().await;
    let mut raw = world.raw().await;
    let token = world.provider.access_token("alice");
    raw.send(format!(
        "GET /apps/grp/sse HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        world.host
    ))
    .await;
    assert_eq!(
        raw.reader
            .head()
            .await
            .expect("readable")
            .expect("a head")
            .status(),
        200
    );
    raw.reader.some().await.expect("the first event");
    world.manual_clock.advance(Duration::from_secs(601));
    assert!(raw.is_closed().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_streams_leave_the_table() {
    let world = World::new().await.ready().await;
    let alice = world.signed_in("alice").await;
    let socket = world.websocket(&alice, "grp").await;
    let listed = || world.running.internals().open_streams();
    // The tunnel is listed just after its 101 went out.
    until("the stream is listed", || listed() == 1).await;
    drop(socket);
    until("it is not listed any more", || listed() == 0).await;
}
