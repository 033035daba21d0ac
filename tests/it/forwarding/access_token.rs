//! Access tokens of the provider for apps (docs/behaviour.md#headers): who has one, when it is
//! renewed, and what a provider that is away changes.

use std::{path::Path, time::Duration};

use ludgate::settings;
use redis::cmd;

use crate::support::{
    backend::Backend,
    browser::{Browser, From},
    raw::Raw,
    redis::RedisServer,
    replicas::Replicas,
    until::until_async,
    world::World,
};

const TOKEN: &str = "x-forwarded-access-token";
const PAGE: &str = "/apps/acting/x";
const FORGED: &str = "root-CANARY";
/// The provider's tokens live for ten minutes, and are renewed one minute before that.
const RENEWED: Duration = Duration::from_secs(540);
/// Longer than the lifetime of a token, shorter than that of an idle session.
const EXPIRED: Duration = Duration::from_secs(20 * 60);
/// So that people are not checked meanwhile.
const RARE_CHECKS: &str = "[session]\nrecheck = \"2h\"\n";

/// Two apps at one address: `acting`, and the public `open`.
fn tables(backend: &Backend, passes: bool) -> String {
    let address = backend.address();
    [("acting", "user"), ("open", "public")]
        .map(|(id, access)| {
            format!(
                "[[apps]]\nid = \"{id}\"\naccess = \"{access}\"\nupstream = \"http://{address}\"\n\
                 pass_access_token = {passes}\n"
            )
        })
        .concat()
}

async fn world(passes: bool) -> World {
    let backend = Backend::start("acting").await;
    let text = tables(&backend, passes) + RARE_CHECKS;
    let world = World::with(&text, |_| {}).await.ready().await;
    world.and_backend("acting", backend)
}

/// The token of the last request, if it had one.
fn last_token(backend: &Backend) -> Option<String> {
    let mut tokens = backend.last().all(TOKEN);
    assert!(tokens.len() <= 1, "{tokens:?}");
    tokens.pop()
}

/// The person of the token of the last request, if it is valid now.
fn last_person(world: &World) -> Option<String> {
    let token = last_token(world.backend("acting"))?;
    world.provider.whose(&token)
}

/// One request on a connection that stays open; the token that the app gets with it.
async fn token_on(raw: &mut Raw, world: &World, browser: &Browser) -> Option<String> {
    let (host, cookies) = (&browser.host, browser.cookie_line(PAGE));
    let fetch = From::Fetch.headers();
    raw.send(format!(
        "GET {PAGE} HTTP/1.1\r\nHost: {host}\r\n{fetch}{cookies}\r\n"
    ))
    .await;
    assert_eq!(raw.answer().await.expect("an answer").status(), 200);
    last_token(world.backend("acting"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_gets_the_token_of_a_person_with_a_session_and_no_other() {
    let world = world(true).await;
    let (mut alice, mut bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let lies = format!(
        "X-Forwarded-Access-Token: {FORGED}\r\nX_Forwarded_Access_Token: {FORGED}\r\n\
         X-Forwarded-Access.Token: {FORGED}\r\nx~forwarded~access~token: {FORGED}\r\n"
    );
    let backend = world.backend("acting");
    for (browser, person) in [(&mut alice, "alice"), (&mut bob, "bob")] {
        let answer = browser.send("GET", PAGE, From::Fetch, &lies, b"").await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert_eq!(last_person(&world).as_deref(), Some(person));
        let token = last_token(backend).expect("a token");
        let raw = String::from_utf8_lossy(&backend.last().raw).into_owned();
        assert!(!raw.contains(FORGED), "{raw}");
        // Cookies hold a random id, as before.
        assert!(browser.jar.values().all(|value| value.len() < 100));
        let metrics = world.admin("/metrics", "").await.text();
        assert!(!world.log.text().contains(&token) && !metrics.contains(&token));
    }
    for app in ["open", "usr"] {
        let target = format!("/apps/{app}/x");
        let answer = alice.send("GET", &target, From::Fetch, &lies, b"").await;
        assert_eq!(answer.status(), 200, "{app}");
        let name = if app == "usr" { "usr" } else { "acting" };
        let raw = String::from_utf8_lossy(&world.backend(name).last().raw).to_lowercase();
        assert!(!raw.contains("access-token") && !raw.contains("access_token"));
    }
    // The token of a program was issued to another client.
    let own = world.provider.access_token("alice");
    assert_eq!(world.get_with_token("acting", &own).await.status(), 200);
    let raw = String::from_utf8_lossy(&backend.last().raw).into_owned();
    assert!(last_token(backend).is_none() && !raw.contains(&own));
    let _socket = world.websocket(&alice, "acting").await;
    assert_eq!(last_person(&world).as_deref(), Some("alice"));
    alice.sign_out().await;
    let reached = backend.count();
    assert_eq!(alice.fetch(PAGE).await.status(), 401);
    assert_eq!(backend.count(), reached);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_before_it_expires_and_at_once_when_it_has_expired() {
    let world = world(true).await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch(PAGE).await.status(), 200);
    let mut raw = world.raw().await;
    let first = token_on(&mut raw, &world, &alice).await;
    assert!(first.is_some());
    world.manual_clock.advance(RENEWED - Duration::from_secs(1));
    assert_eq!(token_on(&mut raw, &world, &alice).await, first);
    assert_eq!(world.provider.calls("refresh"), 0);
    world.manual_clock.advance(Duration::from_secs(1));
    // The renewal runs in the background. It may end before this request is sent to the app.
    assert!(token_on(&mut raw, &world, &alice).await.is_some());
    until_async("the token is renewed", async || {
        token_on(&mut raw, &world, &alice).await != first
    })
    .await;
    assert_eq!(last_person(&world).as_deref(), Some("alice"));
    assert_eq!(world.provider.calls("refresh"), 1);
    world.manual_clock.advance(EXPIRED);
    assert!(token_on(&mut raw, &world, &alice).await.is_some());
    assert_eq!(last_person(&world).as_deref(), Some("alice"));
    assert_eq!(world.provider.calls("refresh"), 2);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_once_wait_for_one_call_and_all_get_its_token() {
    let world = world(true).await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch(PAGE).await.status(), 200);
    world.manual_clock.advance(EXPIRED);
    let before = world.backend("acting").count();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mut browser = alice.clone();
        all.spawn(async move { browser.fetch(PAGE).await.status() });
    }
    assert!(all.join_all().await.iter().all(|status| *status == 200));
    assert_eq!(world.provider.calls("refresh"), 1);
    let seen = world.backend("acting").seen();
    assert_eq!(seen.len(), before + 50);
    let last = last_token(world.backend("acting"));
    for request in &seen[before..] {
        assert_eq!(request.header(TOKEN), last);
    }
    assert_eq!(last_person(&world).as_deref(), Some("alice"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_the_provider_has_ended_ends_the_session() {
    let world = world(true).await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch(PAGE).await.status(), 200);
    world.provider.end_grants();
    world.manual_clock.advance(EXPIRED);
    let reached = world.backend("acting").count();
    assert_eq!(alice.fetch(PAGE).await.status(), 401);
    assert_eq!(world.backend("acting").count(), reached);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_new_token_the_header_is_left_out_and_the_provider_is_spared() {
    let world = world(true).await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch(PAGE).await.status(), 200);
    let mischief = |_: &mut serde_json::Value, claims: &mut serde_json::Value| {
        claims["iss"] = "http://another.test".into();
    };
    world.provider.set_mischief(Some(Box::new(mischief)));
    world.manual_clock.advance(EXPIRED);
    for _ in 0..5 {
        assert_eq!(alice.fetch(PAGE).await.status(), 200);
        assert_eq!(last_token(world.backend("acting")), None);
    }
    assert_eq!(world.provider.calls("refresh"), 1);
    world.provider.set_mischief(None);
    world.manual_clock.advance(Duration::from_secs(31));
    assert_eq!(alice.fetch(PAGE).await.status(), 200);
    assert_eq!(last_person(&world).as_deref(), Some("alice"));
    assert_eq!(world.provider.calls("refresh"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_turns_the_token_on_for_people_who_are_signed_in() {
    let world = world(false).await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch(PAGE).await.status(), 200);
    assert_eq!(last_token(world.backend("acting")), None);
    let text = format!(
        "[identity]\nissuer = \"http://127.0.0.1:9\"\nclient_id = \"x\"\n{}",
        tables(world.backend("acting"), true)
    );
    let read = settings::parse(&text, Path::new("."), std::iter::empty());
    let apps = read.unwrap_or_else(|errors| panic!("{errors}")).apps;
    world.running.replace_apps(apps);
    assert_eq!(alice.fetch(PAGE).await.status(), 200);
    assert_eq!(last_person(&world).as_deref(), Some("alice"));
    assert_eq!(world.provider.calls("refresh"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_the_token_which_is_sealed_in_redis() {
    let redis = RedisServer::start().await;
    let backend = Backend::start("acting").await;
    let section = format!(
        "{}recheck = \"2h\"\n{}",
        redis.section(),
        tables(&backend, true)
    );
    let pair = Replicas::sharing(redis, &section).await;
    let mut alice = pair.one.signed_in("alice").await;
    let mut tokens = Vec::new();
    for pause in [Duration::ZERO, EXPIRED] {
        pair.advance(pause).await;
        for world in pair.both() {
            alice.turn_to(world.running.address);
            assert_eq!(alice.fetch(PAGE).await.status(), 200);
            let token = last_token(&backend).expect("a token");
            let person = pair.one.provider.whose(&token);
            assert_eq!(person.as_deref(), Some("alice"));
            tokens.push(token);
        }
    }
    assert_eq!(tokens[0], tokens[1], "the other replica has the same");
    assert_eq!(tokens[2], tokens[3], "and the renewed one");
    assert_ne!(tokens[0], tokens[2]);
    assert_eq!(pair.one.provider.calls("refresh"), 1);
    let keys = pair.redis().keys("ludgate:s:").await;
    assert!(!keys.is_empty());
    for key in keys {
        let record: String = pair.redis().run(cmd("HGET").arg(&key).arg("r")).await;
        let is_shown = tokens.iter().any(|token| record.contains(token.as_str()));
        assert!(!is_shown && !record.contains("access_token"), "{record}");
    }
}
