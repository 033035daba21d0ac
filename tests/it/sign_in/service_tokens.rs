//! Service tokens: credentials of programs, for some apps and for some time.

use std::time::Duration;

use ludgate::settings::Settings;

use crate::support::{
    browser::From,
    message::Message,
    service_tokens::{TokenFolder, let_it_look},
    until::until_async,
    world::World,
};

async fn get(world: &World, app: &str, authorization: &str) -> Message {
    let line = format!("Authorization: {authorization}\r\n");
    let target = format!("/apps/{app}/x");
    let mut program = world.browser();
    program
        .send("GET", &target, From::Program, &line, b"")
        .await
}

async fn status(world: &World, app: &str, token: &str) -> u16 {
    get(world, app, &format!("Bearer {token}")).await.status()
}

async fn world(folder: &TokenFolder, change: impl FnOnce(&mut Settings)) -> World {
    World::with(&folder.table(), change).await.ready().await
}

fn add_canary(world: &World, token: &str) {
    world
        .canaries
        .lock()
        .expect("no panic")
        .push(token.to_owned());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_reaches_the_apps_that_it_is_for_if_their_rules_admit_it() {
    let folder = TokenFolder::new();
    let all = ["usr", "grp", "oth", "mine"];
    let token = folder.create("nightly", &all, &["phusers"], 600).await;
    let world = world(&folder, |_| {}).await;
    add_canary(&world, &token);
    for (app, wanted) in [
        ("usr", 200),
        ("grp", 200),
        // It is in another group, and owns no app.
        ("oth", 403),
        ("mine", 403),
        // Its rule would admit the groups.
        ("strip", 401),
        ("pub", 200),
        ("none", 404),
    ] {
        for scheme in ["Bearer", "bearer"] {
            let answer = get(&world, app, &format!("{scheme} {token}")).await;
            assert_eq!(answer.status(), wanted, "{app}: {}", answer.text());
            assert!(answer.all("set-cookie").is_empty(), "{app}");
        }
    }
    let seen = world.backend("grp").last();
    assert_eq!(seen.header("authorization"), None);
    let user = seen.header("x-forwarded-user");
    assert_eq!(user.as_deref(), Some("service:nightly"));
    let groups = seen.header("x-forwarded-groups");
    assert_eq!(groups.as_deref(), Some("phusers"));
    assert_eq!(seen.header("x-forwarded-email"), None);
    assert_eq!(world.backend("pub").last().header("authorization"), None);
    assert_eq!(world.running.internals().session_count(), 0);
    let line = format!("Authorization: Bearer {token}\r\n");
    let mut program = world.browser();
    let answer = program.send("GET", "/oauth2/userinfo", From::Program, &line, b"");
    assert_eq!(answer.await.status(), 401, "it is for people");
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_token_is_refused_and_never_forwarded() {
    let folder = TokenFolder::new();
    let token = folder.create("nightly", &["usr"], &[], 600).await;
    let world = world(&folder, |_| {}).await;
    let flipped = |at: usize| {
        let with = if &token[at..=at] == "A" { "B" } else { "A" };
        format!("{}{with}{}", &token[..at], &token[at + 1..])
    };
    for wrong in [
        "ludgate_".to_owned(),
        "ludgate_x".to_owned(),
        "ludgate_eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0.".to_owned(),
        flipped(8),
        flipped(40),
        flipped(56),
        token[..56].to_owned(),
        format!("{token}A"),
        format!("{token} {token}"),
        format!("ludgate_{}", "A".repeat(20_000)),
    ] {
        let answer = get(&world, "usr", &format!("Bearer {wrong}")).await;
        assert_eq!(answer.status(), 401, "{wrong}");
        let challenge = answer.header("www-authenticate").expect("a challenge");
        assert!(challenge.contains("invalid_token"), "{challenge}");
    }
    assert_eq!(world.reached(), 0);
    for other in ["Basic", "Digest"] {
        let answer = get(&world, "usr", &format!("{other} {token}")).await;
        assert_eq!(answer.status(), 401, "{other}");
        assert!(answer.text().contains("anonymous"), "{}", answer.text());
    }
    // A session comes first, and the app does not see the token all the same.
    let mut alice = world.signed_in("alice").await;
    for text in [token.as_str(), "ludgate_x"] {
        let line = format!("Authorization: Bearer {text}\r\n");
        let answer = alice
            .send("GET", "/apps/usr/x", From::Fetch, &line, b"")
            .await;
        assert_eq!(answer.status(), 200);
        let seen = world.backend("usr").last();
        assert_eq!(seen.header("authorization"), None);
        assert_eq!(seen.header("x-forwarded-user").as_deref(), Some("alice"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_wrong_tokens_cost_no_call_and_keep_no_one_out() {
    let folder = TokenFolder::new();
    let token = folder.create("nightly", &["usr"], &[], 600).await;
    let strangers = TokenFolder::new();
    let wrong = strangers.create("other", &["usr"], &[], 600).await;
    let world = world(&folder, |_| {}).await;
    let keys = world.provider.calls("keys");
    for _ in 0..300 {
        assert_eq!(status(&world, "usr", &wrong).await, 401);
    }
    assert_eq!(status(&world, "usr", &token).await, 200);
    assert_eq!(world.provider.calls("keys"), keys);
    assert_eq!(world.provider.calls("refresh"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_counts_until_it_expires() {
    let folder = TokenFolder::new();
    let token = folder.create("nightly", &["usr"], &[], 600).await;
    let world = world(&folder, |_| {}).await;
    let mut raw = world.raw().await;
    raw.send(format!(
        "GET /apps/usr/sse HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        world.host
    ))
    .await;
    assert_eq!(raw.head().await.status(), 200);
    raw.reader.some().await.expect("the first event");
    world.manual_clock.advance(Duration::from_secs(560));
    assert_eq!(status(&world, "usr", &token).await, 200);
    world.manual_clock.advance(Duration::from_secs(41));
    assert_eq!(status(&world, "usr", &token).await, 401);
    assert!(raw.is_closed().await, "its stream ends with it");
}

#[tokio::test(flavor = "multi_thread")]
async fn made_and_revoked_tokens_take_effect_at_the_next_look_at_the_file() {
    let folder = TokenFolder::new();
    let world = world(&folder, |_| {}).await;
    let token = folder.create("nightly", &["usr"], &[], 600).await;
    let other = folder.create("hourly", &["usr"], &[], 600).await;
    assert_eq!(status(&world, "usr", &token).await, 401);
    let_it_look(&world);
    until_async("the tokens are loaded", async || {
        status(&world, "usr", &token).await == 200
    })
    .await;
    let mut raw = world.raw().await;
    raw.send(format!(
        "GET /apps/usr/sse HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        world.host
    ))
    .await;
    assert_eq!(raw.head().await.status(), 200);
    raw.reader.some().await.expect("the first event");
    folder.revoke("nightly").await;
    let_it_look(&world);
    assert!(raw.is_closed().await, "its stream ends");
    assert_eq!(status(&world, "usr", &token).await, 401);
    assert_eq!(status(&world, "usr", &other).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_may_keep_the_token_and_a_site_without_the_table_knows_none() {
    let folder = TokenFolder::new();
    let token = folder.create("nightly", &["usr"], &[], 600).await;
    let keeping = world(&folder, |settings| {
        settings.apps[1].keep_authorization = true
    })
    .await;
    let authorization = format!("Bearer {token}");
    assert_eq!(status(&keeping, "usr", &token).await, 200);
    let seen = keeping.backend("usr").last().header("authorization");
    assert_eq!(seen, Some(authorization.clone()));
    let without = World::new().await.ready().await;
    assert_eq!(status(&without, "usr", &token).await, 401);
    assert_eq!(get(&without, "pub", &authorization).await.status(), 200);
    let seen = without.backend("pub").last().header("authorization");
    assert_eq!(seen, Some(authorization), "it is the app's own business");
}
