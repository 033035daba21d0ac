//! Bearer tokens (docs/behaviour.md#credentials). Ours authorise or are refused; others belong to
//! the app.

use serde_json::{Value, json};

use crate::support::{browser::From, message::Message, world::World};

async fn with(world: &World, target: &str, authorization: &str) -> Message {
    let line = format!("Authorization: {authorization}\r\n");
    world
        .browser()
        .send("GET", target, From::Program, &line, b"")
        .await
}

fn claims(world: &World) -> Value {
    let now = world.running.internals().wall_seconds();
    json!({"iss": world.provider.issuer(), "sub": "alice", "aud": "ludgate", "iat": now, "exp": now + 600, "groups": ["phusers"]})
}

fn header(world: &World) -> Value {
    json!({"alg": "ES256", "typ": "at+jwt", "kid": world.provider.key_id()})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_our_issuer_authorises_is_removed_and_makes_no_session() {
    let world = World::new().await.ready().await;
    let token = world.provider.access_token("alice");
    world.canaries.lock().expect("no panic").push(token.clone());
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let answer = with(&world, "/apps/grp/x", &format!("{scheme} {token}")).await;
        assert_eq!(answer.status(), 200, "{scheme}");
        assert!(answer.all("set-cookie").is_empty());
        let seen = world.backend("grp").last();
        assert_eq!(seen.header("authorization"), None);
        assert_eq!(seen.header("x-forwarded-user").as_deref(), Some("alice"));
    }
    assert_eq!(
        with(&world, "/apps/oth/x", &format!("Bearer {token}"))
            .await
            .status(),
        403
    );
    assert_eq!(world.running.internals().session_count(), 0);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_our_issuer_that_does_not_hold_is_401_and_never_forwarded() {
    let world = World::new().await.ready().await;
    type Change = fn(&mut Value, &mut Value);
    let cases: [(&str, Change); 27] = [
        ("other audience", |_, c| c["aud"] = "another-client".into()),
        ("no audience", |_, c| {
            c.as_object_mut().expect("claims").remove("aud");
        }),
        ("azp", |_, c| c["azp"] = "other".into()),
        ("expired", |_, c| {
            c["exp"] = (c["iat"].as_i64().expect("iat") - 61).into()
        }),
        ("no exp", |_, c| {
            c.as_object_mut().expect("claims").remove("exp");
        }),
        ("exp as text", |_, c| c["exp"] = "9999999999".into()),
        ("exp as float", |_, c| c["exp"] = 9_999_999_999.5.into()),
        ("nbf", |_, c| {
            c["nbf"] = (c["iat"].as_i64().expect("iat") + 61).into()
        }),
        ("nbf as text", |_, c| c["nbf"] = "0".into()),
        ("iat", |_, c| {
            c["iat"] = (c["iat"].as_i64().expect("iat") + 61).into()
        }),
        ("empty sub", |_, c| c["sub"] = "".into()),
        ("nonce: an ID token", |_, c| c["nonce"] = "x".into()),
        ("at_hash: an ID token", |_, c| c["at_hash"] = "x".into()),
        ("payload typ ID", |_, c| c["typ"] = "ID".into()),
        ("a refresh token", |_, c| c["typ"] = "Refresh".into()),
        ("an offline token", |_, c| c["typ"] = "Offline".into()),
        ("a DPoP token", |_, c| c["typ"] = "DPoP".into()),
        ("a typ that is no text", |_, c| c["typ"] = 7.into()),
        ("bound to a key", |_, c| c["cnf"] = json!({"jkt": "x"})),
        ("bound to a certificate", |_, c| {
            c["cnf"] = json!({"x5t#S256": "x"})
        }),
        ("a logout token as a plain JWT", |h, c| {
            h["typ"] = "JWT".into();
            c["events"] = json!({"http://schemas.openid.net/event/backchannel-logout": {}});
        }),
        ("logout token", |h, _| h["typ"] = "logout+jwt".into()),
        ("alg none", |h, _| h["alg"] = "none".into()),
        ("alg nOnE", |h, _| h["alg"] = "nOnE".into()),
        ("alg HS256", |h, _| h["alg"] = "HS256".into()),
        ("strange kid", |h, _| h["kid"] = "../../x".into()),
        ("crit", |h, _| h["crit"] = json!(["x"])),
    ];
    for (name, change) in cases {
        let (mut header, mut claims) = (header(&world), claims(&world));
        change(&mut header, &mut claims);
        let token = world.provider.sign(&header, &claims);
        let answer = with(&world, "/apps/usr/x", &format!("Bearer {token}")).await;
        assert_eq!(answer.status(), 401, "{name}: {}", answer.text());
        assert!(
            answer
                .header("www-authenticate")
                .expect("a challenge")
                .contains("invalid_token"),
            "{name}"
        );
    }
    let good = world.provider.sign(&header(&world), &claims(&world));
    let mut parts: Vec<String> = good.split('.').map(str::to_owned).collect();
    parts[2] = String::new();
    assert_eq!(
        with(
            &world,
            "/apps/usr/x",
            &format!("Bearer {}", parts.join("."))
        )
        .await
        .status(),
        401,
        "no signature"
    );
    assert_eq!(
        with(&world, "/apps/usr/x", &format!("Bearer {good}.x"))
            .await
            .status(),
        401,
        "one dot too many"
    );
    assert_eq!(world.reached(), 0);
    assert_eq!(
        with(&world, "/apps/usr/x", &format!("Bearer {good}"))
            .await
            .status(),
        200
    );
    let embedded = json!({"alg": "ES256", "kid": world.provider.key_id(), "jku": "http://127.0.0.1:1/", "jwk": {"kty": "EC"}, "x5u": "http://127.0.0.1:1/"});
    let token = world.provider.sign(&embedded, &claims(&world));
    assert_eq!(
        with(&world, "/apps/usr/x", &format!("Bearer {token}"))
            .await
            .status(),
        200,
        "keys in the token are not looked at"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_is_no_credential_and_passes_untouched() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let mut foreign = claims(&world);
    foreign["iss"] = "https://elsewhere.example".into();
    let foreign = format!("Bearer {}", world.provider.sign(&header(&world), &foreign));
    for authorization in [
        foreign.as_str(),
        "Bearer opaque-token-of-the-app",
        "Basic eDp5",
        "Digest x",
        "Bearer a.b.c",
    ] {
        assert_eq!(
            with(&world, "/apps/usr/x", authorization).await.status(),
            401,
            "{authorization}"
        );
        let line = format!("Authorization: {authorization}\r\n");
        assert_eq!(
            alice
                .send("GET", "/apps/usr/x", From::Fetch, &line, b"")
                .await
                .status(),
            200
        );
        assert_eq!(
            world
                .backend("usr")
                .last()
                .header("authorization")
                .as_deref(),
            Some(authorization)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_may_keep_the_token() {
    let world = World::with("", |settings| settings.apps[1].keep_authorization = true)
        .await
        .ready()
        .await;
    let token = format!("Bearer {}", world.provider.access_token("alice"));
    assert_eq!(with(&world, "/apps/usr/x", &token).await.status(), 200);
    assert_eq!(
        world.backend("usr").last().header("authorization"),
        Some(token)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_tokens_with_unknown_keys_cost_one_look_at_the_provider() {
    let world = World::new().await.ready().await;
    let before = world.provider.calls("keys");
    for n in 0..200 {
        let mut header = header(&world);
        header["kid"] = format!("unknown-{n}").into();
        let token = world.provider.sign(&header, &claims(&world));
        assert_eq!(
            with(&world, "/apps/usr/x", &format!("Bearer {token}"))
                .await
                .status(),
            401
        );
    }
    assert_eq!(world.provider.calls("keys") - before, 1);
    let good = format!("Bearer {}", world.provider.access_token("alice"));
    assert_eq!(with(&world, "/apps/usr/x", &good).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_key_is_found_without_a_restart() {
    let world = World::new().await.ready().await;
    world.provider.rotate_keys(true).expect("a key");
    let token = format!("Bearer {}", world.provider.access_token("alice"));
    assert_eq!(with(&world, "/apps/usr/x", &token).await.status(), 200);
    world
        .manual_clock
        .advance(std::time::Duration::from_secs(31));
    world.provider.rotate_keys(true).expect("a key");
    assert_eq!(
        world
            .browser()
            .sign_in("/apps/usr/", "alice")
            .await
            .status(),
        200,
        "for sign-ins too"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verified_token_is_verified_again_at_expiry_at_a_key_change_and_now_and_then() {
    let world = World::new().await.ready().await;
    let token = format!("Bearer {}", world.provider.access_token("alice"));
    for _ in 0..3 {
        assert_eq!(with(&world, "/apps/grp/x", &token).await.status(), 200);
    }
    // One byte more is another token.
    assert_eq!(
        with(&world, "/apps/grp/x", &format!("{token}A"))
            .await
            .status(),
        401
    );
    assert_eq!(
        with(&world, "/apps/oth/x", &token).await.status(),
        403,
        "the rule is asked every time"
    );
    // Its key is withdrawn: known once the keys are read again, which an unknown key brings about.
    world.provider.rotate_keys(true).expect("keys");
    let newer = format!("Bearer {}", world.provider.access_token("bob"));
    world
        .manual_clock
        .advance(std::time::Duration::from_secs(1));
    assert_eq!(with(&world, "/apps/usr/x", &newer).await.status(), 200);
    assert_eq!(
        with(&world, "/apps/grp/x", &token).await.status(),
        401,
        "at once, not when it is forgotten"
    );
    // And time: ten minutes, and the minute that clocks may differ.
    world
        .manual_clock
        .advance(std::time::Duration::from_secs(658));
    assert_eq!(with(&world, "/apps/usr/x", &newer).await.status(), 200);
    world
        .manual_clock
        .advance(std::time::Duration::from_secs(1));
    assert_eq!(with(&world, "/apps/usr/x", &newer).await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_says_it_is_a_bearer_token_is_one() {
    let world = World::new().await.ready().await;
    for typ in ["Bearer", "bearer", "at+jwt"] {
        let mut claims = claims(&world);
        claims["typ"] = typ.into();
        let token = world.provider.sign(&header(&world), &claims);
        assert_eq!(
            with(&world, "/apps/grp/x", &format!("Bearer {token}"))
                .await
                .status(),
            200,
            "{typ}"
        );
    }
}
