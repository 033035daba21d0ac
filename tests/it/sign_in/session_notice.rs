//! Apps with `session_notice`: the script in their pages, and what the script asks.

use std::time::Duration;

use crate::support::{browser::From, message::Message, origins::Origins, world::World};

const MINUTE: Duration = Duration::from_secs(60);
const NOTED: &str = "[[apps]]\nid = \"noted\"\naccess = \"user\"\nupstream = \"http://ADDRESS\"\n\
                     session_notice = true\n";
const PAGE: &str =
    "<!doctype html><html><head><title>A page</title></head><body>Text</body></html>";
const TAG: &str = "<script src=\"/.ludgate/session.js\" async></script>";

/// An answer of an app with this page.
fn page(headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

async fn get(world: &World, app: &str, from: From) -> Message {
    let mut alice = world.signed_in("alice").await;
    let target = format!("/apps/{app}/x");
    let more = "Accept-Encoding: gzip, br\r\nTE: trailers\r\nConnection: TE\r\n";
    alice.send("GET", &target, from, more, b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_a_user_opens_gets_the_script_and_nothing_else_is_changed() {
    let world = World::with_app("noted", NOTED).await.ready().await;
    let headers = "Content-Type: text/html; charset=utf-8\r\nETag: \"a\"\r\nX-Kept: 1\r\n";
    for app in ["noted", "usr"] {
        world.backend(app).script(page(headers, PAGE));
    }
    let answer = get(&world, "noted", From::Navigation).await;
    assert_eq!(
        answer.text(),
        PAGE.replace("<head>", &format!("<head>{TAG}"))
    );
    assert!(!answer.truncated && answer.header("content-length").is_none());
    assert_eq!(answer.header("etag").as_deref(), Some("W/\"a\""));
    assert_eq!(answer.header("x-kept").as_deref(), Some("1"));
    assert_eq!(
        world.backend("noted").last().all("accept-encoding"),
        ["identity"]
    );
    for (app, from) in [
        ("noted", From::Fetch),
        ("noted", From::Frame),
        ("usr", From::Navigation),
    ] {
        let answer = get(&world, app, from).await;
        assert_eq!(answer.text(), PAGE, "{app} {from:?}");
        assert_eq!(answer.header("etag").as_deref(), Some("\"a\""));
        let accepted = world.backend(app).last().all("accept-encoding");
        assert_eq!(accepted, ["gzip, br"], "{app} {from:?}");
    }
    for other in [
        page("Content-Type: text/plain\r\n", PAGE),
        page(
            "Content-Type: text/html\r\nContent-Encoding: gzip\r\n",
            PAGE,
        ),
        page(
            "Content-Type: text/html\r\nContent-Security-Policy: script-src 'none'\r\n",
            PAGE,
        ),
        page("Content-Type: text/html\r\n", "<p>A part of a page</p>"),
    ] {
        world.backend("noted").script(other.clone());
        let answer = get(&world, "noted", From::Navigation).await;
        assert!(
            other.ends_with(&answer.body) && !answer.body.is_empty(),
            "{answer:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_pieces_gets_the_script_and_keeps_its_trailers() {
    let world = World::with_app("noted", NOTED).await.ready().await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\
                Trailer: X-Sum\r\n\r\n";
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let (first, second) = ("<!doctype html><ht", "ml><head><title>A</title>");
    let whole = format!(
        "{head}{}{}0\r\nX-Sum: 6\r\n\r\n",
        chunk(first),
        chunk(second)
    );
    world.backend("noted").script(whole.into_bytes());
    let answer = get(&world, "noted", From::Navigation).await;
    let expected = format!("<!doctype html><html><head>{TAG}<title>A</title>");
    assert_eq!(answer.text(), expected);
    assert!(!answer.truncated);
    // Too short for a decision, so that it is held until the end.
    let short = format!("{head}{}0\r\nX-Sum: 6\r\n\r\n", chunk("<html>"));
    world.backend("noted").script(short.into_bytes());
    let answer = get(&world, "noted", From::Navigation).await;
    assert_eq!(answer.text(), "<html>");
    let raw = String::from_utf8_lossy(&answer.raw).to_ascii_lowercase();
    assert!(raw.contains("x-sum: 6"), "{raw}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_the_session_is_told_and_asking_is_no_use() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let answer = alice.fetch("/.ludgate/session").await;
    assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"));
    let expected = serde_json::json!({"signed_in": true, "expires_in": 1800});
    assert_eq!(answer.json(), expected);
    for left in [1200, 600] {
        world.manual_clock.advance(10 * MINUTE);
        let state = alice.fetch("/.ludgate/session").await.json();
        assert_eq!(state["expires_in"], left);
    }
    let foreign = alice
        .send("GET", "/.ludgate/session", From::ForeignFetch, "", b"")
        .await;
    assert_eq!(foreign.json()["signed_in"], false);
    world.manual_clock.advance(10 * MINUTE);
    let over = alice.fetch("/.ludgate/session").await;
    assert_eq!(
        (over.status(), &over.json()["signed_in"]),
        (200, &serde_json::json!(false))
    );
    assert_eq!(alice.fetch("/apps/usr/").await.status(), 401);
    let posted = alice
        .send("POST", "/.ludgate/session", From::Fetch, "", b"")
        .await;
    assert_eq!(posted.status(), 405);
    let script = alice.fetch("/.ludgate/session.js").await;
    assert!(script.status() == 200 && script.text().contains("/.ludgate/renewed"));
    let kind = script.header("content-type");
    assert_eq!(kind.as_deref(), Some("text/javascript; charset=utf-8"));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_host_the_state_is_that_of_the_session_there() {
    let world = World::new().await.ready().await;
    let mut alice = Origins::new(&world);
    let (_, page) = alice
        .follow(&format!("{}/", world.on_host("usr")), "alice")
        .await;
    assert_eq!(page.status(), 200);
    for (app, signed_in) in [("usr", true), ("grp", false)] {
        let status = format!("{}/.ludgate/session", world.on_host(app));
        let state = alice.fetch(&status).await.json();
        assert_eq!(state["signed_in"], signed_in, "{app}");
    }
    assert_eq!(world.backend("grp").count(), 0, "no app is asked");
}
