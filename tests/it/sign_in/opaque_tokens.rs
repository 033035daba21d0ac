//! Opaque tokens, about which the provider is asked.

use std::time::Duration;

use ludgate::{
    model::{
        access::Access,
        app::{AppId, AppSpec, BearerKind},
    },
    settings::Settings,
};
use serde_json::{Value, json};

use crate::support::{browser::From, raw::Raw, until::until, world::World};

const TOKEN: &str = "2YotnFZFEjr1zCsicMWpAA-CANARY";

/// An app of each kind of rule that takes opaque tokens, at the address of `usr`.
fn add_apps(settings: &mut Settings) {
    let usr = settings.apps[1].clone();
    let rules = [
        ("any", "user"),
        ("team", "group:phusers"),
        ("open", "public"),
    ];
    let added = rules.map(|(id, access)| AppSpec {
        id: AppId::new(id).expect("an id"),
        access: Access::parse(access),
        bearer: BearerKind::Opaque,
        ..usr.clone()
    });
    settings.apps.extend(added);
}

async fn world() -> World {
    let world = World::with("", add_apps).await.ready().await;
    world.provider.set_opaque_token(TOKEN, answer(&world, 600));
    world
}

fn answer(world: &World, life: i64) -> Value {
    let now = world.running.internals().wall_seconds();
    json!({
        "active": true, "sub": "alice", "aud": "ludgate", "exp": now + life,
        "groups": ["phusers"],
    })
}

async fn status(world: &World, app: &str, token: &str) -> u16 {
    world.get_with_token(app, token).await.status()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_token_authorises_at_apps_that_take_it_and_is_removed() {
    let world = world().await;
    world
        .canaries
        .lock()
        .expect("no panic")
        .push(TOKEN.to_owned());
    for (app, wanted) in [("any", 200), ("team", 200), ("open", 200)] {
        let answer = world.get_with_token(app, TOKEN).await;
        assert_eq!(answer.status(), wanted, "{app}: {}", answer.text());
        assert!(answer.all("set-cookie").is_empty());
        let seen = world.backend("usr").last();
        assert_eq!(seen.header("authorization"), None, "{app}");
    }
    assert_eq!(world.provider.calls("introspection"), 1);
    let mut groupless = answer(&world, 600);
    groupless["groups"] = json!([]);
    world.provider.set_opaque_token("of-no-group", groupless);
    assert_eq!(status(&world, "team", "of-no-group").await, 403);
    assert_eq!(world.running.internals().session_count(), 0);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_does_not_take_it_keeps_its_own_token() {
    let world = world().await;
    assert_eq!(status(&world, "usr", TOKEN).await, 401);
    assert_eq!(status(&world, "pub", TOKEN).await, 200);
    let seen = world.backend("pub").last().header("authorization");
    assert_eq!(seen, Some(format!("Bearer {TOKEN}")));
    assert_eq!(world.provider.calls("introspection"), 0);
    // A person who is signed in needs no second credential, and the app does not get it.
    let mut alice = world.signed_in("alice").await;
    let line = format!("Authorization: Bearer {TOKEN}\r\n");
    let answer = alice
        .send("GET", "/apps/any/x", From::Fetch, &line, b"")
        .await;
    assert_eq!(answer.status(), 200);
    assert_eq!(world.backend("usr").last().header("authorization"), None);
    assert_eq!(world.provider.calls("introspection"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_provider_does_not_confirm_is_refused() {
    let world = world().await;
    for (name, changes) in [
        ("inactive", json!({ "active": false })),
        ("other-audience", json!({ "aud": "other" })),
        ("other-issuer", json!({ "iss": "https://other.test" })),
        ("bound", json!({ "cnf": { "jkt": "x" } })),
    ] {
        let mut answer = answer(&world, 600);
        for (key, value) in changes.as_object().expect("changes") {
            answer[key.as_str()] = value.clone();
        }
        world.provider.set_opaque_token(name, answer);
        let refused = world.get_with_token("any", name).await;
        assert_eq!(refused.status(), 401, "{name}");
        let challenge = refused.header("www-authenticate").expect("a challenge");
        assert!(challenge.contains("invalid_token"), "{name}: {challenge}");
    }
    let calls = world.provider.calls("introspection");
    // Neither is asked about: too long, and JWTs.
    let long = "x".repeat(9_000);
    assert_eq!(status(&world, "any", &long).await, 401);
    let header = json!({"alg": "ES256", "kid": world.provider.key_id()});
    let foreign = json!({"iss": "https://other.test", "sub": "alice", "aud": "ludgate"});
    let foreign = world.provider.sign(&header, &foreign);
    assert_eq!(status(&world, "any", &foreign).await, 401);
    let good = world.provider.access_token("alice");
    let (head, _) = good.rsplit_once('.').expect("a JWS");
    let forged = format!("{head}.{}", "A".repeat(86));
    // The provider would call it active; its signature says otherwise.
    world
        .provider
        .set_opaque_token(&forged, answer(&world, 600));
    world
        .provider
        .set_opaque_token(&foreign, answer(&world, 600));
    assert_eq!(status(&world, "any", &forged).await, 401);
    assert_eq!(status(&world, "any", &foreign).await, 401);
    assert_eq!(status(&world, "any", &good).await, 200, "JWTs count too");
    assert_eq!(world.provider.calls("introspection"), calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_remembered_for_a_while_and_never_beyond_its_expiry() {
    let world = world().await;
    let calls = || world.provider.calls("introspection");
    for _ in 0..5 {
        assert_eq!(status(&world, "any", TOKEN).await, 200);
    }
    assert_eq!(calls(), 1);
    let revoked = json!({ "active": false });
    world.provider.set_opaque_token(TOKEN, revoked);
    world.manual_clock.advance(Duration::from_secs(29));
    assert_eq!((status(&world, "any", TOKEN).await, calls()), (200, 1));
    world.manual_clock.advance(Duration::from_secs(1));
    assert_eq!((status(&world, "any", TOKEN).await, calls()), (401, 2));
    assert_eq!((status(&world, "any", TOKEN).await, calls()), (401, 2));
    // A refusal is remembered for a shorter time.
    world.provider.set_opaque_token(TOKEN, answer(&world, 10));
    world.manual_clock.advance(Duration::from_secs(5));
    assert_eq!((status(&world, "any", TOKEN).await, calls()), (200, 3));
    world.manual_clock.advance(Duration::from_secs(6));
    assert_eq!((status(&world, "any", TOKEN).await, calls()), (401, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_with_one_token_make_one_call() {
    let world = world().await;
    let requests = (0..50).map(|_| status(&world, "any", TOKEN));
    let statuses = futures_util::future::join_all(requests).await;
    assert_eq!(statuses, [200; 50]);
    assert_eq!(world.provider.calls("introspection"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_wrong_tokens_of_one_client_are_limited() {
    let world = world().await;
    let mut statuses = Vec::new();
    for n in 0..100 {
        statuses.push(status(&world, "any", &format!("guess-{n}")).await);
    }
    assert_eq!(statuses[..32], [401; 32]);
    assert_eq!(statuses[32..], [503; 68]);
    assert_eq!(world.provider.calls("introspection"), 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_the_provider_says_nothing_about_are_limited_too() {
    let world = world().await;
    for n in 0..100 {
        let token = format!("guess-{n}");
        // No JSON object, and so no answer.
        world.provider.set_opaque_token(&token, Value::Null);
        assert_eq!(status(&world, "any", &token).await, 503);
    }
    assert_eq!(world.provider.calls("introspection"), 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_away_is_no_refusal() {
    let identity = "introspection = { url = \"http://127.0.0.1:1/introspect\" }\n";
    let app = "[[apps]]\nid = \"any\"\naccess = \"user\"\nbearer = \"opaque\"\n\
               upstream = \"http://127.0.0.1:9\"\n";
    let world = World::with_identity(identity, app).await.ready().await;
    let answer = world.get_with_token("any", TOKEN).await;
    assert_eq!(answer.status(), 503);
    assert!(answer.header("retry-after").is_some());
    let kind = answer.header("content-type").expect("a type");
    assert_eq!(kind, "application/problem+json");
    assert!(answer.text().contains("unverifiable"), "{}", answer.text());
}

/// A stream of events with the token, once the gateway lists it.
async fn open_stream(world: &World) -> Raw {
    let mut raw = world.raw().await;
    raw.send(format!(
        "GET /apps/any/sse HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n",
        world.host
    ))
    .await;
    assert_eq!(raw.head().await.status(), 200);
    raw.reader.some().await.expect("the first event");
    let inside = world.running.internals();
    until("the stream is listed", || inside.open_streams() == 1).await;
    raw
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_the_provider_no_longer_knows_its_token() {
    let world = world().await;
    let mut raw = open_stream(&world).await;
    let inside = world.running.internals();
    let revoked = json!({ "active": false });
    world.provider.set_opaque_token(TOKEN, revoked);
    world.manual_clock.advance(Duration::from_secs(31));
    until("the provider is asked again", || {
        world.provider.calls("introspection") == 2
    })
    .await;
    // Its answer counts from the next check on.
    until("the stream is closed", || {
        inside.recheck_streams();
        inside.open_streams() == 0
    })
    .await;
    assert!(raw.is_closed().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_token_is_not_confirmed_for_ten_minutes() {
    let world = world().await;
    world.provider.set_opaque_token(TOKEN, answer(&world, 3600));
    let mut raw = open_stream(&world).await;
    let inside = world.running.internals();
    // No JSON object, and so no answer.
    world.provider.set_opaque_token(TOKEN, Value::Null);
    world.manual_clock.advance(Duration::from_secs(599));
    until("the provider is asked again", || {
        inside.recheck_streams();
        world.provider.calls("introspection") >= 2
    })
    .await;
    assert_eq!(inside.open_streams(), 1, "an outage may be short");
    world.manual_clock.advance(Duration::from_secs(1));
    until("the stream is closed", || {
        inside.recheck_streams();
        inside.open_streams() == 0
    })
    .await;
    assert!(raw.is_closed().await);
}
