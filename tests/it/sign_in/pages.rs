//! Signing in, from the first click to the app (docs/behaviour.md#sign-in).

use crate::support::{
    browser::{Browser, From, at_built_in_provider, path_of},
    message::Message,
    world::World,
};
use serde_json::json;

/// The provider's address for a browser that begins at a target.
pub(super) async fn to_provider(browser: &mut Browser, target: &str) -> String {
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
async fn a_person_who_opens_a_page_signs_in_and_lands_on_exactly_that_page() {
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
async fn what_is_no_navigation_gets_401_with_a_way_to_sign_in_and_never_a_redirect() {
    let world = World::new().await.ready().await;
    let mut anonymous = world.browser();
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
        let answer = anonymous.send(method, "/apps/grp/x", from, "", b"").await;
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
    let frame = anonymous
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
async fn the_refused_are_told_why_and_offered_another_account() {
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
async fn a_group_is_compared_as_a_path_and_case_sensitively() {
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
async fn the_cookies_are_exactly_these() {
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
async fn rd_never_redirects_to_another_origin() {
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
