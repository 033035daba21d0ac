//! Recheck (docs/behaviour.md#sessions): membership is read again, in the background, once for
//! everybody who notices; what was taken away ends on what is open too; a provider that is away
//! changes nothing.

use std::time::Duration;

use ludgate::{demo::provider::DemoProvider, model::clock::Clock};
use serde_json::json;

use crate::support::{
    browser::{Browser, From},
    message::Message,
    raw::Raw,
    until::{until, until_async},
    world::{World, client, free_port},
};

const RECHECK: Duration = Duration::from_secs(5 * 60);
const WINDOW: Duration = Duration::from_secs(30 * 60);
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// One request of alice's own page.
fn fetch(world: &World, alice: &Browser, app: &str) -> String {
    let headers = From::Fetch.headers();
    let cookies = alice.cookie_line(&format!("/apps/{app}/"));
    format!(
        "GET /apps/{app}/x HTTP/1.1\r\nHost: {}\r\n{headers}{cookies}Connection: close\r\n\r\n",
        world.host
    )
}

async fn at_once(world: &World, request: &str, many: usize) -> Vec<Message> {
    let all: Vec<_> = (0..many)
        .map(|_| {
            let (address, request) = (world.running.address, request.to_owned());
            tokio::spawn(async move { Raw::exchange(address, request).await })
        })
        .collect();
    let mut answers = Vec::new();
    for one in all {
        answers.push(one.await.expect("no panic"));
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_requests_at_once_cost_one_call_and_do_not_wait() {
    let world = World::new().await.ready().await;
    let alice = world.signed_in("alice").await;
    for round in 1..=4_u64 {
        world.manual_clock.advance(RECHECK);
        let answers = at_once(&world, &fetch(&world, &alice, "usr"), 200).await;
        assert!(
            answers.iter().all(|answer| answer.status() == 200),
            "round {round}"
        );
        until("one refresh", || world.provider.calls("refresh") == round).await;
        // The answer is in use before the next round: its token would otherwise be used twice.
        world
            .until_counted(&format!(
                "ludgate_oidc_requests_total{{endpoint=\"refresh\",result=\"ok\"}} {round}"
            ))
            .await;
        assert_eq!(world.provider.calls("refresh"), round, "exactly one");
    }
    world.manual_clock.advance(RECHECK / 2);
    at_once(&world, &fetch(&world, &alice, "usr"), 10).await;
    assert_eq!(world.provider.calls("refresh"), 4, "not before it is due");
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_was_taken_away_takes_effect_at_recheck_on_requests_and_on_streams() {
    // One thread checks all streams in one pass.
    let world = World::with_threads(1, "", |_| {}).await.ready().await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(
        alice
            .send("GET", "/apps/grp/x", From::Navigation, "", b"")
            .await
            .status(),
        200
    );
    let (mut socket, mut events) = (
        world.websocket(&alice, "grp").await,
        world.events(&alice, "grp").await,
    );
    let others = world.events(&alice, "usr").await;
    assert!(socket.carries().await);
    world
        .provider
        .set_claim("alice", "groups", json!(["friends"]));
    assert_eq!(
        alice.fetch("/apps/grp/x").await.status(),
        200,
        "not known yet"
    );
    // No request is sent: the recheck of the streams themselves is due.
    world.manual_clock.advance(RECHECK);
    assert_eq!(socket.farewell().await, Some(1008));
    assert!(events.is_closed().await);
    let cut = world.running.internals().streams_cut();
    assert_eq!(cut, 2, "what she may still see goes on");
    let refused = alice
        .send("GET", "/apps/grp/x", From::Navigation, "", b"")
        .await;
    assert!(
        refused.status() == 403 && refused.text().contains("phusers"),
        "{}",
        refused.text()
    );
    // And a group that was given opens.
    world
        .provider
        .set_claim("alice", "groups", json!(["friends", "/phusers"]));
    world.manual_clock.advance(RECHECK);
    until_async("the app opens again", async || {
        alice.fetch("/apps/grp/x").await.status() == 200
    })
    .await;
    drop((socket, events, others));
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_is_over_ends_the_sign_in_and_all_it_opened() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let mut socket = world.websocket(&alice, "usr").await;
    world.provider.end_grants();
    world.manual_clock.advance(RECHECK);
    assert_eq!(socket.farewell().await, Some(1008));
    assert_eq!(alice.fetch("/apps/usr/x").await.status(), 401);
    assert_eq!(alice.open("/apps/usr/").await.status(), 302);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_about_another_user_ends_it_too() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    world
        .provider
        .set_mischief(Some(Box::new(|_, claims| claims["sub"] = "mallory".into())));
    world.manual_clock.advance(RECHECK);
    until_async("the session ends", async || {
        alice.fetch("/apps/usr/x").await.status() == 401
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_away_changes_nothing_and_is_asked_again_soon() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()
        .expect("a runtime");
    let (clock, manual_clock) = Clock::manual();
    let (port, provider_port) = (free_port(), free_port());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", provider_port))
        .await
        .expect("a port");
    let listener = listener.into_std().expect("a socket");
    let host = format!("127.0.0.1:{port}");
    let starting = {
        let (clock, host) = (clock.clone(), host.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            DemoProvider::start_on(listener, client(&host), clock)
        })
    };
    let provider = starting.await.expect("started").expect("a provider");
    let world = World::behind(provider, clock.clone(), manual_clock, port, "", |_| {})
        .await
        .ready()
        .await;
    let signed_in_at = world.running.internals().now();
    let mut alice = world.signed_in("alice").await;
    let mut socket = world.websocket(&alice, "grp").await;
    runtime.shutdown_background();
    for _ in 0..6 {
        world.manual_clock.advance(Duration::from_secs(29 * 60));
        assert_eq!(
            alice.fetch("/apps/grp/x").await.status(),
            200,
            "for as long as the session may last"
        );
        assert!(socket.carries().await);
    }
    let failures = "ludgate_oidc_requests_total{endpoint=\"refresh\",result=\"error\"}";
    until_async("a check fails", async || {
        world.metric(failures).await > Some(0.0)
    })
    .await;
    // The provider comes back without its grants.
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", provider_port))
        .await
        .expect("the port");
    let restarted = DemoProvider::start_on(listener, client(&host), clock).expect("a provider");
    // A failed check is repeated after 30 seconds. Under load the last failure may be noted late.
    let mut steps = 0;
    until_async("the provider is called again", async || {
        if steps < 300 {
            steps += 1;
            world.manual_clock.advance(Duration::from_secs(10));
        }
        alice.fetch("/apps/grp/x").await;
        restarted.calls("refresh") > 0
    })
    .await;
    until_async("the session ends", async || {
        alice.fetch("/apps/grp/x").await.status() == 401
    })
    .await;
    let refused = alice.fetch("/apps/grp/x").await;
    assert_eq!(
        (refused.status(), refused.json()["reason"].as_str()),
        (401, Some("anonymous"))
    );
    assert_eq!(socket.farewell().await, Some(1008));
    world.log.line_with("\"outcome\":\"session_ended\"").await;
    // The same answers would come at the end of the lifetime, but the check was earlier.
    assert_eq!(restarted.calls("refresh"), 1);
    let age = Duration::from_millis(world.running.internals().now().0 - signed_in_at.0);
    assert!(age < LIFETIME / 2, "{age:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_only_fetches_for_twenty_windows_never_sees_a_redirect_or_a_401() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    for round in 0..20 {
        world.manual_clock.advance(WINDOW - Duration::from_secs(1));
        let answer = alice.fetch("/apps/grp/x").await;
        assert_eq!(answer.status(), 200, "round {round}: {}", answer.text());
    }
    world.manual_clock.advance(WINDOW);
    assert_eq!(
        alice.fetch("/apps/grp/x").await.status(),
        401,
        "an idle one is signed out at the window"
    );
}
