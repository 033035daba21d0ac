//! `identity.access_token_cookie`: the console's own token as a credential, verified like a bearer
//! token and never believed for being there (docs/behaviour.md#credentials).

use std::time::Duration;

use serde_json::json;

use crate::support::{
    browser::{Browser, From},
    message::Message,
    world::World,
};

/// Everything as in the usual world, where `accessToken` is a secret of the console, and now a
/// credential too.
async fn sidecar() -> World {
    let change = |settings: &mut ludgate::settings::Settings| {
        let site = std::sync::Arc::get_mut(&mut settings.site).expect("not shared yet");
        site.cookies = site.cookies.clone().with_access_token("accessToken");
    };
    // One thread checks all streams in one pass.
    World::with_threads(1, "", change).await.ready().await
}

/// A token that the console got for a user in these groups; valid for `lasts` seconds.
fn token(world: &World, subject: &str, groups: &[&str], lasts: i64) -> String {
    let now = world.running.internals().wall_seconds();
    let header = json!({ "alg": "ES256", "typ": "JWT", "kid": world.provider.key_id() });
    // The id tells two of one second apart.
    let id = world.provider.sign(&header, &json!({}));
    world.provider.sign(
        &header,
        &json!({ "iss": world.provider.issuer(), "sub": subject, "aud": "ludgate", "iat": now, "exp": now + lasts,
                 "groups": groups, "jti": id }),
    )
}

fn hold(browser: &mut Browser, token: &str) {
    browser
        .jar
        .insert(("accessToken".into(), "/".into()), token.to_owned());
}

async fn fetch(browser: &mut Browser, app: &str) -> Message {
    browser.fetch(&format!("/apps/{app}/x")).await
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn who_is_signed_in_at_the_console_is_let_in_and_gets_a_session_on_the_first_answer() {
    let world = sidecar().await;
    let mut browser = world.browser();
    let held = token(&world, "alice", &["phusers"], 300);
    world.canaries.lock().expect("no panic").push(held.clone());
    hold(&mut browser, &held);
    let first = browser
        .send("POST", "/apps/grp/echo", From::Fetch, "", b"kept whole")
        .await;
    assert_eq!((first.status(), first.text().as_str()), (200, "kept whole"));
    assert_eq!(
        first.all("set-cookie").len(),
        1,
        "the app's session, at once"
    );
    let seen = world.backend("grp").last();
    assert_eq!(seen.header("cookie"), None, "the token reaches no app");
    assert_eq!(seen.header("x-forwarded-user").as_deref(), Some("alice"));
    assert!(
        fetch(&mut browser, "grp")
            .await
            .all("set-cookie")
            .is_empty(),
        "and only once"
    );
    assert_eq!(fetch(&mut browser, "oth").await.status(), 403);
    assert_eq!(fetch(&mut browser, "mine").await.status(), 200);
    assert_eq!(browser.open("/apps/usr/").await.status(), 200);
    assert_eq!(fetch(&mut browser, "pub").await.status(), 200);
    assert_eq!(
        world.backend("pub").last().header("cookie"),
        None,
        "nor a public one"
    );
    let launcher = browser.open("/apps/").await.text();
    assert!(launcher.contains("Signed in as"), "{launcher}");
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_token_is_anonymous_and_is_redirected_to_sign_in() {
    let world = sidecar().await;
    let good = token(&world, "alice", &["phusers"], 300);
    let (head, rest) = good.split_once('.').expect("a JWT");
    let (payload, signature) = rest.split_once('.').expect("a JWT");
    let forged = format!("{head}.{payload}.{}{}", &signature[1..], "A");
    let unsigned = format!("eyJhbGciOiJub25lIn0.{payload}.");
    let expired = token(&world, "alice", &["phusers"], -61);
    for bad in [
        forged.as_str(),
        unsigned.as_str(),
        expired.as_str(),
        "",
        "x",
        "a.b.c",
        "%00",
        &"x".repeat(9000),
    ] {
        let mut browser = world.browser();
        hold(&mut browser, bad);
        assert_eq!(fetch(&mut browser, "grp").await.status(), 401, "{bad:.40}");
        assert_eq!(browser.open("/apps/grp/").await.status(), 302, "{bad:.40}");
        assert_eq!(fetch(&mut browser, "pub").await.status(), 200, "{bad:.40}");
    }
    assert_eq!(world.running.internals().session_count(), 0);
    assert_eq!(world.backend("grp").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_page_cannot_use_it_and_a_websocket_from_there_is_refused() {
    let world = sidecar().await;
    let held = token(&world, "alice", &["phusers"], 300);
    let foreign = format!(
        "GET /apps/grp/x HTTP/1.1\r\nHost: HOST\r\nCookie: accessToken={held}\r\nSec-Fetch-Site: same-site\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n\r\n"
    );
    assert_eq!(world.exchange(&foreign).await.status(), 401);
    let socket = format!(
        "GET /apps/grp/ws HTTP/1.1\r\nHost: HOST\r\nCookie: accessToken={held}\r\nOrigin: http://evil.test\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    assert_eq!(world.exchange(&socket).await.status(), 403);
    // Two people's tokens at once say nothing about who is asking.
    let other = token(&world, "bob", &["friends"], 300);
    let both = format!(
        "GET /apps/usr/x HTTP/1.1\r\nHost: HOST\r\nCookie: accessToken={held}; accessToken={other}\r\n\r\n"
    );
    assert_eq!(world.exchange(&both).await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_token_is_confirmed_again_at_recheck_or_counts_for_apps_of_everybody_only() {
    let world = sidecar().await;
    let mut browser = world.browser();
    let first = token(&world, "alice", &["phusers"], 3600);
    hold(&mut browser, &first);
    for app in ["grp", "usr", "mine"] {
        assert_eq!(fetch(&mut browser, app).await.status(), 200);
    }
    world.manual_clock.advance(4 * MINUTE);
    browser
        .jar
        .remove(&("accessToken".to_owned(), "/".to_owned()));
    assert_eq!(
        fetch(&mut browser, "grp").await.status(),
        200,
        "known for less than recheck"
    );
    world.manual_clock.advance(MINUTE);
    assert_eq!(
        fetch(&mut browser, "grp").await.status(),
        401,
        "her membership is not confirmed"
    );
    assert_eq!(fetch(&mut browser, "mine").await.status(), 401);
    assert_eq!(
        fetch(&mut browser, "usr").await.status(),
        200,
        "she is still signed in"
    );
    // The console has a fresh token: the same session goes on.
    let next = token(&world, "alice", &["phusers"], 3600);
    hold(&mut browser, &next);
    let again = fetch(&mut browser, "grp").await;
    assert_eq!(again.status(), 200);
    assert!(
        again.all("set-cookie").is_empty(),
        "it is the session she had"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_token_changes_the_groups_at_once_and_another_persons_changes_the_person() {
    let world = sidecar().await;
    let mut browser = world.browser();
    hold(&mut browser, &token(&world, "alice", &["phusers"], 300));
    assert_eq!(fetch(&mut browser, "grp").await.status(), 200);
    hold(&mut browser, &token(&world, "alice", &["friends"], 300));
    assert_eq!(
        fetch(&mut browser, "grp").await.status(),
        403,
        "the newer token knows better"
    );
    hold(&mut browser, &token(&world, "bob", &["phusers"], 300));
    assert_eq!(fetch(&mut browser, "grp").await.status(), 200);
    assert_eq!(
        world
            .backend("grp")
            .last()
            .header("x-forwarded-user")
            .as_deref(),
        Some("bob")
    );
    assert_eq!(fetch(&mut browser, "his").await.status(), 200);
    // One that is over is no reason to end what a good one began.
    hold(&mut browser, &token(&world, "bob", &["phusers"], -61));
    assert_eq!(fetch(&mut browser, "grp").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_as_long_as_the_token_that_proved_it_and_no_longer() {
    let world = sidecar().await;
    let mut browser = world.browser();
    hold(&mut browser, &token(&world, "alice", &["phusers"], 8 * 60));
    assert_eq!(fetch(&mut browser, "grp").await.status(), 200);
    let (mut grp, _usr) = (
        world.events(&browser, "grp").await,
        world.events(&browser, "usr").await,
    );
    world.manual_clock.advance(7 * MINUTE);
    let _probe = world.events(&browser, "usr").await;
    let silent = tokio::time::timeout(Duration::from_millis(20), grp.reader.some()).await;
    assert!(
        silent.is_err(),
        "older than recheck, but the token still holds"
    );
    // Recheck is due again, five minutes after the probe brought the token, and the token is over.
    world.manual_clock.advance(5 * MINUTE);
    assert!(grp.is_closed().await, "the token is over");
    let cut = world.running.internals().streams_cut();
    assert_eq!(cut, 1, "an app of everybody goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_here_ends_what_the_token_began_in_every_browser_of_that_person() {
    let world = sidecar().await;
    let (mut one, mut other, mut bob) = (world.browser(), world.browser(), world.browser());
    for browser in [&mut one, &mut other] {
        hold(browser, &token(&world, "alice", &["phusers"], 300));
    }
    hold(&mut bob, &token(&world, "bob", &["friends"], 300));
    for (browser, app) in [(&mut one, "grp"), (&mut other, "usr"), (&mut bob, "usr")] {
        assert_eq!(fetch(browser, app).await.status(), 200);
    }
    let done = one.sign_out().await;
    assert_eq!(done.status(), 303, "{}", done.text());
    assert!(
        one.value("phapplication-session-id").is_none(),
        "its cookies go"
    );
    // The console's token is gone too, as when the console signs out: nothing is left of the
    // session.
    other
        .jar
        .remove(&("accessToken".to_owned(), "/".to_owned()));
    assert_eq!(fetch(&mut other, "usr").await.status(), 401);
    assert_eq!(fetch(&mut bob, "usr").await.status(), 200, "his goes on");
}
