//! The store that two gateways share is killed, hangs, is emptied, is slow, holds what is not ours
//! (docs/behaviour.md#sessions): sessions in memory go on, access is never granted by mistake, no
//! user who is signed in has to sign in again, and the gateways recover without help.

use crate::{
    sessions::store::admin,
    support::{
        browser::Browser,
        message::PATIENCE,
        replicas::{Replicas, USER_PAGE},
        until::until_async,
        world::with_operators,
    },
};
use redis::cmd;
use std::time::{Duration, Instant};

pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// Alice is in the memory of one, bob in that of both; carol has not signed in.
pub(super) async fn people(pair: &Replicas) -> [Browser; 3] {
    let (alice, mut bob) = (
        pair.one.signed_in("alice").await,
        pair.one.signed_in("bob").await,
    );
    assert_eq!(pair.fetch(&mut bob, USER_PAGE).await, [200, 200]);
    [alice, bob, pair.one.browser()]
}

/// What holds while the store is away.
async fn holds(what: &str, pair: &Replicas, [alice, bob, carol]: &mut [Browser; 3]) {
    assert_eq!(
        pair.fetch(bob, USER_PAGE).await,
        [200, 200],
        "{what}: in memory"
    );
    assert_eq!(
        pair.fetch(alice, USER_PAGE).await,
        [200, 503],
        "{what}: known to one only"
    );
    alice.turn_to(pair.other().running.address);
    let page = alice.open("/apps/usr/x").await;
    assert_eq!(
        (page.status(), page.header("retry-after").is_some()),
        (503, true),
        "{what}: not sent to sign in"
    );
    assert_eq!(
        pair.fetch(carol, USER_PAGE).await,
        [401, 401],
        "{what}: who has no session has none"
    );
    let mut forged = carol.clone();
    forged
        .jar
        .insert(("ludgate".into(), "/".into()), "A".repeat(43));
    assert_eq!(
        pair.fetch(&mut forged, USER_PAGE).await,
        [503, 503],
        "{what}: unknown sessions are refused"
    );
    let start = forged.open("/oauth2/start?rd=%2F&go=1").await;
    assert_eq!(start.status(), 503, "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_killed_and_comes_back_with_nothing() {
    let mut pair = Replicas::start().await;
    let mut people = people(&pair).await;
    pair.redis_mut().kill().await;
    pair.until_disconnected().await;
    holds("killed", &pair, &mut people).await;
    // A new sign-in works, with the gateway that took it.
    let mut dave = pair.one.signed_in("alice").await;
    assert_eq!(pair.fetch(&mut dave, USER_PAGE).await, [200, 503]);
    // Sessions last as long as ever.
    for _ in 0..2 {
        pair.one.manual_clock.advance(20 * MINUTE);
        assert_eq!(pair.fetch(&mut people[1], USER_PAGE).await, [200, 200]);
        assert_eq!(pair.fetch(&mut dave, USER_PAGE).await, [200, 503]);
    }
    let calls = pair.one.provider.calls("refresh");
    assert_eq!(
        calls, 0,
        "no token that works once is spent while its successor could not be kept"
    );
    pair.redis_mut().again().await;
    pair.until_connected().await;
    pair.until_fetched(
        "who signed in meanwhile is known to both",
        &mut dave,
        [200, 200],
        PATIENCE,
    )
    .await;
    assert_eq!(pair.fetch(&mut people[1], USER_PAGE).await, [200, 200]);
    // What the emptied store does not know is believed after a while.
    pair.redis().age(Duration::from_secs(6)).await;
    assert_eq!(
        pair.fetch(&mut people[0], USER_PAGE).await,
        [401, 401],
        "idle for forty minutes"
    );
    pair.one.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_emptied_and_what_is_in_memory_is_put_back() {
    let pair = Replicas::start().await;
    let [mut alice, mut bob, _] = people(&pair).await;
    pair.redis().run::<()>(&cmd("FLUSHALL")).await;
    // A replica without the session answers 503 until the other one has published it again.
    alice.turn_to(pair.other().running.address);
    let answer = alice.fetch("/apps/usr/x").await.status();
    assert!(matches!(answer, 200 | 503), "{answer}");
    pair.until_fetched("told again", &mut alice, [200, 200], PATIENCE)
        .await;
    assert_eq!(pair.fetch(&mut bob, USER_PAGE).await, [200, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_hangs_and_goes_on() {
    let pair = Replicas::start().await;
    let mut people = people(&pair).await;
    pair.redis().hang();
    let asked = Instant::now();
    assert_eq!(pair.fetch(&mut people[1], USER_PAGE).await, [200, 200]);
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "sessions in memory do not wait: {:?}",
        asked.elapsed()
    );
    pair.until_disconnected().await;
    holds("hangs", &pair, &mut people).await;
    // What ends now ends everywhere when it goes on.
    let mut bob = people[1].clone();
    bob.turn_to(pair.one.running.address);
    let out = bob.sign_out().await;
    assert!(matches!(out.status(), 200 | 303), "{}", out.text());
    pair.redis().go_on();
    let [alice, bob, _] = &mut people;
    pair.until_fetched("known again", alice, [200, 200], PATIENCE)
        .await;
    pair.until_fetched("the session ends on both", bob, [401, 401], PATIENCE)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_of_the_provider_while_it_is_away_is_made_up_for() {
    use crate::sessions::back_channel_logout::{claims, header, send_logout_token};
    let pair = Replicas::start().await;
    let [mut alice, ..] = people(&pair).await;
    pair.redis().hang();
    pair.until_disconnected().await;
    // Told to the gateway that does not know her.
    let token = pair.one.provider.sign(
        &header(&pair.one),
        &claims(&pair.one, Some("alice"), None, "an id"),
    );
    assert_eq!(
        send_logout_token(pair.other(), &token).await.status(),
        503,
        "not done yet"
    );
    pair.redis().go_on();
    pair.until_fetched("the session ends on both", &mut alice, [401, 401], PATIENCE)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_that_is_told_where_the_person_is_known_ends_everywhere_later() {
    use crate::sessions::back_channel_logout::{claims, header, send_logout_token};
    let pair = Replicas::start().await;
    let [_, mut bob, _] = people(&pair).await;
    pair.redis().hang();
    pair.until_disconnected().await;
    let token = pair.one.provider.sign(
        &header(&pair.one),
        &claims(&pair.one, Some("bob"), None, "an id"),
    );
    assert_eq!(
        send_logout_token(&pair.one, &token).await.status(),
        503,
        "not done yet"
    );
    assert_eq!(
        pair.fetch(&mut bob, USER_PAGE).await,
        [503, 200],
        "ended where it is known already"
    );
    pair.redis().go_on();
    // A gateway that tried to tell without end would not even connect again.
    pair.until_connected().await;
    pair.until_fetched("the session ends on both", &mut bob, [401, 401], PATIENCE)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_forgot_what_was_ended_is_told_again() {
    let pair = Replicas::start().await;
    let [mut alice, mut bob, _] = people(&pair).await;
    // As after a restart from an older copy: the record as it was, and no word of its end.
    let record = pair.redis().keys("ludgate:s:").await;
    let mut copies = Vec::new();
    for key in &record {
        copies.push((
            key,
            pair.redis()
                .run::<Vec<(String, String)>>(cmd("HGETALL").arg(key))
                .await,
        ));
    }
    for subject in ["alice", "bob"] {
        assert_eq!(
            admin(&pair.one, "DELETE", &format!("subject={subject}")).await["ended"],
            1
        );
    }
    admin(&pair.one, "DELETE", "app=grp").await;
    pair.redis().until_keys("ludgate:x:", 2).await;
    pair.redis().run::<()>(&cmd("FLUSHALL")).await;
    for (key, fields) in &copies {
        pair.redis()
            .run::<()>(cmd("HSET").arg(key).arg(fields))
            .await;
        pair.redis()
            .run::<i64>(cmd("PEXPIRE").arg(key).arg(1_800_000))
            .await;
    }
    let third = pair.one.replica(with_operators).await;
    third.until_counted("ludgate_session_store_up 1").await;
    for browser in [&mut alice, &mut bob] {
        browser.turn_to(third.running.address);
        // It may load a record before it learns of the revocation.
        until_async("the third replica learns of the end", async || {
            browser.fetch(USER_PAGE).await.status() == 401
        })
        .await;
        assert_eq!(browser.fetch(USER_PAGE).await.status(), 401);
    }
    let words = async {
        let (ended, revoked) = (
            pair.redis().keys("ludgate:x:").await,
            pair.redis().keys("ludgate:r:").await,
        );
        (ended.len(), revoked.len())
    };
    assert_eq!(words.await, (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_sessions_were_ended_while_one_could_not_hear_it_ends_there_too() {
    let mut pair = Replicas::start().await;
    let [_, mut bob, _] = people(&pair).await;
    bob.turn_to(pair.other().running.address);
    let mut socket = pair.other().websocket(&bob, "usr").await;
    pair.redis_mut().kill().await;
    pair.until_disconnected().await;
    admin(&pair.one, "DELETE", "app=usr").await;
    assert!(socket.carries().await, "the revocation cannot arrive");
    pair.redis_mut().again().await;
    assert_eq!(
        socket.farewell().await,
        Some(1008),
        "told when the store is back"
    );
    // And it does not come back by what the other puts there.
    pair.redis().age(Duration::from_secs(6)).await;
    pair.until_fetched("signed in as ever", &mut bob, [200, 200], PATIENCE)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_begins_more_app_sessions_than_may_be_does_not_fill_the_store() {
    let pair = Replicas::start().await;
    let mut alice = pair.one.signed_in("alice").await;
    for _ in 0..200 {
        // A client that keeps its sign-in and no other cookie.
        alice.jar.retain(|(name, _), _| name == "ludgate");
        assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
    }
    until_async("the oldest app sessions are gone", async || {
        pair.redis().keys("ludgate:a:").await.len() == 64
    })
    .await;
    // The newest is not.
    let cookies = alice.jar.clone();
    assert_eq!(pair.fetch(&mut alice, "/apps/usr/x").await, [200, 200]);
    assert_eq!(alice.jar, cookies, "no new app session");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_is_left_and_tried_again() {
    let pair = Replicas::start().await;
    let [mut alice, ..] = people(&pair).await;
    // As one that was made a follower of another.
    pair.redis()
        .run::<()>(cmd("REPLICAOF").arg("127.0.0.1").arg(1))
        .await;
    pair.until_disconnected().await;
    let mut late = pair.one.signed_in("alice").await;
    assert_eq!(pair.fetch(&mut alice, USER_PAGE).await[0], 200);
    pair.redis()
        .run::<()>(cmd("REPLICAOF").arg("NO").arg("ONE"))
        .await;
    pair.until_fetched(
        "known to both when it takes writes again",
        &mut late,
        [200, 200],
        PATIENCE,
    )
    .await;
}
