//! The store that two gateways share is killed, hangs, is emptied, is slow, holds what is not ours
//! (docs/behaviour.md#sessions): sessions in memory go on, access is never granted by mistake, no
//! user who is signed in has to sign in again, and the gateways recover without help.

use crate::{
    replicas::shared::Pair,
    sessions::store::{admin, field},
    support::{
        browser::{Browser, From},
        message::PATIENCE,
    },
};
use redis::cmd;
use std::time::{Duration, Instant};

pub(super) const MINUTE: Duration = Duration::from_secs(60);

pub(super) async fn fetch(pair: &Pair, browser: &mut Browser) -> [u16; 2] {
    let mut answers = [0; 2];
    for (answer, world) in answers.iter_mut().zip([&pair.one, &pair.other]) {
        browser.turn_to(world.running.address);
        *answer = browser.fetch("/apps/usr/x").await.status();
    }
    answers
}

async fn until(what: &str, pair: &Pair, browser: &mut Browser, expected: [u16; 2]) {
    let until = Instant::now() + PATIENCE;
    let mut got = fetch(pair, browser).await;
    while got != expected {
        assert!(Instant::now() < until, "{what}: {got:?}");
        assert!(!got.contains(&401), "{what}: nobody is asked to sign in");
        tokio::time::sleep(Duration::from_millis(10)).await;
        got = fetch(pair, browser).await;
    }
}

/// Alice is in the memory of one, bob in that of both; carol has not signed in.
pub(super) async fn people(pair: &Pair) -> [Browser; 3] {
    let (alice, mut bob) = (
        pair.one.signed_in("alice").await,
        pair.one.signed_in("bob").await,
    );
    assert_eq!(fetch(pair, &mut bob).await, [200, 200]);
    [alice, bob, pair.one.browser()]
}

/// What holds while the store is away.
async fn holds(what: &str, pair: &Pair, [alice, bob, carol]: &mut [Browser; 3]) {
    assert_eq!(fetch(pair, bob).await, [200, 200], "{what}: in memory");
    assert_eq!(
        fetch(pair, alice).await,
        [200, 503],
        "{what}: known to one only"
    );
    alice.turn_to(pair.other.running.address);
    let page = alice.open("/apps/usr/x").await;
    assert_eq!(
        (page.status(), page.header("retry-after").is_some()),
        (503, true),
        "{what}: not sent to sign in"
    );
    assert_eq!(
        fetch(pair, carol).await,
        [401, 401],
        "{what}: who has no session has none"
    );
    let mut forged = carol.clone();
    forged
        .jar
        .insert(("ludgate".into(), "/".into()), "A".repeat(43));
    assert_eq!(
        fetch(pair, &mut forged).await,
        [503, 503],
        "{what}: nobody can say, so nobody gets in"
    );
    let start = forged.open("/oauth2/start?rd=%2F&go=1").await;
    assert_eq!(start.status(), 503, "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_killed_and_comes_back_with_nothing() {
    let mut pair = Pair::start().await;
    let mut people = people(&pair).await;
    pair.redis.kill().await;
    pair.connected(0).await;
    holds("killed", &pair, &mut people).await;
    // A new sign-in works, with the gateway that took it.
    let mut dave = pair.one.signed_in("alice").await;
    assert_eq!(fetch(&pair, &mut dave).await, [200, 503]);
    // Sessions last as long as ever.
    for _ in 0..2 {
        pair.one.manual_clock.advance(20 * MINUTE);
        assert_eq!(fetch(&pair, &mut people[1]).await, [200, 200]);
        assert_eq!(fetch(&pair, &mut dave).await, [200, 503]);
    }
    let calls = pair.one.provider.calls("refresh");
    assert_eq!(
        calls, 0,
        "no token that works once is spent while its successor could not be kept"
    );
    pair.redis.again().await;
    pair.connected(1).await;
    until(
        "who signed in meanwhile is known to both",
        &pair,
        &mut dave,
        [200, 200],
    )
    .await;
    assert_eq!(fetch(&pair, &mut people[1]).await, [200, 200]);
    // What the emptied store does not know is believed after a while.
    pair.redis.age(Duration::from_secs(6)).await;
    assert_eq!(
        fetch(&pair, &mut people[0]).await,
        [401, 401],
        "idle for forty minutes"
    );
    pair.one.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_emptied_and_what_is_in_memory_is_put_back() {
    let pair = Pair::start().await;
    let [mut alice, mut bob, _] = people(&pair).await;
    pair.redis.run::<()>(&cmd("FLUSHALL")).await;
    // A replica without the session answers 503 until the other one has published it again.
    alice.turn_to(pair.other.running.address);
    let answer = alice.fetch("/apps/usr/x").await.status();
    assert!(matches!(answer, 200 | 503), "{answer}");
    until("told again", &pair, &mut alice, [200, 200]).await;
    assert_eq!(fetch(&pair, &mut bob).await, [200, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_hangs_and_goes_on() {
    let pair = Pair::start().await;
    let mut people = people(&pair).await;
    pair.redis.hang();
    let asked = Instant::now();
    assert_eq!(fetch(&pair, &mut people[1]).await, [200, 200]);
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "nobody in memory waits: {:?}",
        asked.elapsed()
    );
    pair.connected(0).await;
    holds("hangs", &pair, &mut people).await;
    // What ends now ends everywhere when it goes on.
    let mut bob = people[1].clone();
    bob.turn_to(pair.one.running.address);
    let form = bob.open("/oauth2/sign_out").await.text();
    let body = format!("token={}&rd=%2Fapps%2F", field(&form, "token"));
    let more = format!(
        "Origin: http://{}\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        pair.one.host
    );
    bob.send(
        "POST",
        "/oauth2/sign_out",
        From::Navigation,
        &more,
        body.as_bytes(),
    )
    .await;
    pair.redis.go_on();
    let [alice, bob, _] = &mut people;
    until("known again", &pair, alice, [200, 200]).await;
    over_everywhere(&pair, bob).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_of_the_provider_while_it_is_away_is_made_up_for() {
    use crate::sessions::back_channel_logout::{claims, header, send_logout_token};
    let pair = Pair::start().await;
    let [mut alice, ..] = people(&pair).await;
    pair.redis.hang();
    pair.connected(0).await;
    // Told to the gateway that does not know her.
    let token = pair.one.provider.sign(
        &header(&pair.one),
        &claims(&pair.one, Some("alice"), None, "an id"),
    );
    assert_eq!(
        send_logout_token(&pair.other, &token).await.status(),
        503,
        "not done yet"
    );
    pair.redis.go_on();
    over_everywhere(&pair, &mut alice).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_that_is_told_where_the_person_is_known_ends_everywhere_later() {
    use crate::sessions::back_channel_logout::{claims, header, send_logout_token};
    let pair = Pair::start().await;
    let [_, mut bob, _] = people(&pair).await;
    pair.redis.hang();
    pair.connected(0).await;
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
        fetch(&pair, &mut bob).await,
        [503, 200],
        "ended where it is known already"
    );
    pair.redis.go_on();
    // A gateway that tried to tell without end would not even connect again.
    pair.connected(1).await;
    over_everywhere(&pair, &mut bob).await;
}

/// Waits until the session of this browser is over on both replicas.
pub(super) async fn over_everywhere(pair: &Pair, browser: &mut Browser) {
    let mut got = [0; 2];
    let gone = async {
        while got != [401, 401] {
            got = fetch(pair, browser).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, gone).await;
    assert!(waited.is_ok(), "signed out with both: {got:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_forgot_what_was_ended_is_told_again() {
    let pair = Pair::start().await;
    let [mut alice, mut bob, _] = people(&pair).await;
    // As after a restart from an older copy: the record as it was, and no word of its end.
    let record = pair.redis.keys("ludgate:s:").await;
    let mut copies = Vec::new();
    for key in &record {
        copies.push((
            key,
            pair.redis
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
    let told = async { while pair.redis.keys("ludgate:x:").await.len() < 2 {} };
    tokio::time::timeout(PATIENCE, told).await.expect("told");
    pair.redis.run::<()>(&cmd("FLUSHALL")).await;
    for (key, fields) in &copies {
        pair.redis.run::<()>(cmd("HSET").arg(key).arg(fields)).await;
        pair.redis
            .run::<i64>(cmd("PEXPIRE").arg(key).arg(1_800_000))
            .await;
    }
    let third = pair
        .one
        .replica(crate::sessions::store::with_operators)
        .await;
    third.until_counted("ludgate_session_store_up 1").await;
    for browser in [&mut alice, &mut bob] {
        browser.turn_to(third.running.address);
        let over = async { while browser.fetch("/apps/usr/x").await.status() != 401 {} };
        tokio::time::timeout(PATIENCE, over)
            .await
            .expect("over everywhere, and for good");
    }
    let words = async {
        let (ended, revoked) = (
            pair.redis.keys("ludgate:x:").await,
            pair.redis.keys("ludgate:r:").await,
        );
        (ended.len(), revoked.len())
    };
    assert_eq!(words.await, (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_sessions_were_ended_while_one_could_not_hear_it_ends_there_too() {
    let mut pair = Pair::start().await;
    let [_, mut bob, _] = people(&pair).await;
    bob.turn_to(pair.other.running.address);
    let mut socket = pair.other.websocket(&bob, "usr").await;
    pair.redis.kill().await;
    pair.connected(0).await;
    admin(&pair.one, "DELETE", "app=usr").await;
    assert!(socket.carries().await, "nobody could be told");
    pair.redis.again().await;
    assert_eq!(
        socket.farewell().await,
        Some(1008),
        "told when the store is back"
    );
    // And it does not come back by what the other puts there.
    pair.redis.age(Duration::from_secs(6)).await;
    until("signed in as ever", &pair, &mut bob, [200, 200]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_begins_more_app_sessions_than_may_be_does_not_fill_the_store() {
    let pair = Pair::start().await;
    let alice = pair.one.signed_in("alice").await;
    for _ in 0..200 {
        // A client that keeps its sign-in and no other cookie.
        let mut careless = alice.clone();
        careless.jar.retain(|(name, _), _| name == "ludgate");
        assert_eq!(careless.fetch("/apps/usr/x").await.status(), 200);
    }
    let few = async { while pair.redis.keys("ludgate:a:").await.len() > 64 {} };
    tokio::time::timeout(PATIENCE, few)
        .await
        .expect("those that made room are gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_is_left_and_tried_again() {
    let pair = Pair::start().await;
    let [mut alice, ..] = people(&pair).await;
    // As one that was made a follower of another.
    pair.redis
        .run::<()>(cmd("REPLICAOF").arg("127.0.0.1").arg(1))
        .await;
    pair.connected(0).await;
    let mut late = pair.one.signed_in("alice").await;
    assert_eq!(fetch(&pair, &mut alice).await[0], 200);
    pair.redis
        .run::<()>(cmd("REPLICAOF").arg("NO").arg("ONE"))
        .await;
    until(
        "known to both when it takes writes again",
        &pair,
        &mut late,
        [200, 200],
    )
    .await;
}
