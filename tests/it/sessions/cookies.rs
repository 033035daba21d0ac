//! Session cookies (docs/behaviour.md#credentials): on which requests, app and host one counts.

use crate::support::{
    browser::{Browser, From, at_built_in_provider},
    world::World,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_authorised_request_makes_the_session_and_is_forwarded_at_once_with_its_body() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let answer = alice
        .send("POST", "/apps/grp/echo", From::Fetch, "", b"a form")
        .await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, "a form"));
    assert_eq!(answer.all("set-cookie").len(), 1);
    assert!(
        alice
            .fetch("/apps/grp/x")
            .await
            .all("set-cookie")
            .is_empty()
    );
    assert_eq!(world.backend("grp").count(), 2, "no redirect to itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_makes_no_session() {
    let world = World::new().await.ready().await;
    let mut bob = world.signed_in("bob").await;
    let before = world.running.internals().session_count();
    assert!(bob.fetch("/apps/grp/x").await.all("set-cookie").is_empty());
    assert_eq!(world.running.internals().session_count(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_count_only_where_our_own_origin_led_the_browser() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    for (from, method, more, status) in [
        (From::Fetch, "GET", "", 200),
        (From::Fetch, "POST", "", 200),
        (From::Program, "GET", "", 200),
        (From::ForeignNavigation, "GET", "", 200),
        (From::ForeignFetch, "GET", "", 401),
        (From::ForeignFetch, "POST", "", 401),
        (From::SiblingFetch, "GET", "", 401),
        (From::Program, "POST", "Origin: http://evil.test\r\n", 401),
        (From::Program, "POST", "Origin: null\r\n", 401),
        (From::Program, "POST", "Origin: http://127.0.0.1\r\n", 401),
        (
            From::ForeignNavigation,
            "POST",
            "Origin: http://evil.test\r\n",
            401,
        ),
        (From::Fetch, "POST", "Sec-Fetch-Site: cross-site\r\n", 401),
        (From::Program, "GET", "Sec-Fetch-Mode: cors\r\n", 401),
    ] {
        let answer = alice.send(method, "/apps/usr/x", from, more, b"").await;
        assert_eq!(answer.status(), status, "{from:?} {method} {more:?}");
    }
    // A form on a page that asks for no referrer: the browser says same-origin, and `Origin: null`.
    assert_eq!(
        alice
            .send("POST", "/apps/usr/x", From::Fetch, "Origin: null\r\n", b"")
            .await
            .status(),
        200
    );
    let disguised = "Accept: text/html\r\nOrigin: http://evil.test\r\n";
    assert_ne!(
        alice
            .send("GET", "/apps/usr/x", From::Program, disguised, b"")
            .await
            .status(),
        200
    );
    let own = format!("Origin: http://{}\r\n", world.host);
    assert_eq!(
        alice
            .send("POST", "/apps/usr/x", From::Program, &own, b"")
            .await
            .status(),
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_for_one_app_and_comes_with_its_sign_in() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    alice.open("/apps/grp/").await;
    let bob = world.signed_in("bob").await;
    let app_cookie = alice.jar[&("phapplication-session-id".into(), "/apps/grp/".into())].clone();
    let get = |target: &str, cookies: String| {
        format!("GET {target} HTTP/1.1\r\nHost: HOST\r\nCookie: {cookies}\r\n\r\n")
    };
    let session = format!("phapplication-session-id={app_cookie}");
    let sign_in = alice.value("ludgate").expect("a sign-in");
    let both = |app: &str| format!("{app}; ludgate={sign_in}");
    assert_eq!(
        world
            .exchange(&get("/apps/grp/x", both(&session)))
            .await
            .status(),
        200
    );
    for other in [
        "/apps/grp/x",
        "/apps/mine/x",
        "/apps/strip/x",
        "/apps/usr/x",
    ] {
        assert_eq!(
            world.exchange(&get(other, session.clone())).await.status(),
            401,
            "{other}"
        );
    }
    let with_bob = format!(
        "{session}; ludgate={}",
        bob.value("ludgate").expect("a sign-in")
    );
    assert_eq!(
        world.exchange(&get("/apps/grp/x", with_bob)).await.status(),
        403,
        "bob, who may not"
    );
    let stale = format!("{session}; ludgate={}", "x".repeat(43));
    assert_eq!(
        world.exchange(&get("/apps/grp/x", stale)).await.status(),
        401
    );
    let as_sign_in = format!("ludgate={app_cookie}");
    assert_eq!(
        world
            .exchange(&get("/apps/usr/x", as_sign_in))
            .await
            .status(),
        401,
        "an app cookie is no sign-in"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_and_misspelt_cookies_change_no_identity() {
    let world = World::new().await.ready().await;
    let alice = world
        .signed_in("alice")
        .await
        .value("ludgate")
        .expect("a sign-in");
    let bob = world
        .signed_in("bob")
        .await
        .value("ludgate")
        .expect("a sign-in");
    for (cookies, user) in [
        (
            format!("\u{2000}ludgate={bob}; ludgate={alice}"),
            Some("alice"),
        ),
        (format!("\u{a0}ludgate={bob}"), None),
        (format!("%6Cudgate={bob}"), None),
        (format!("LUDGATE={bob}"), None),
        (format!("x=\"a; ludgate={alice}; y=\""), Some("alice")),
        (
            format!("ludgate={}; ludgate={alice}", "p".repeat(43)),
            Some("alice"),
        ),
        (format!("ludgate={bob}; ludgate={alice}"), None),
        (format!("a=\u{ff}; ludgate={alice}"), Some("alice")),
        (format!("$Version=1; ludgate={alice}"), Some("alice")),
        (format!("ludgate={alice}x"), None),
        (format!("ludgate=\"{alice}\""), None),
    ] {
        let answer = world
            .exchange(&format!(
                "GET /apps/usr/x HTTP/1.1\r\nHost: HOST\r\nCookie: {cookies}\r\n\r\n"
            ))
            .await;
        match user {
            Some(user) => {
                assert_eq!(answer.status(), 200, "{cookies}");
                assert_eq!(
                    world
                        .backend("usr")
                        .last()
                        .header("x-forwarded-user")
                        .as_deref(),
                    Some(user)
                );
            }
            None => assert_eq!(answer.status(), 401, "{cookies}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_an_https_site_the_cookies_are_host_bound_and_secure() {
    let world = World::with("", |settings| {
        let site = std::sync::Arc::get_mut(&mut settings.site).expect("not shared yet");
        site.cookies =
            ludgate::model::cookie_names::CookieNames::new(true, "phapplication-session-id", &[]);
        site.origin.secure = true;
    })
    .await
    .ready()
    .await;
    let mut alice = world.browser();
    let start = alice
        .open("/apps/grp/")
        .await
        .header("location")
        .expect("start");
    let begin = alice.open(&start).await;
    let shape = |line: &str, name: &str, path: &str| {
        let value = line.split(['=', ';']).nth(1).expect("a value").to_owned();
        assert_eq!(
            line,
            format!("{name}={value}; HttpOnly; SameSite=Lax; Secure; Path={path}")
        );
    };
    shape(&begin.all("set-cookie")[0], "__Host-ludgate-bind", "/");
    let back =
        at_built_in_provider(&begin.header("location").expect("the provider"), "alice").await;
    shape(
        &alice.open(&back).await.all("set-cookie")[0],
        "__Host-ludgate",
        "/",
    );
    let page = alice.open("/apps/grp/").await;
    assert_eq!(page.status(), 200);
    shape(
        &page.all("set-cookie")[0],
        "phapplication-session-id",
        "/apps/grp/",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planted_app_cookie_does_not_switch_the_session() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    alice.open("/apps/grp/").await;
    let mut mallory = world.signed_in("alice").await;
    mallory.open("/apps/grp/").await;
    let name = "phapplication-session-id";
    let session = |browser: &Browser| browser.jar[&(name.into(), "/apps/grp/".into())].clone();
    let planted = session(&mallory);
    // A signed-out browser: a session cookie planted for the parent domain is ignored.
    for line in [
        format!("{name}={planted}"),
        format!("{name}={planted}; ludgate=junk"),
    ] {
        let head = format!(
            "Host: HOST\r\n{}Cookie: {line}\r\n",
            From::Navigation.headers()
        );
        let answer = world
            .exchange(&format!("GET /apps/grp/x HTTP/1.1\r\n{head}\r\n"))
            .await;
        assert_eq!(answer.status(), 302, "{line}");
    }
    // Those that come first, for their longer path, neither hide the real one nor have another
    // made.
    let (own, sign_in) = (session(&alice), alice.value("ludgate").expect("a sign-in"));
    let before = world.running.internals().session_count();
    for count in [4, 5, 30] {
        let junk: String = (0..count)
            .map(|n| format!("{name}={:A<43}; ", format!("{n}x")))
            .collect();
        let cookies = format!("{junk}{name}={planted}; {name}={own}; ludgate={sign_in}");
        let request =
            format!("GET /apps/grp/x HTTP/1.1\r\nHost: HOST\r\nCookie: {cookies}\r\n\r\n");
        let answer = world.exchange(&request).await;
        assert_eq!(
            (answer.status(), answer.all("set-cookie").len()),
            (200, 0),
            "{count}"
        );
    }
    assert_eq!(world.running.internals().session_count(), before);
    world.check_oracles().await;
}
