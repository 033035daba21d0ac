//! Identities that an app can verify (docs/behaviour.md#headers): which requests carry one, what it
//! says, for how long, and how its keys rotate.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use ludgate::{
    labs::service::callers::{
        AssertionSettings, CallerSettings, ClaimNames, IdentifyCaller, LabCallers, LabScope,
        ScopeRule, ScopeRules, TrustedHeaderSettings,
    },
    model::{access::GroupName, clock::Clock},
    ops::{
        file_watch::POLL_INTERVAL,
        http_client::{CallCounter, HttpClient},
    },
};
use openidconnect::{IssuerUrl, JsonWebKeySetUrl};
use serde_json::json;

use crate::support::{
    assertions::{
        ASSERTION, JWKS, SigningGateway, header, key_ids, key_set, last_token, verified,
        write_new_key,
    },
    browser::{Browser, From},
    message::Message,
    origins::Origins,
    raw::Raw,
    until::until_async,
    world::World,
};

/// Every byte that a field name may hold and that is neither a letter nor a digit (RFC 9110 section
/// 5.6.2).
const SEPARATORS: &str = "!#$%&'*+-.^_`|~";
const FORGED: &str = "root-CANARY";

async fn by_bearer(world: &World, target: &str) -> Message {
    let token = world.provider.access_token("alice");
    let line = format!("Authorization: Bearer {token}\r\n");
    let mut program = world.browser();
    program.send("GET", target, From::Program, &line, b"").await
}

/// One request on a connection that stays open.
async fn on(raw: &mut Raw, browser: &Browser, target: &str) -> Message {
    let (host, cookies) = (&browser.host, browser.cookie_line(target));
    let fetch = From::Fetch.headers();
    raw.send(format!(
        "GET {target} HTTP/1.1\r\nHost: {host}\r\n{fetch}{cookies}\r\n"
    ))
    .await;
    raw.answer().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_gets_a_token_for_itself_that_the_published_keys_verify() {
    let site = SigningGateway::start().await;
    let world = &site.world;
    let mut alice = world.signed_in("alice").await;
    let keys = key_set(world).await;
    let now = world.running.internals().wall_seconds();
    for app in ["signed", "second"] {
        assert_eq!(alice.fetch(&format!("/apps/{app}/x")).await.status(), 200);
        let mut claims = verified(&last_token(world, app), &keys);
        let id = claims.as_object_mut().expect("claims").remove("jti");
        assert!(id.is_some_and(|id| id.as_str().is_some_and(|id| id.len() > 20)));
        let issuer = format!("http://{}", world.host);
        assert_eq!(
            claims,
            json!({
                "iss": issuer, "aud": app, "sub": "alice", "preferred_username": "alice",
                "email": "alice@example.com", "groups": ["friends", "phusers"],
                "iat": now, "exp": now + 300,
            })
        );
    }
    // A program with a bearer token has no session.
    assert_eq!(by_bearer(world, "/apps/signed/x").await.status(), 200);
    let claims = verified(&last_token(world, "signed"), &keys);
    assert_eq!(
        (&claims["sub"], &claims["aud"]),
        (&json!("alice"), &json!("signed"))
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_of_public_apps_and_apps_that_do_not_ask_for_one_get_none() {
    let site = SigningGateway::start().await;
    let world = &site.world;
    let mut alice = world.signed_in("alice").await;
    for app in ["open", "usr", "pub"] {
        let answer = alice.fetch(&format!("/apps/{app}/x")).await;
        assert_eq!(answer.status(), 200);
        let seen = world.backend(app).last();
        assert!(seen.all(ASSERTION).is_empty(), "{app}: {seen:?}");
    }
    // After the sign-out no app is reached, so none gets another token.
    assert_eq!(alice.fetch("/apps/signed/x").await.status(), 200);
    alice.sign_out().await;
    assert_eq!(alice.fetch("/apps/signed/x").await.status(), 401);
    assert_eq!(world.backend("signed").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_sent_again_until_half_of_its_lifetime_has_passed() {
    let site = SigningGateway::start().await;
    let world = &site.world;
    let alice = world.signed_in("alice").await;
    let keys = key_set(world).await;
    let (mut one, mut other) = (world.raw().await, world.raw().await);
    let mut tokens = Vec::new();
    for pause in [0, 149, 1, 149] {
        world.manual_clock.advance(Duration::from_secs(pause));
        for raw in [&mut one, &mut other] {
            let answer = on(raw, &alice, "/apps/signed/x").await;
            assert_eq!(answer.status(), 200);
            tokens.push(last_token(world, "signed"));
        }
    }
    let (first, second) = tokens.split_at(4);
    assert!(first.iter().all(|token| *token == first[0]), "{first:?}");
    assert!(second.iter().all(|token| *token == second[0]), "{second:?}");
    let [first, second] = [&first[0], &second[0]].map(|token| verified(token, &keys));
    assert_ne!(first["jti"], second["jti"]);
    let issued = |claims: &serde_json::Value| claims["iat"].as_i64().expect("a number");
    assert_eq!(issued(&second) - issued(&first), 150);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_and_apps_on_one_connection_get_tokens_of_their_own() {
    let site = SigningGateway::start().await;
    let world = &site.world;
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let keys = key_set(world).await;
    let mut raw = world.raw().await;
    let mut seen = BTreeSet::new();
    for round in 0..3 {
        for (person, browser) in [("alice", &alice), ("bob", &bob)] {
            for app in ["signed", "second"] {
                let target = format!("/apps/{app}/x");
                assert_eq!(on(&mut raw, browser, &target).await.status(), 200);
                let token = last_token(world, app);
                let claims = verified(&token, &keys);
                assert_eq!(
                    (&claims["sub"], &claims["aud"]),
                    (&json!(person), &json!(app)),
                    "round {round}"
                );
                seen.insert(token);
            }
        }
    }
    assert_eq!(seen.len(), 4, "each is signed once");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_the_header_from_a_client_reaches_an_app() {
    let site = SigningGateway::start().await;
    let world = &site.world;
    let mut alice = world.signed_in("alice").await;
    let names = SEPARATORS.chars().flat_map(|separator| {
        let name = "X-Ludgate-Assertion";
        let separator = separator.to_string();
        [
            name.replace('-', &separator),
            name.replacen('-', &separator, 1),
        ]
    });
    let fields: String = names
        .map(|name| format!("{name}: {FORGED}\r\n"))
        .chain(["Connection: keep-alive, X-Ludgate-Assertion\r\n".to_owned()])
        .collect();
    for (app, tokens) in [("signed", 1), ("open", 0), ("usr", 0), ("pub", 0)] {
        let target = format!("/apps/{app}/x");
        let answer = alice.send("GET", &target, From::Fetch, &fields, b"").await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let seen = world.backend(app).last();
        assert_eq!(seen.all(ASSERTION).len(), tokens, "{app}");
        let raw = String::from_utf8_lossy(&seen.raw).into_owned();
        assert!(!raw.contains(FORGED), "{app}: {raw}");
    }
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_that_opens_a_websocket_carries_a_token() {
    let site = SigningGateway::start().await;
    let world = &site.world;
    let alice = world.signed_in("alice").await;
    let target = "/apps/signed/ws";
    let (host, cookies) = (&world.host, alice.cookie_line(target));
    let mut raw = world.raw().await;
    raw.send(format!(
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{cookies}\r\n"
    ))
    .await;
    assert_eq!(raw.answer().await.expect("an answer").status(), 101);
    let claims = verified(&last_token(world, "signed"), &key_set(world).await);
    assert_eq!(claims["sub"], "alice");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_are_public_on_every_origin_and_only_their_public_parts() {
    let site = SigningGateway::start().await;
    let world = &site.world;
    let here = key_set(world).await;
    let mut origins = Origins::new(world);
    for url in [
        format!("http://{}{JWKS}", world.host),
        format!("{}{JWKS}", world.on_host("signed")),
        format!("{}{JWKS}", world.on_host("pub")),
    ] {
        let answer = origins.fetch(&url).await;
        assert_eq!(answer.status(), 200, "{url}");
        assert_eq!(answer.json(), here, "{url}");
        for (name, value) in [
            ("cache-control", "public, max-age=60"),
            ("content-type", "application/jwk-set+json"),
        ] {
            assert_eq!(answer.header(name).as_deref(), Some(value), "{url}");
        }
        assert!(answer.all("set-cookie").is_empty(), "{url}");
    }
    let key = here["keys"][0].as_object().expect("a key");
    let members: BTreeSet<&str> = key.keys().map(String::as_str).collect();
    let public = ["alg", "crv", "kid", "kty", "use", "x", "y"];
    assert_eq!(members, BTreeSet::from(public));
    let refused = world
        .browser()
        .send("POST", JWKS, From::Program, "", b"")
        .await;
    assert_eq!(refused.status(), 405);
    let without = World::new().await;
    assert_eq!(without.browser().fetch(JWKS).await.status(), 404);
}

/// Waits until a gateway publishes so many keys; the clock goes on from look to look.
async fn until_published(world: &World, count: usize) {
    until_async("the keys are published", async || {
        let is_reached = key_ids(&key_set(world).await).len() == count;
        if !is_reached {
            world.manual_clock.advance(POLL_INTERVAL);
        }
        is_reached
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_publish_a_new_key_before_either_signs_with_it() {
    let site = SigningGateway::start().await;
    let other = site.world.replica(|_| {}).await;
    let both = [&site.world, &other];
    let old = key_ids(&key_set(&other).await);
    write_new_key(&site.keys);
    for world in both {
        until_published(world, 2).await;
    }
    let published = key_ids(&key_set(&other).await);
    assert_eq!(published[1], old[0]);
    // The minutes that pass, the key that signs then, and how many are published.
    for (minutes, signing, count) in [(0, 1, 2), (3, 1, 2), (3, 0, 2), (6, 0, 2), (3, 0, 1)] {
        let pause = Duration::from_secs(minutes * 60);
        site.world.manual_clock.advance(pause);
        for world in both {
            until_published(world, count).await;
            assert_eq!(by_bearer(world, "/apps/signed/x").await.status(), 200);
            let token = last_token(world, "signed");
            assert_eq!(header(&token)["kid"], *published[signing], "{minutes} min");
            for verifier in both {
                let claims = verified(&token, &key_set(verifier).await);
                assert_eq!(claims["sub"], "alice");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_labs_knows_callers_by_their_tokens() {
    let site = SigningGateway::start().await;
    let world = &site.world;
    let settings = CallerSettings {
        claims: ClaimNames::default(),
        scopes: ScopeRules {
            notebook: vec![ScopeRule::User],
            admin: vec![ScopeRule::Group(GroupName::new("phusers").expect("a name"))],
            ..ScopeRules::default()
        },
        headers: TrustedHeaderSettings::default(),
        assertion: Some(AssertionSettings {
            jwks: JsonWebKeySetUrl::new(format!("http://{}{JWKS}", world.host)).expect("a URL"),
            issuer: IssuerUrl::new(format!("http://{}", world.host)).expect("a URL"),
            audience: "signed".to_owned(),
        }),
        user_info: None,
    };
    let http = HttpClient::new(None, CallCounter::default()).expect("a client");
    let callers = LabCallers::new(settings, None, Arc::new(http), Clock::system());
    let mut alice = world.signed_in("alice").await;
    for (app, expected) in [("signed", Some("alice")), ("second", None)] {
        assert_eq!(alice.fetch(&format!("/apps/{app}/x")).await.status(), 200);
        let token = HeaderValue::from_str(&last_token(world, app)).expect("a value");
        let headers = HeaderMap::from_iter([(HeaderName::from_static(ASSERTION), token)]);
        let peer = std::net::Ipv4Addr::LOCALHOST.into();
        let caller = IdentifyCaller::identify(&callers, &headers, peer)
            .await
            .ok();
        let named = caller.as_ref().map(|caller| &*caller.username);
        assert_eq!(named, expected, "{app}");
        if let Some(caller) = caller {
            let scopes = BTreeSet::from([LabScope::Notebook, LabScope::Admin]);
            assert_eq!(caller.scopes, scopes);
        }
    }
}
