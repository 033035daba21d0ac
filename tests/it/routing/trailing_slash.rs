//! `<prefix>/<id>` without a slash at the end: for an app that insists on it there is no circle of
//! redirects; and what an app with `rewrite_host` is told of the page that asks.

use crate::support::{browser::From, world::World};

const APP: &str =
    "[[apps]]\nid = \"nx\"\naccess = \"group:phusers\"\nupstream = \"http://ADDRESS\"\n";

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 308 Permanent Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
        .into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_redirects_to_its_path_without_a_slash_is_asked_for_that() {
    for location in ["/apps/nx", "/apps/nx?a=1", "http://HOST/apps/nx"] {
        let world = World::with_app("nx", APP).await.ready().await;
        let mut alice = world.signed_in("alice").await;
        let first = alice.open("/apps/nx").await;
        assert_eq!(
            (first.status(), first.header("location").as_deref()),
            (308, Some("/apps/nx/")),
            "no slash"
        );
        world
            .backend("nx")
            .script(redirect(&location.replace("HOST", &world.host)));
        assert_eq!(alice.open("/apps/nx/").await.status(), 308);
        world.backend("nx").script(None);
        let sessions = world.running.internals().session_count();
        for _ in 0..3 {
            let page = alice.open("/apps/nx?q").await;
            assert_eq!(
                (page.status(), page.all("set-cookie").len()),
                (200, 0),
                "{location}"
            );
            assert_eq!(world.backend("nx").last().target(), "/apps/nx?q");
        }
        assert_eq!(
            world.running.internals().session_count(),
            sessions,
            "no session for each visit"
        );
        assert_eq!(
            world.browser().fetch("/apps/nx").await.status(),
            401,
            "judged like the rest of it"
        );
        let mut bob = world.signed_in("bob").await;
        assert_eq!(bob.open("/apps/nx").await.status(), 403);
        world.check_oracles().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_redirects_of_an_app_change_nothing() {
    let world = World::with_app("nx", APP).await.ready().await;
    let mut alice = world.signed_in("alice").await;
    for location in ["/apps/nx/", "/apps/nx/login", "/apps/ny", "/", "nx"] {
        world.backend("nx").script(redirect(location));
        assert_eq!(alice.open("/apps/nx/").await.status(), 308);
        assert_eq!(
            alice.open("/apps/nx").await.header("location").as_deref(),
            Some("/apps/nx/"),
            "{location}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serving_the_bare_path_may_be_configured_but_not_of_an_app_that_is_stripped() {
    let world = World::with_app("nx", &format!("{APP}serves_bare_path = true\n"))
        .await
        .ready()
        .await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.open("/apps/nx").await.status(), 200);
    assert_eq!(world.backend("nx").last().target(), "/apps/nx");
    let text = "[[apps]]\nid = \"a\"\naccess = \"public\"\nupstream = \"http://127.0.0.1:1\"\nstrip_prefix = true\nserves_bare_path = true\n";
    let mistakes = ludgate::settings::parse(text, std::path::Path::new("."), std::iter::empty())
        .expect_err("a mistake");
    assert!(
        mistakes.to_string().contains("serves_bare_path"),
        "{mistakes}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_with_rewrite_host_is_told_its_own_origin_and_no_other_site_becomes_it() {
    for strip in [false, true] {
        let app = format!(
            "[[apps]]\nid = \"rh\"\naccess = \"user\"\nupstream = \"http://ADDRESS\"\nrewrite_host = true\nstrip_prefix = {strip}\n"
        );
        let world = World::with_app("rh", &app).await.ready().await;
        let mut alice = world.signed_in("alice").await;
        let (own, upstream) = (
            format!("http://{}", world.host),
            world.backend("rh").address(),
        );
        let below = if strip { "" } else { "/apps/rh" };
        for (origin, referer, expected) in [
            (
                own.clone(),
                format!("{own}/apps/rh/lab?a"),
                [
                    format!("http://{upstream}"),
                    format!("http://{upstream}{below}/lab?a"),
                ],
            ),
            (
                own.clone(),
                format!("{own}/apps/other/"),
                [
                    format!("http://{upstream}"),
                    format!("http://{upstream}/apps/other/"),
                ],
            ),
        ] {
            let more = format!("Origin: {origin}\r\nReferer: {referer}\r\n");
            assert_eq!(
                alice
                    .send("POST", "/apps/rh/x", From::Fetch, &more, b"")
                    .await
                    .status(),
                200
            );
            let seen = world.backend("rh").last();
            assert_eq!(seen.all("host"), [upstream.to_string()]);
            assert_eq!([seen.all("origin"), seen.all("referer")].concat(), expected);
        }
        for foreign in [
            "http://evil.test",
            "null",
            &format!("{own}.evil.test"),
            &format!("{own}1"),
        ] {
            let more = format!("Origin: {foreign}\r\nReferer: {foreign}/\r\n");
            alice
                .send("POST", "/apps/pub/x", From::ForeignFetch, &more, b"")
                .await;
        }
        // On a public app foreign pages may ask; what they are stays.
        let more = "Referer: http://evil.test/\r\n";
        alice
            .send("GET", "/apps/rh/x", From::Navigation, more, b"")
            .await;
        assert_eq!(
            world.backend("rh").last().all("referer"),
            ["http://evil.test/"]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_rewrite_host_origin_and_referer_stay() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let own = format!("http://{}", world.host);
    let more = format!("Origin: {own}\r\nReferer: {own}/apps/usr/\r\n");
    alice
        .send("POST", "/apps/usr/x", From::Fetch, &more, b"")
        .await;
    let seen = world.backend("usr").last();
    assert_eq!(
        [seen.all("origin"), seen.all("referer")].concat(),
        [own.clone(), format!("{own}/apps/usr/")]
    );
}
