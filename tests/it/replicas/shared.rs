//! Two gateways that share a Redis act as one (docs/behaviour.md#sessions): whatever ends a session
//! on one of them ends what is open under it on the other, within two seconds; and of both only one
//! asks the provider.

use std::time::{Duration, Instant};

use redis::cmd;
use serde_json::json;

use crate::{
    sessions::back_channel_logout::{claims, header, send_logout_token, session_of},
    sessions::store::admin,
    support::{
        browser::{Browser, From},
        raw::Raw,
        replicas::{Replicas, SOON},
        until::{holds_within, until},
        world::World,
    },
};

const RECHECK: Duration = Duration::from_secs(5 * 60);

/// Signs a person in with one gateway and opens two streams with the other.
async fn open_streams(pair: &Replicas, person: &str) -> (Browser, Raw, Raw) {
    let mut browser = pair.one.signed_in(person).await;
    browser.turn_to(pair.other().running.address);
    assert_eq!(browser.fetch("/apps/grp/x").await.status(), 200);
    let (socket, events) = (
        pair.other().websocket(&browser, "grp").await,
        pair.other().events(&browser, "grp").await,
    );
    browser.turn_to(pair.one.running.address);
    (browser, socket, events)
}

/// The WebSocket is told why, the events end; both soon.
async fn end_soon(what: &str, mut socket: Raw, mut events: Raw) {
    let since = Instant::now();
    assert_eq!(socket.farewell().await, Some(1008), "{what}");
    assert!(events.is_closed().await, "{what}");
    assert!(since.elapsed() < SOON, "{what}: {:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_out_with_one_ends_what_is_open_with_the_other() {
    let pair = Replicas::start().await;
    let (mut alice, socket, events) = open_streams(&pair, "alice").await;
    let out = alice.sign_out().await;
    assert!(matches!(out.status(), 200 | 303), "{}", out.text());
    end_soon("signed out", socket, events).await;
    pair.one.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn back_channel_logout_with_one_ends_what_is_open_with_the_other() {
    let pair = Replicas::start().await;
    let (alice, socket, events) = open_streams(&pair, "alice").await;
    let sid = session_of(&pair.one, &alice);
    let token = pair.one.provider.sign(
        &header(&pair.one),
        &claims(&pair.one, None, Some(&sid), "an id"),
    );
    assert_eq!(send_logout_token(&pair.one, &token).await.status(), 200);
    end_soon("logged out", socket, events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_of_one_ends_what_is_open_with_the_other() {
    let pair = Replicas::start().await;
    let (_alice, socket, events) = open_streams(&pair, "alice").await;
    assert_eq!(
        admin(&pair.one, "DELETE", "subject=alice").await["ended"],
        1
    );
    end_soon("revoked", socket, events).await;
    let (_again, socket, events) = open_streams(&pair, "alice").await;
    admin(&pair.one, "DELETE", "app=grp").await;
    end_soon("the app's sessions revoked", socket, events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn access_that_is_narrowed_ends_what_is_open() {
    let pair = Replicas::start().await;
    let (_alice, socket, events) = open_streams(&pair, "alice").await;
    let narrowed = crate::access::streams::with_access(pair.other(), "grp", Some("group:other"));
    pair.other().running.internals().publish(narrowed);
    end_soon("narrowed", socket, events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_was_taken_away_takes_effect_with_both_and_is_read_once() {
    let pair = Replicas::start().await;
    let (mut alice, socket, events) = open_streams(&pair, "alice").await;
    pair.one
        .provider
        .set_claim("alice", "groups", json!(["friends"]));
    pair.advance(RECHECK).await;
    end_soon("lost the group", socket, events).await;
    for world in pair.both() {
        alice.turn_to(world.running.address);
        let is_refused = holds_within(SOON, async || {
            alice.fetch("/apps/grp/x").await.status() == 403
        })
        .await;
        assert!(is_refused, "with both");
    }
    assert_eq!(pair.one.provider.calls("refresh"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_requests_to_both_cost_one_call_each_time() {
    let pair = Replicas::start().await;
    let mut alice = pair.one.signed_in("alice").await;
    alice.turn_to(pair.other().running.address);
    assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
    let request = format!(
        "GET /apps/usr/x HTTP/1.1\r\nHost: {}\r\n{}{}Connection: close\r\n\r\n",
        pair.one.host,
        From::Fetch.headers(),
        alice.cookie_line("/apps/usr/")
    );
    for round in 1..=4_u64 {
        pair.advance(RECHECK).await;
        let all: Vec<_> = (0..200)
            .map(|count| {
                let world = if count % 2 == 0 {
                    &pair.one
                } else {
                    pair.other()
                };
                let (address, request) = (world.running.address, request.clone());
                tokio::spawn(async move { Raw::exchange(address, request).await.status() })
            })
            .collect();
        for one in all {
            assert_eq!(one.await.expect("no panic"), 200, "round {round}");
        }
        // Both know the answer before the next round.
        until("both replicas have the answer", || {
            let ages = pair.both().map(|world| since_confirmed(world, &alice));
            ages.into_iter().all(|age| age < Duration::from_secs(60))
        })
        .await;
        assert_eq!(
            pair.one.provider.calls("refresh"),
            round,
            "exactly one, and none by a token that was used"
        );
    }
    assert_eq!(
        alice.fetch("/apps/usr/x").await.status(),
        200,
        "the grant was not revoked"
    );
}

/// The time since a sign-in was last confirmed, as a gateway knows it.
fn since_confirmed(world: &World, browser: &Browser) -> Duration {
    let gateway = world.running.internals();
    let (cookie, now) = (browser.value("ludgate").expect("a sign-in"), gateway.now());
    let sign_in = gateway.sign_in(&cookie).expect("signed in");
    Duration::from_millis(now.0 - sign_in.confirmed_at().0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_warm_costs_no_round_trip_and_use_is_told_once_a_minute() {
    let pair = Replicas::start().await;
    let mut alice = pair.one.signed_in("alice").await;
    assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
    let commands = async || pair.redis().calls("evalsha").await + pair.redis().calls("eval").await;
    let before = commands().await;
    for _ in 0..100 {
        assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
    }
    assert_eq!(commands().await, before, "none");
    // Ten minutes of use every second.
    for _ in 0..600 {
        pair.one.manual_clock.advance(Duration::from_secs(1));
        assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
    }
    // A sign-in and an app session, each told at most once a minute; and what two rechecks take.
    let told = commands().await - before;
    assert!((10..=40).contains(&told), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_sealed_and_their_keys_name_no_user() {
    let pair = Replicas::start().await;
    let alice = pair.one.signed_in("alice").await;
    let sid = session_of(&pair.one, &alice);
    let mut all = String::new();
    for key in pair.redis().keys("").await {
        assert!(key.starts_with("ludgate:"), "{key}");
        let kind: String = pair.redis().run(cmd("TYPE").arg(&key)).await;
        all += &format!("{key}\n");
        match kind.as_str() {
            "hash" => {
                let fields: Vec<(String, String)> =
                    pair.redis().run(cmd("HGETALL").arg(&key)).await;
                all += &format!("{fields:?}\n");
            }
            "string" => all += &pair.redis().run::<String>(cmd("GET").arg(&key)).await,
            "list" => {
                all += &pair
                    .redis()
                    .run::<Vec<String>>(cmd("LRANGE").arg(&key).arg(0).arg(-1))
                    .await
                    .join("\n")
            }
            "set" => {
                all += &pair
                    .redis()
                    .run::<Vec<String>>(cmd("SMEMBERS").arg(&key))
                    .await
                    .join("\n")
            }
            other => panic!("{key} is a {other}"),
        }
        let left: i64 = pair.redis().run(cmd("PTTL").arg(&key)).await;
        assert!(left > 0 || key == "ludgate:epoch", "{key} ends by itself");
    }
    let cookies: Vec<&str> = alice.jar.values().map(String::as_str).collect();
    for secret in [&["alice", "friends", "phusers", &sid][..], &cookies].concat() {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_behind_ends_what_began_by_one_that_is_ahead() {
    let pair = Replicas::start().await;
    let (mut alice, socket, events) = {
        pair.one.manual_clock.jump_wall(20);
        let streams = open_streams(&pair, "alice").await;
        pair.one.manual_clock.jump_wall(-20);
        streams
    };
    assert_eq!(
        admin(pair.other(), "DELETE", "subject=alice").await["ended"],
        1
    );
    end_soon("ended", socket, events).await;
    for world in pair.both() {
        alice.turn_to(world.running.address);
        let has_ended = holds_within(SOON, async || {
            alice.fetch("/apps/grp/x").await.status() == 401
        })
        .await;
        assert!(has_ended, "ended at both");
    }
    let again = pair.fetch(&mut alice, "/apps/grp/x").await;
    assert_eq!(again, [401, 401], "it does not come back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_keeps_the_token_that_it_is_about_to_get() {
    let (one, other, redis) = Replicas::start().await.into_parts();
    let mut alice = one.signed_in("alice").await;
    let address = other.running.address;
    redis.age(RECHECK).await;
    one.manual_clock.advance(RECHECK);
    assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
    until("the provider is called", || {
        one.provider.calls("refresh") > 0
    })
    .await;
    let (provider, manual_clock) = (one.provider.clone(), one.manual_clock.clone());
    assert!(one.running.stop().await, "stopped");
    // The next turn is the other's, by the token that came of it.
    alice.turn_to(address);
    for round in 1..=2_u64 {
        redis.age(RECHECK).await;
        manual_clock.advance(RECHECK);
        assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
        until("the provider is called again", || {
            provider.calls("refresh") > round
        })
        .await;
        until("the answer is in use", || {
            since_confirmed(&other, &alice) <= Duration::from_secs(60)
        })
        .await;
    }
    assert_eq!(
        alice.fetch("/apps/usr/x").await.status(),
        200,
        "the grant was not revoked"
    );
}
