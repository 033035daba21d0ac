//! What the session store keeps, and for how long: the same in memory and in Redis, where every
//! second request goes to another gateway (docs/behaviour.md#sessions).

use std::time::Duration;

use crate::{
    sessions::back_channel_logout::{claims, header, send_logout_token, session_of},
    support::{
        browser::{Browser, field},
        raw::Raw,
        redis::RedisServer,
        replicas::{Replicas, SOON},
        world::{ADMIN_TOKEN, World, with_operators},
    },
};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn who_signs_in_with_one_is_signed_in_with_the_other() {
    for pair in Replicas::each_kind().await {
        let mut alice = pair.one.signed_in("alice").await;
        assert_eq!(pair.fetch(&mut alice, "/apps/usr/x").await, [200, 200]);
        assert_eq!(
            pair.fetch(&mut alice, "/apps/grp/x").await,
            [200, 200],
            "another app of theirs"
        );
        assert_eq!(
            pair.fetch(&mut alice, "/apps/oth/x").await,
            [403, 403],
            "and no other"
        );
        assert_eq!(pair.fetch(&mut alice, "/oauth2/userinfo").await, [200, 200]);
        let calls = pair.one.provider.calls("token");
        assert_eq!(calls, 1, "one sign-in");
        pair.one.check_oracles().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn use_with_either_keeps_a_session_and_without_use_it_ends_at_its_window() {
    for pair in Replicas::each_kind().await {
        let mut alice = pair.one.signed_in("alice").await;
        // Only the other sees use; this one believes it long idle.
        for _ in 0..4 {
            pair.advance(29 * MINUTE).await;
            alice.turn_to(pair.other().running.address);
            assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
        }
        alice.turn_to(pair.one.running.address);
        assert_eq!(
            alice.fetch("/apps/usr/x").await.status(),
            200,
            "asked again before it is called over"
        );
        pair.advance(30 * MINUTE).await;
        assert_eq!(pair.fetch(&mut alice, "/apps/usr/x").await, [401, 401]);
        let page = alice.open("/apps/usr/x").await;
        assert_eq!(page.status(), 302, "to sign in");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_constant_use_it_ends_at_its_lifetime_with_both() {
    for pair in Replicas::each_kind().await {
        let mut alice = pair.one.signed_in("alice").await;
        for _ in 0..35 {
            pair.advance(20 * MINUTE).await;
            assert_eq!(pair.fetch(&mut alice, "/apps/usr/x").await, [200, 200]);
        }
        pair.advance(20 * MINUTE).await;
        assert_eq!(
            pair.fetch(&mut alice, "/apps/usr/x").await,
            [401, 401],
            "12 h are over"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_with_one_has_ended_with_the_other_and_only_that() {
    for pair in Replicas::each_kind().await {
        let mut laptop = pair.one.signed_in("alice").await;
        let mut phone = pair.other().signed_in("alice").await;
        for browser in [&mut laptop, &mut phone] {
            assert_eq!(pair.fetch(browser, "/apps/usr/x").await, [200, 200]);
        }
        let form = laptop.open("/oauth2/sign_out").await.text();
        let (token, address) = (field(&form, "token"), pair.other().running.address);
        laptop.turn_to(address);
        let kept = laptop.clone();
        let out = laptop.sign_out_with(&token).await;
        assert!(matches!(out.status(), 200 | 303), "{}", out.text());
        let mut kept = kept;
        pair.until_fetched("the session has ended", &mut kept, [401, 401], SOON)
            .await;
        assert_eq!(
            pair.fetch(&mut phone, "/apps/usr/x").await,
            [200, 200],
            "the other sign-in goes on"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_and_an_operator_end_what_the_other_has_begun() {
    for pair in Replicas::each_kind().await {
        let (one, other) = (&pair.one, pair.other());
        let mut laptop = one.signed_in("alice").await;
        let mut phone = one.signed_in("alice").await;
        let mut bob = one.signed_in("bob").await;
        let sid = session_of(one, &laptop);
        let token = one
            .provider
            .sign(&header(one), &claims(one, None, Some(&sid), "by session"));
        assert_eq!(send_logout_token(other, &token).await.status(), 200);
        pair.until_fetched("the session has ended", &mut laptop, [401, 401], SOON)
            .await;
        assert_eq!(pair.fetch(&mut phone, "/apps/usr/x").await, [200, 200]);
        assert_eq!(
            send_logout_token(one, &token).await.status(),
            400,
            "used, wherever it came"
        );
        let token = one
            .provider
            .sign(&header(one), &claims(one, Some("alice"), None, "by person"));
        assert_eq!(send_logout_token(other, &token).await.status(), 200);
        pair.until_fetched("the session has ended", &mut phone, [401, 401], SOON)
            .await;
        assert_eq!(pair.fetch(&mut bob, "/apps/usr/x").await, [200, 200]);
        let listed = admin(other, "GET", "subject=bob").await;
        assert_eq!(
            listed["sessions"].as_array().map(Vec::len),
            Some(1),
            "{listed}"
        );
        assert_eq!(admin(other, "DELETE", "subject=bob").await["ended"], 1);
        pair.until_fetched("the session has ended", &mut bob, [401, 401], SOON)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_app_all_sessions_end_and_the_sign_ins_open_it_anew() {
    for pair in Replicas::each_kind().await {
        let mut alice = pair.one.signed_in("alice").await;
        assert_eq!(pair.fetch(&mut alice, "/apps/usr/x").await, [200, 200]);
        let before = alice.jar.clone();
        admin(pair.other(), "DELETE", "app=usr").await;
        // A session that began in the same second is meant too; the next second's is not.
        pair.advance(Duration::from_secs(1)).await;
        assert_eq!(pair.fetch(&mut alice, "/apps/usr/x").await, [200, 200]);
        assert_ne!(before, alice.jar, "with another session");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_person_has_fifty_sign_ins_and_the_oldest_makes_room() {
    for pair in Replicas::each_kind().await {
        let mut browsers = Vec::new();
        for count in 0..51 {
            let world = if count % 2 == 0 {
                &pair.one
            } else {
                pair.other()
            };
            browsers.push(world.signed_in("alice").await);
            // One client may not begin so many at once.
            pair.advance(Duration::from_secs(1)).await;
        }
        let [oldest, next, ..] = browsers.as_mut_slice() else {
            panic!("51")
        };
        pair.until_fetched("the session has ended", oldest, [401, 401], SOON)
            .await;
        assert_eq!(pair.fetch(next, "/apps/usr/x").await, [200, 200]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_that_is_told_by_many_tasks_at_once_counts_once() {
    let redis = RedisServer::start().await;
    let world = World::with(&redis.section(), with_operators)
        .await
        .ready()
        .await;
    world.until_counted("ludgate_session_store_up 1").await;
    let alice = world.signed_in("alice").await;
    let inside = world.running.internals();
    let cookie = alice.value("ludgate").expect("a sign-in");
    let sign_in = inside.sign_in(&cookie).expect("signed in");
    sign_in.forget_stored();
    futures_util::future::join_all((0..32).map(|_| sign_in.store())).await;
    let lists = redis.keys("ludgate:p:").await;
    assert_eq!(lists.len(), 1, "one person: {lists:?}");
    assert_eq!(redis.run::<i64>(redis::cmd("LLEN").arg(&lists[0])).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_of_one_is_taken_by_the_other_and_once() {
    for pair in Replicas::each_kind().await {
        let (one, other) = (&pair.one, pair.other());
        let alice = one.signed_in("alice").await;
        let mut host = Browser::new(other.running.address, &host_of(one, "grp"));
        let to_site = host.open("/x?y").await;
        assert_eq!(to_site.status(), 302);
        let start = to_site.header("location").expect("a place");
        let path = start
            .split_once(&one.host)
            .map(|(_, path)| path.to_owned())
            .expect("on the site");
        let mut site = alice.clone();
        let ticket = site.open(&path).await;
        let enter = ticket.header("location").expect("a ticket");
        let path = enter
            .split_once("/.ludgate/")
            .map(|(_, rest)| format!("/.ludgate/{rest}"))
            .expect("enter");
        let taken = host.open(&path).await;
        assert_eq!(
            (
                taken.status(),
                taken
                    .header("location")
                    .is_some_and(|to| to.ends_with("/x?y"))
            ),
            (303, true)
        );
        assert_eq!(pair.fetch(&mut host, "/x").await, [200, 200]);
        for world in [one, other] {
            host.turn_to(world.running.address);
            assert_eq!(host.open(&path).await.status(), 400, "it is gone");
        }
    }
}

fn host_of(world: &World, label: &str) -> String {
    let port = world.host.rsplit(':').next().expect("a port");
    format!("{label}.localhost:{port}")
}

/// What the operators' listener says of sessions.
pub async fn admin(world: &World, method: &str, query: &str) -> serde_json::Value {
    let address = world.running.admin;
    let request = format!(
        "{method} /sessions?{query} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\nConnection: close\r\n\r\n"
    );
    let answer = Raw::exchange(address, request).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    answer.json()
}
