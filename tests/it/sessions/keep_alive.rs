//! Apps with `keep_alive = "open"`: their open streams are use of the session, and nothing else of
//! the rules for streams changes.

use std::time::Duration;

use ludgate::{catalog::snapshot::Snapshot, model::session_policy::SessionPolicy};

use crate::support::{until::until, world::World};

const MINUTE: Duration = Duration::from_secs(60);
const KEPT: &str = "[[apps]]\nid = \"kept\"\naccess = \"user\"\nupstream = \"http://ADDRESS\"\n\
                    keep_alive = \"open\"\n";

/// Lets 20 minutes pass, and waits until something was used since.
async fn pass_in_use(world: &World) {
    world.manual_clock.advance(20 * MINUTE);
    let gateway = world.running.internals();
    // Unused, the session would expire in ten minutes.
    let soon = gateway.now().after(19 * MINUTE);
    until("the stream counts as use", || gateway.any_session_at(soon)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_websocket_keeps_the_session_until_its_lifetime() {
    let world = World::with_app("kept", KEPT).await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let mut socket = world.websocket(&alice, "kept").await;
    for _ in 0..35 {
        pass_in_use(&world).await;
    }
    assert!(socket.carries().await);
    assert_eq!(
        alice.fetch("/apps/usr/").await.status(),
        200,
        "elsewhere too"
    );
    world.manual_clock.advance(20 * MINUTE);
    assert_eq!(socket.farewell().await, Some(1008), "12 h are over");
}

#[tokio::test(flavor = "multi_thread")]
async fn open_events_keep_the_session_and_those_of_other_apps_do_not() {
    let world = World::with_app("kept", KEPT).await.ready().await;
    let alice = world.signed_in("alice").await;
    let mut kept = world.events(&alice, "kept").await;
    let mut other = world.events(&alice, "usr").await;
    for _ in 0..3 {
        pass_in_use(&world).await;
    }
    assert!(other.is_closed().await, "its app session was not used");
    let inside = world.running.internals();
    until("one stream is open", || inside.open_streams() == 1).await;
    let cookie = alice.value("ludgate").expect("a sign-in");
    inside.sign_in(&cookie).expect("signed in").end();
    assert!(kept.is_closed().await, "signing out ends it");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_open_stream_the_session_expires_as_usual() {
    let world = World::with_app("kept", KEPT).await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let socket = world.websocket(&alice, "kept").await;
    pass_in_use(&world).await;
    drop(socket);
    let inside = world.running.internals();
    until("the stream is gone", || inside.open_streams() == 0).await;
    world.manual_clock.advance(31 * MINUTE);
    assert_eq!(alice.fetch("/apps/kept/").await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_without_the_key_takes_effect_on_open_streams() {
    let world = World::with_app("kept", KEPT).await.ready().await;
    let alice = world.signed_in("alice").await;
    let mut socket = world.websocket(&alice, "kept").await;
    pass_in_use(&world).await;
    let inside = world.running.internals();
    let now = inside.snapshot();
    let specs = now.apps().map(|app| {
        let mut spec = app.spec.clone();
        spec.session = SessionPolicy::default();
        spec
    });
    let specs = specs.collect::<Vec<_>>();
    inside.publish(Snapshot::new(now.site().clone(), specs));
    world.manual_clock.advance(31 * MINUTE);
    assert_eq!(socket.farewell().await, Some(1008));
}
