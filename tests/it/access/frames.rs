//! Frames of other origins (docs/behaviour.md#credentials): a session counts in those that
//! `frame_ancestors` names, and in no others.

use std::path::Path;

use ludgate::{model::frame_ancestors::FrameAncestors, settings};

use crate::support::{browser::From, documents::blocks, origins::Origins, world::World};

/// A site whose app `usr` may be framed by pages of `portal`.
async fn world() -> World {
    World::with("", |settings| {
        let portal = format!("http://portal.localhost:{}", settings.site.origin.port);
        let usr = settings
            .apps
            .iter_mut()
            .find(|app| app.id.as_str() == "usr");
        usr.expect("an app").frame_ancestors = FrameAncestors::new(vec![portal.into()]);
    })
    .await
    .ready()
    .await
}

/// What a browser says of a request that a page at this address starts.
fn fetch_metadata(site: &str, mode: &str, dest: &str, referer: &str) -> String {
    let referer = match referer {
        "" => String::new(),
        referer => format!("Referer: {referer}\r\n"),
    };
    format!(
        "Sec-Fetch-Site: {site}\r\nSec-Fetch-Mode: {mode}\r\nSec-Fetch-Dest: {dest}\r\n{referer}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_counts_in_frames_of_listed_origins_and_in_no_others() {
    let world = world().await;
    let mut alice = world.signed_in("alice").await;
    let (portal, other) = (world.on_host("portal"), world.on_host("pub"));
    let own = format!("http://{}", world.host);
    for (app, site, mode, dest, referer, status) in [
        (
            "usr",
            "same-site",
            "navigate",
            "iframe",
            format!("{portal}/"),
            200,
        ),
        (
            "usr",
            "same-site",
            "navigate",
            "object",
            format!("{portal}/a?b"),
            200,
        ),
        (
            "usr",
            "same-site",
            "navigate",
            "iframe",
            format!("{other}/"),
            401,
        ),
        (
            "usr",
            "same-site",
            "navigate",
            "iframe",
            format!("{own}/apps/pub/"),
            401,
        ),
        (
            "usr",
            "same-site",
            "navigate",
            "iframe",
            format!("{portal}.evil.test/"),
            401,
        ),
        ("usr", "same-site", "navigate", "iframe", String::new(), 401),
        (
            "usr",
            "cross-site",
            "navigate",
            "iframe",
            format!("{portal}/"),
            401,
        ),
        (
            "usr",
            "same-site",
            "cors",
            "empty",
            format!("{portal}/"),
            401,
        ),
        (
            "usr",
            "same-site",
            "no-cors",
            "image",
            format!("{portal}/"),
            401,
        ),
        (
            "grp",
            "same-site",
            "navigate",
            "iframe",
            format!("{portal}/"),
            401,
        ),
    ] {
        let more = fetch_metadata(site, mode, dest, &referer);
        let target = format!("/apps/{app}/x");
        let answer = alice.once("GET", &target, From::Program, &more, b"").await;
        assert_eq!(answer.status(), status, "{app} {site} {dest} {referer}");
    }
    let more = fetch_metadata("same-site", "navigate", "iframe", &format!("{portal}/"));
    let form = alice
        .once("POST", "/apps/usr/x", From::Program, &more, b"a=b")
        .await;
    assert_eq!(form.status(), 401, "a form of another origin");
    let anonymous = world
        .browser()
        .once("GET", "/apps/usr/x", From::Program, &more, b"")
        .await;
    assert_eq!(anonymous.status(), 401);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_of_a_listed_origin_uses_the_session_of_the_app_s_host() {
    let world = world().await;
    let mut alice = Origins::new(&world);
    let url = format!("{}/x", world.on_host("usr"));
    let page = format!("{}/", world.on_host("portal"));
    let more = fetch_metadata("same-site", "navigate", "iframe", &page);
    assert_eq!(alice.get(&url, From::Program, &more).await.status(), 401);
    assert_eq!(alice.follow(&url, "alice").await.1.status(), 200);
    assert_eq!(alice.get(&url, From::Program, &more).await.status(), 200);
    let foreign = fetch_metadata("same-site", "navigate", "iframe", &world.on_host("pub"));
    assert_eq!(alice.get(&url, From::Program, &foreign).await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_listed_origins_may_show_the_app_and_its_own_policy_stays() {
    let world = world().await;
    let mut alice = world.signed_in("alice").await;
    let ours = format!("frame-ancestors 'self' {}", world.on_host("portal"));
    for target in ["/apps/usr/x", "/apps/usr/reason"] {
        let answer = alice.open(target).await;
        assert_eq!(
            answer.all("content-security-policy"),
            std::slice::from_ref(&ours)
        );
    }
    let theirs = "default-src 'self'; frame-ancestors 'none'";
    let script = format!(
        "HTTP/1.1 200 OK\r\nContent-Security-Policy: {theirs}\r\nX-Frame-Options: DENY\r\n\
         Content-Length: 0\r\n\r\n"
    );
    for app in ["usr", "grp"] {
        world.backend(app).script(script.clone().into_bytes());
    }
    let framed = alice.open("/apps/usr/x").await;
    assert_eq!(
        framed.all("content-security-policy"),
        [theirs.to_owned(), ours]
    );
    assert_eq!(framed.all("x-frame-options"), ["DENY"]);
    let other = alice.open("/apps/grp/x").await;
    assert_eq!(other.all("content-security-policy"), [theirs]);
}

#[test]
fn the_example_of_the_document_is_a_configuration() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docs/apps.md")).expect("the document");
    let examples = blocks(&text, "toml");
    let example = examples
        .iter()
        .find(|block| block.contains("frame_ancestors"))
        .expect("an example");
    let parsed = settings::parse(example, root, std::iter::empty());
    let settings = parsed.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert!(settings.apps[0].frame_ancestors.is_some());
}
