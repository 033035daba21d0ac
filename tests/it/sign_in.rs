//! behaviour.md rows 13-16, 23, 28 and section 6: signing in, from the first click to the app.

use std::time::Duration;

use serde_json::json;

use crate::support::{
    browser::{Browser, From, at_built_in_provider, path_of},
    message::Message,
    world::World,
};

/// The provider's address for a browser that begins at a target.
async fn to_provider(browser: &mut Browser, target: &str) -> String {
    let start = browser
        .open(target)
        .await
        .header("location")
        .expect("a redirect");
    browser
        .open(&start)
        .await
        .header("location")
        .expect("a redirect to the provider")
}

fn parameter(url: &str, name: &str) -> Option<String> {
    let url = url::Url::parse(url).expect("a URL");
    url.query_pairs()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_13_a_person_who_opens_a_page_signs_in_and_lands_on_exactly_that_page() {
    let world = World::new().await.ready().await;
    let mut alice = world.browser();
    let target = "/apps/grp/a%2Fb//c?x=1&y=%26&rd=//evil";
    let start = alice.open(target).await;
    assert_eq!(start.status(), 302);
    assert_eq!(start.header("cache-control").as_deref(), Some("no-store"));
    assert!(
        start
            .header("location")
            .expect("a location")
            .starts_with("/oauth2/start?rd=")
    );
    let landed = alice.sign_in_from(&start, "alice").await;
    assert_eq!(
        (landed.status(), landed.header("location").as_deref()),
        (303, Some(target))
    );
    assert_eq!(alice.open(target).await.status(), 200);
    assert_eq!(world.backend("grp").last().target(), target);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_to_the_provider_carries_pkce_state_and_nonce() {
    let world = World::new().await.ready().await;
    let mut browser = world.browser();
    let (first, second) = (
        to_provider(&mut browser, "/apps/grp/").await,
        to_provider(&mut browser, "/apps/grp/").await,
    );
    for url in [&first, &second] {
        assert_eq!(parameter(url, "response_type").as_deref(), Some("code"));
        assert_eq!(
            parameter(url, "code_challenge_method").as_deref(),
            Some("S256")
        );
        let redirect = format!("http://{}/oauth2/callback", world.host);
        assert_eq!(parameter(url, "redirect_uri"), Some(redirect));
        assert!(parameter(url, "scope").expect("a scope").contains("openid"));
    }
    for name in ["state", "nonce", "code_challenge"] {
        assert!(parameter(&first, name).expect(name).len() >= 22, "{name}");
        assert_ne!(
            parameter(&first, name),
            parameter(&second, name),
            "{name} is new for each attempt"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_14_what_is_no_navigation_gets_401_with_a_way_to_sign_in_and_never_a_redirect() {
    let world = World::new().await.ready().await;
    let mut nobody = world.browser();
    for (method, from) in [
        ("GET", From::Fetch),
        ("POST", From::Fetch),
        ("OPTIONS", From::Fetch),
        ("GET", From::ForeignFetch),
        ("GET", From::Program),
        ("POST", From::Navigation),
        ("DELETE", From::Navigation),
        ("PROPFIND", From::Navigation),
    ] {
        let answer = nobody.send(method, "/apps/grp/x", from, "", b"").await;
        assert_eq!(answer.status(), 401, "{method} {from:?}");
        assert!(answer.header("www-authenticate").is_some());
        assert!(answer.header("location").is_none() && answer.all("set-cookie").is_empty());
        if from != From::Navigation {
            assert_eq!(
                answer.header("content-type").as_deref(),
                Some("application/problem+json")
            );
            let problem = answer.json();
            assert_eq!(
                (problem["status"].as_u64(), problem["reason"].as_str()),
                (Some(401), Some("anonymous"))
            );
            assert!(
                problem["sign_in"]
                    .as_str()
                    .expect("a URL")
                    .starts_with(&format!("http://{}/oauth2/start?rd=", world.host))
            );
            assert_eq!(
                problem["request_id"].as_str(),
                answer.header("x-request-id").as_deref()
            );
        }
    }
    let frame = nobody
        .send("GET", "/apps/grp/x", From::Frame, "", b"")
        .await;
    assert_eq!(frame.status(), 401);
    assert!(
        frame.text().contains("target=\"_blank\""),
        "a link that leaves the frame: {}",
        frame.text()
    );
    let policy = frame.header("content-security-policy").expect("a policy");
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("frame-ancestors"),
        "{policy}"
    );
    assert_eq!(world.reached(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_15_the_refused_are_told_why_and_offered_another_account() {
    let world = World::new().await.ready().await;
    let mut bob = world.signed_in("bob").await;
    let page = bob.open("/apps/grp/x").await;
    assert_eq!(page.status(), 403);
    let text = page.text();
    for said in [
        "Bob",
        "membership of the group phusers",
        "Use another account",
        "prompt=login",
        "grp",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(
        text.contains(&page.header("x-request-id").expect("an id")),
        "{text}"
    );
    assert_eq!(page.header("cache-control").as_deref(), Some("no-store"));
    let problem = bob.fetch("/apps/grp/x").await;
    assert_eq!(
        (problem.status(), problem.json()["reason"].as_str()),
        (403, Some("not_in_group"))
    );
    assert_eq!(world.backend("grp").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_17_a_group_is_compared_as_a_path_and_case_sensitively() {
    let world = World::new().await.ready().await;
    for (groups, status) in [
        (json!(["phusers"]), 200),
        (json!(["/phusers"]), 200),
        (json!(["/other/phusers"]), 403),
        (json!(["PHUSERS"]), 403),
        (json!(["phusers "]), 403),
        (json!("phusers"), 200),
        (json!({"phusers": true}), 403),
        (json!([["phusers"]]), 403),
        (json!([]), 403),
    ] {
        world.provider.set_claim("carol", "groups", groups.clone());
        let mut carol = world.signed_in("carol").await;
        assert_eq!(carol.fetch("/apps/grp/").await.status(), status, "{groups}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_only_userinfo_knows_are_read_there() {
    let world = World::new().await.ready().await;
    world.provider.set_mischief(Some(Box::new(|_, claims| {
        claims.as_object_mut().expect("claims").remove("groups");
    })));
    let mut alice = world.signed_in("alice").await;
    assert_eq!(world.provider.calls("userinfo"), 1);
    assert_eq!(alice.fetch("/apps/grp/").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_23_the_cookies_are_exactly_these() {
    let world = World::new().await.ready().await;
    let mut alice = world.browser();
    let start = alice.open("/apps/grp/").await;
    assert!(
        start.all("set-cookie").is_empty(),
        "nothing is set before a sign-in begins"
    );
    let begin = alice.open(&start.header("location").expect("start")).await;
    let shape = |line: &str, name: &str, path: &str| {
        let value = line
            .strip_prefix(&format!("{name}="))
            .and_then(|rest| rest.split(';').next())
            .expect(name)
            .to_owned();
        assert_eq!(
            line,
            format!("{name}={value}; HttpOnly; SameSite=Lax; Path={path}"),
            "no Domain, no Max-Age"
        );
        assert_eq!(value.len(), 43, "256 bits");
        assert!(line.split(';').next().expect("a pair").len() <= 100);
    };
    assert_eq!(begin.all("set-cookie").len(), 1);
    shape(&begin.all("set-cookie")[0], "ludgate-bind", "/");
    let back =
        at_built_in_provider(&begin.header("location").expect("the provider"), "alice").await;
    let landed = alice.open(&back).await;
    assert_eq!(landed.all("set-cookie").len(), 1);
    shape(&landed.all("set-cookie")[0], "ludgate", "/");
    let page = alice.open("/apps/grp/").await;
    assert_eq!(page.all("set-cookie").len(), 1);
    shape(
        &page.all("set-cookie")[0],
        "phapplication-session-id",
        "/apps/grp/",
    );
    assert!(
        alice.open("/apps/grp/").await.all("set-cookie").is_empty(),
        "once is enough"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn row_28_fifty_tabs_sign_in_at_once_and_each_lands_on_its_own_page() {
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
        world.running.gateway.sessions.store.count(),
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
async fn row_28_a_state_is_good_for_one_browser_one_use_and_ten_minutes() {
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
async fn an_id_token_that_is_not_right_signs_nobody_in() {
    let world = World::new().await.ready().await;
    type Change = fn(&mut serde_json::Value, &mut serde_json::Value);
    let cases: [(&str, Change); 19] = [
        ("nonce", |_, c| c["nonce"] = "x".into()),
        ("no nonce", |_, c| {
            c.as_object_mut().expect("claims").remove("nonce");
        }),
        ("aud", |_, c| c["aud"] = "somebody".into()),
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

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_groups_and_large_claims_change_no_cookie() {
    let world = World::new().await.ready().await;
    let groups: Vec<String> = (0..500)
        .map(|n| format!("a-group-with-a-long-name-{n:04}"))
        .chain(["phusers".into()])
        .collect();
    world.provider.set_claim("carol", "groups", json!(groups));
    world
        .provider
        .set_claim("carol", "padding", json!("x".repeat(16 * 1024)));
    let mut carol = world.signed_in("carol").await;
    assert_eq!(carol.open("/apps/grp/").await.status(), 200);
    assert!(
        carol.jar.values().all(|value| value.len() == 43),
        "{:?}",
        carol.jar
    );
    let seen = world.backend("grp").last();
    assert_eq!(
        seen.header("x-forwarded-groups").as_deref(),
        Some("phusers"),
        "cut to the group that admitted her"
    );
    assert_eq!(
        seen.header("x-forwarded-groups-truncated").as_deref(),
        Some("true")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_sign_in_has_a_new_id_and_ends_the_old_one() {
    let world = World::new().await.ready().await;
    let mut browser = world.signed_in("bob").await;
    let old = browser.clone();
    let page = browser
        .open("/oauth2/start?rd=/apps/grp/&prompt=login")
        .await;
    let landed = browser.sign_in_from(&page, "alice").await;
    assert_eq!(landed.status(), 303);
    assert_ne!(browser.value("ludgate"), old.value("ludgate"));
    assert_eq!(
        browser.open("/apps/grp/").await.status(),
        200,
        "now as alice"
    );
    assert_eq!(
        old.clone().fetch("/apps/usr/").await.status(),
        401,
        "every cookie of before is dead"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_sent_to_another_origin_by_rd() {
    let world = World::new().await.ready().await;
    for evil in [
        "//e",
        "/%5Ce",
        "https://evil.test/",
        "javascript:1",
        "/%0d%0aSet-Cookie:a=b",
        "/oauth2/start",
    ] {
        let mut browser = world.browser();
        let start: Message = browser.open(&format!("/oauth2/start?rd={evil}")).await;
        let landed = browser.sign_in_from(&start, "alice").await;
        assert_eq!(landed.header("location").as_deref(), Some("/"), "{evil}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn userinfo_and_the_sign_in_page_say_who_it_is() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let answer = alice.fetch("/oauth2/userinfo").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.json()["user"], "alice");
    assert_eq!(answer.json()["groups"], json!(["friends", "phusers"]));
    assert_eq!(
        alice
            .send("GET", "/oauth2/userinfo", From::ForeignFetch, "", b"")
            .await
            .status(),
        401
    );
    assert_eq!(
        world.browser().fetch("/oauth2/userinfo").await.status(),
        401
    );
    assert!(alice.open("/oauth2/sign_in").await.text().contains("Alice"));
    let page = world.browser().open("/oauth2/sign_in?rd=/apps/grp/").await;
    assert!(
        page.text().contains("/oauth2/start?rd=%2Fapps%2Fgrp%2F"),
        "{}",
        page.text()
    );
    assert_eq!(
        alice
            .send("POST", "/oauth2/userinfo", From::Fetch, "", b"")
            .await
            .status(),
        405
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_headers_do_not_change_where_a_sign_in_leads() {
    let world = World::new().await.ready().await;
    let mut browser = world.browser();
    let more = "X-Forwarded-Host: evil.test\r\nX-Forwarded-Proto: javascript\r\nForwarded: host=evil.test\r\n";
    let answer = browser
        .send(
            "GET",
            "/oauth2/start?rd=/apps/grp/",
            From::Navigation,
            more,
            b"",
        )
        .await;
    let location = answer.header("location").expect("a redirect");
    assert_eq!(
        path_of(&parameter(&location, "redirect_uri").expect("a URI")),
        "/oauth2/callback"
    );
    assert!(!location.contains("evil"), "{location}");
}
