//! The way back from the provider: state, browser binding, id token (docs/behaviour.md#sign-in).

use super::pages::to_provider;
use crate::support::{browser::at_built_in_provider, world::World};
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn fifty_tabs_sign_in_at_once_and_each_lands_on_its_own_page() {
    let world = World::new().await.ready().await;
    let mut browser = world.browser();
    let mut pending = Vec::new();
    for tab in 0..50 {
        let target = format!("/apps/grp/tab?n={tab}");
        pending.push((to_provider(&mut browser, &target).await, target));
        assert!(
            browser.cookies("/").len() <= 1024,
            "one bind cookie, whatever the number of tabs"
        );
    }
    assert_eq!(browser.jar.len(), 1, "{:?}", browser.jar);
    assert_eq!(
        world.running.internals().session_count(),
        0,
        "visitors cost no memory"
    );
    // In another order than they began.
    pending.reverse();
    for (authorize, target) in pending {
        let back = at_built_in_provider(&authorize, "alice").await;
        let landed = browser.open(&back).await;
        assert_eq!(landed.header("location"), Some(target.clone()));
        assert_eq!(browser.open(&target).await.status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_good_for_one_browser_one_use_and_ten_minutes() {
    let world = World::new().await.ready().await;
    let mut alice = world.browser();
    let back = at_built_in_provider(&to_provider(&mut alice, "/apps/grp/").await, "alice").await;
    let mut mallory = world.browser();
    let _ = to_provider(&mut mallory, "/apps/grp/").await;
    let stolen = mallory.open(&back).await;
    assert_eq!(stolen.status(), 400, "another browser's bind cookie");
    assert!(mallory.value("ludgate").is_none());
    assert_eq!(alice.open(&back).await.status(), 303);
    let token_calls = world.provider.calls("token");
    let again = alice.open(&back).await;
    assert_eq!(
        (again.status(), again.header("location").as_deref()),
        (303, Some("/apps/grp/")),
        "late, but signed in"
    );
    let mut without = alice.clone();
    without.jar.retain(|(name, _), _| name == "ludgate-bind");
    assert_eq!(
        without.open(&back).await.status(),
        400,
        "used, and not signed in"
    );
    assert_eq!(
        world.provider.calls("token"),
        token_calls,
        "a used state is not even exchanged"
    );
    let mut slow = world.browser();
    let back = at_built_in_provider(&to_provider(&mut slow, "/apps/grp/").await, "alice").await;
    world.manual_clock.advance(Duration::from_secs(601));
    let late = slow.open(&back).await;
    assert_eq!(late.status(), 400);
    assert!(
        late.text().contains("/oauth2/start?rd=%2Fapps%2Fgrp%2F"),
        "a way on: {}",
        late.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_that_was_tampered_with_is_refused() {
    let world = World::new().await.ready().await;
    let mut alice = world.browser();
    let back = at_built_in_provider(&to_provider(&mut alice, "/apps/grp/").await, "alice").await;
    let (path, query) = back.split_once('?').expect("a query");
    type Pairs = Vec<(String, String)>;
    let pairs: Pairs = url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let with = |change: &dyn Fn(&mut Pairs)| {
        let mut pairs = pairs.clone();
        change(&mut pairs);
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(pairs)
            .finish();
        format!("{path}?{query}")
    };
    let set = |name: &'static str, value: String| {
        with(&move |pairs| {
            pairs
                .iter_mut()
                .filter(|(key, _)| key == name)
                .for_each(|(_, v)| v.clone_from(&value))
        })
    };
    let drop = |name: &'static str| with(&move |pairs| pairs.retain(|(key, _)| key != name));
    let double = |name: &'static str| {
        with(&move |pairs| {
            let pair = pairs
                .iter()
                .find(|(key, _)| key == name)
                .cloned()
                .expect(name);
            pairs.push(pair);
        })
    };
    let state = pairs
        .iter()
        .find(|(key, _)| key == "state")
        .map(|(_, v)| v.clone())
        .expect("a state");
    let mut flipped = state.clone().into_bytes();
    flipped[40] = if flipped[40] == b'A' { b'B' } else { b'A' };
    let evil = [
        set("state", String::from_utf8(flipped).expect("ASCII")),
        set("state", String::new()),
        set("iss", "http://evil.test".into()),
        drop("state"),
        drop("code"),
        drop("iss"),
        double("state"),
        double("code"),
        double("iss"),
        set("code", "x".repeat(7500)),
        "/oauth2/callback".into(),
        "/oauth2/callback?".into(),
        "/oauth2/callback?&".into(),
        "/oauth2/callback?code=a".into(),
        "/oauth2/callback?state=".into(),
        "/oauth2/callback?state=%ff%fe&code=%00".into(),
        "/oauth2/callback?error=x".into(),
        "/oauth2/callback?error=<script>alert(1)</script>".into(),
    ];
    for target in &evil {
        let answer = alice.clone().open(target).await;
        assert!(
            matches!(answer.status(), 400 | 403 | 414),
            "{target}: {}",
            answer.start
        );
        assert!(
            answer.all("set-cookie").is_empty() && !answer.text().contains("<script>"),
            "{target}"
        );
    }
    assert_eq!(
        world.provider.calls("token"),
        0,
        "nothing of it reached the provider"
    );
    assert_eq!(
        alice.open(&back).await.status(),
        303,
        "and the honest one still works"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_id_token_refuses_the_sign_in() {
    let world = World::new().await.ready().await;
    type Change = fn(&mut serde_json::Value, &mut serde_json::Value);
    let cases: [(&str, Change); 19] = [
        ("nonce", |_, c| c["nonce"] = "x".into()),
        ("no nonce", |_, c| {
            c.as_object_mut().expect("claims").remove("nonce");
        }),
        ("aud", |_, c| c["aud"] = "another-client".into()),
        ("second aud", |_, c| c["aud"] = json!(["ludgate", "other"])),
        ("iss", |_, c| c["iss"] = "http://127.0.0.1:1".into()),
        ("azp", |_, c| c["azp"] = "other".into()),
        ("exp", |_, c| {
            c["exp"] = (c["iat"].as_i64().expect("iat") - 61).into()
        }),
        ("no exp", |_, c| {
            c.as_object_mut().expect("claims").remove("exp");
        }),
        ("exp text", |_, c| c["exp"] = "soon".into()),
        ("nbf", |_, c| {
            c["nbf"] = (c["iat"].as_i64().expect("iat") + 61).into()
        }),
        ("iat future", |_, c| {
            c["iat"] = (c["iat"].as_i64().expect("iat") + 61).into()
        }),
        ("iat old", |_, c| {
            c["iat"] = (c["iat"].as_i64().expect("iat") - 700).into()
        }),
        ("at_hash", |_, c| {
            c["at_hash"] = "AAAAAAAAAAAAAAAAAAAAAA".into()
        }),
        ("empty sub", |_, c| c["sub"] = "".into()),
        ("long sub", |_, c| c["sub"] = "x".repeat(256).into()),
        ("alg none", |h, _| h["alg"] = "none".into()),
        ("alg HS256", |h, _| h["alg"] = "HS256".into()),
        ("alg of another family", |h, _| h["alg"] = "RS256".into()),
        ("crit", |h, _| h["crit"] = json!(["exp"])),
    ];
    for (name, change) in cases {
        world.provider.set_mischief(Some(Box::new(change)));
        let mut browser = world.browser();
        let start = browser.open("/apps/usr/").await;
        let landed = browser.sign_in_from(&start, "alice").await;
        assert_eq!(landed.status(), 400, "{name}: {}", landed.text());
        assert!(browser.value("ludgate").is_none(), "{name}");
    }
    world.provider.set_mischief(None);
    assert_eq!(
        world
            .browser()
            .sign_in("/apps/usr/", "alice")
            .await
            .status(),
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_may_differ_by_a_minute() {
    let world = World::new().await.ready().await;
    for (claim, shift) in [("exp", -630), ("nbf", 30), ("iat", 50)] {
        world.provider.set_mischief(Some(Box::new(move |_, claims| {
            let base = if claim == "exp" {
                claims["exp"].as_i64()
            } else {
                claims["iat"].as_i64()
            };
            claims[claim] = (base.expect("a time") + shift).into();
        })));
        assert_eq!(
            world
                .browser()
                .sign_in("/apps/usr/", "alice")
                .await
                .status(),
            200,
            "{claim} {shift}"
        );
    }
}
