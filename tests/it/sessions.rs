//! behaviour.md row 25 through the whole gateway, on a clock by hand.

use std::time::Duration;

use crate::support::{browser::From, message::Message, until::until, world::World};

const MINUTE: Duration = Duration::from_secs(60);

async fn fetch(browser: &mut crate::support::browser::Browser) -> u16 {
    browser.fetch("/apps/usr/").await.status()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_25_a_session_lives_for_thirty_minutes_without_use_and_not_a_second_more() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    world
        .manual_clock
        .advance(30 * MINUTE - Duration::from_secs(1));
    assert_eq!(fetch(&mut alice).await, 200);
    world.manual_clock.advance(30 * MINUTE);
    assert_eq!(fetch(&mut alice).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_25_constant_use_ends_at_the_lifetime() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    for round in 0..35 {
        world.manual_clock.advance(20 * MINUTE);
        assert_eq!(fetch(&mut alice).await, 200, "{round}");
    }
    world.manual_clock.advance(20 * MINUTE);
    assert_eq!(fetch(&mut alice).await, 401, "after 12 h");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_25_refused_and_foreign_requests_are_no_use() {
    let world = World::new().await.ready().await;
    let mut bob = world.signed_in("bob").await;
    for _ in 0..2 {
        world.manual_clock.advance(10 * MINUTE);
        assert_eq!(bob.fetch("/apps/grp/").await.status(), 403);
        assert_eq!(
            bob.send("GET", "/apps/usr/", From::ForeignFetch, "", b"")
                .await
                .status(),
            401
        );
    }
    world.manual_clock.advance(10 * MINUTE);
    assert_eq!(fetch(&mut bob).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_25_bytes_of_an_upload_are_use() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let mut raw = world.raw().await;
    let head = format!(
        "POST /apps/usr/echo HTTP/1.1\r\nHost: {}\r\n{}Expect: 100-continue\r\nContent-Length: 4\r\n\r\n",
        world.host,
        alice.cookie_line("/apps/usr/")
    );
    raw.send(head).await;
    // The body is asked for once the request was permitted and counted as use.
    assert_eq!(
        raw.reader
            .head()
            .await
            .expect("readable")
            .expect("a head")
            .status(),
        100
    );
    for part in ["a", "b", "c"] {
        world.manual_clock.advance(20 * MINUTE);
        let before = alive_until(&world);
        raw.send(part).await;
        // The byte is used when it was passed on; that is what is waited for.
        until("the byte counts as use", || alive_until(&world) != before).await;
    }
    raw.send("d").await;
    assert_eq!(raw.answer().await.expect("an answer").text(), "abcd");
    assert_eq!(
        fetch(&mut alice).await,
        200,
        "an hour after the last request"
    );
}

/// Whether the one sign-in of the world would live a little less than an idle time from now: a
/// number that changes when it was used.
fn alive_until(world: &World) -> usize {
    let gateway = &world.running.gateway;
    let now = gateway.clock.now();
    (0..40)
        .filter(|minute| {
            gateway
                .sessions
                .store
                .any_live_at(now.after(*minute * MINUTE))
        })
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_25_a_jump_of_the_wall_clock_ends_no_session_and_lengthens_none() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    for jump in [3600, -7200, 31_536_000, -99_999_999_999] {
        world.manual_clock.jump_wall(jump);
        assert_eq!(fetch(&mut alice).await, 200, "{jump}");
    }
    world.manual_clock.advance(31 * MINUTE);
    assert_eq!(fetch(&mut alice).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_request_asks_the_provider_nothing() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let calls = |world: &World| -> u64 {
        [
            "discovery",
            "keys",
            "authorize",
            "token",
            "refresh",
            "userinfo",
        ]
        .iter()
        .map(|e| world.provider.calls(e))
        .sum()
    };
    let before = calls(&world);
    for _ in 0..100 {
        assert_eq!(fetch(&mut alice).await, 200);
    }
    assert_eq!(calls(&world), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_person_who_opens_a_page_is_sent_to_sign_in_again_and_comes_back_to_it() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    world.manual_clock.advance(31 * MINUTE);
    let page: Message = alice.sign_in("/apps/usr/deep?x", "alice").await;
    assert_eq!(page.status(), 200);
}
