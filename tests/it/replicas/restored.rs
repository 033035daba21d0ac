//! Who can write to Redis puts back what was deleted there: a session that was signed out does not
//! come to life with it, and one whose proof is old counts for nothing that depends on groups until
//! the person is proved again.

use std::time::Duration;

use redis::cmd;

use crate::support::{
    browser::Browser,
    replicas::Replicas,
    until::{until, until_async},
    world::{World, with_operators},
};

const RECHECK: Duration = Duration::from_secs(5 * 60);

/// Everything that Redis knows of sessions, and how to put it back.
async fn dump(pair: &Replicas) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for prefix in ["ludgate:s:", "ludgate:a:", "ludgate:p:"] {
        for key in pair.redis().keys(prefix).await {
            let value: Vec<u8> = pair.redis().run(cmd("DUMP").arg(&key)).await;
            all.push((key, value));
        }
    }
    all
}

async fn restore(pair: &Replicas, all: &[(String, Vec<u8>)]) {
    for key in pair.redis().keys("ludgate:x:").await {
        pair.redis().run::<i64>(cmd("DEL").arg(key)).await;
    }
    for (key, value) in all {
        let ttl = 20 * 60 * 1000;
        pair.redis()
            .run::<()>(cmd("RESTORE").arg(key).arg(ttl).arg(value).arg("REPLACE"))
            .await;
    }
}

/// Alice's session, with a check at the provider that is due again.
async fn signed_in_long_ago(pair: &Replicas) -> Browser {
    let alice = pair.one.signed_in("alice").await;
    pair.advance(RECHECK).await;
    alice
}

async fn late_replica(pair: &Replicas) -> World {
    let late = pair.one.replica(with_operators).await;
    late.until_counted("ludgate_session_store_up 1").await;
    // A new connection is not trusted for five seconds.
    pair.advance(Duration::from_secs(10)).await;
    late
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_signed_out_stays_so_when_redis_is_made_to_forget_it() {
    let pair = Replicas::start().await;
    let mut alice = pair.one.signed_in("alice").await;
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
    pair.redis().until_keys("ludgate:a:", 2).await;
    let dumped = dump(&pair).await;
    assert!(!dumped.is_empty());
    let cookies = alice.clone();
    let out = alice.sign_out().await;
    assert!(matches!(out.status(), 200 | 303), "{}", out.text());
    until("the refresh token is revoked", || {
        pair.one.provider.calls("revoke") > 0
    })
    .await;
    pair.advance(RECHECK).await;
    restore(&pair, &dumped).await;
    let late = late_replica(&pair).await;
    let mut thief = cookies;
    thief.turn_to(late.running.address);
    assert_eq!(thief.fetch("/apps/grp/x").await.status(), 401);
    assert_eq!(
        late.backend("grp").count(),
        1,
        "nothing reached the app after the sign-out"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_with_an_old_confirmation_is_checked_before_it_counts_for_a_group() {
    let pair = Replicas::start().await;
    let mut alice = pair.one.signed_in("alice").await;
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
    pair.advance(RECHECK).await;
    // She is in no group any more, which no replica has heard of.
    pair.one
        .provider
        .set_claim("alice", "groups", serde_json::json!([]));
    let late = late_replica(&pair).await;
    let mut other = alice.clone();
    other.turn_to(late.running.address);
    assert_eq!(
        other.fetch("/apps/grp/x").await.status(),
        403,
        "asked about before she is let in"
    );
    assert_eq!(other.fetch("/apps/usr/x").await.status(), 200);
    assert_eq!(pair.one.provider.calls("refresh"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_proved_now_is_503_for_a_group_and_goes_on_for_everybody_s_apps() {
    let pair = Replicas::start().await;
    let mut alice = signed_in_long_ago(&pair).await;
    // So soon after it connected, a replica asks the provider nothing: another may be doing so.
    let late = pair.one.replica(with_operators).await;
    late.until_counted("ludgate_session_store_up 1").await;
    alice.turn_to(late.running.address);
    let away = alice.fetch("/apps/grp/x").await;
    assert_eq!(
        (away.status(), away.json()["reason"].as_str()),
        (503, Some("unverifiable"))
    );
    assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_proved_by_asking_may_sign_in_again() {
    let pair = Replicas::start().await;
    let mut alice = signed_in_long_ago(&pair).await;
    // No answer identifies the person.
    pair.one
        .provider
        .set_mischief(Some(Box::new(|header, _| header["alg"] = "none".into())));
    let late = late_replica(&pair).await;
    alice.turn_to(late.running.address);
    let page = alice.open("/apps/grp/x").await;
    assert_eq!(page.status(), 302, "{}", page.text());
    pair.one.provider.set_mischief(None);
    assert_eq!(alice.sign_in("/apps/grp/x", "alice").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn apps_are_not_told_groups_that_were_not_proved() {
    let pair = Replicas::start().await;
    let mut alice = signed_in_long_ago(&pair).await;
    let late = late_replica(&pair).await;
    alice.turn_to(late.running.address);
    assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
    let seen = late.backend("usr").last();
    assert_eq!(
        (
            seen.header("x-forwarded-user").as_deref(),
            seen.header("x-forwarded-groups")
        ),
        (Some("alice"), None)
    );
    until_async("the groups are confirmed in the background", async || {
        assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
        let request = late.backend("usr").last();
        request.header("x-forwarded-groups").is_some()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_requests_wait_for_the_proof_that_another_replica_obtains() {
    let pair = Replicas::start().await;
    let mut alice = pair.one.signed_in("alice").await;
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
    pair.advance(RECHECK).await;
    let late = late_replica(&pair).await;
    // As the other replica holds it, while it asks the provider.
    let records = pair.redis().keys("ludgate:s:").await;
    let [record] = records.as_slice() else {
        panic!("not one sign-in: {records:?}")
    };
    let lock = record.replacen("ludgate:s:", "ludgate:l:", 1);
    let mut hold = cmd("SET");
    hold.arg(&lock).arg("other").arg("PX").arg(30_000);
    pair.redis().run::<String>(&hold).await;
    let attempts = pair.redis().calls("set").await;
    let request = || {
        let mut browser = alice.clone();
        browser.turn_to(late.running.address);
        tokio::spawn(async move { browser.fetch("/apps/grp/x").await.status() })
    };
    let mut waiting = vec![request()];
    until_async("the lock is found taken", async || {
        pair.redis().calls("set").await > attempts
    })
    .await;
    waiting.extend((0..5).map(|_| request()));
    until("all requests wait", || {
        late.running.internals().requests_in_flight() == 6
    })
    .await;
    pair.redis().run::<i64>(cmd("DEL").arg(&lock)).await;
    // The check is due there too.
    assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
    for one in waiting {
        assert_eq!(one.await.expect("no panic"), 200);
    }
    assert_eq!(pair.one.provider.calls("refresh"), 1);
}
