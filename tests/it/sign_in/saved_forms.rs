//! Nothing typed is lost: a form that comes when the session is over is given back, sealed, in a
//! page, and sent once when its person has signed in again.

use crate::support::{
    browser::{Browser, From, field},
    chromium::Chromium,
    message::Message,
    origins::Origins,
    secure::Secure,
    world::World,
};
use std::time::Duration;

pub(super) const WINDOW: Duration = Duration::from_secs(30 * 60);

const MINUTE: Duration = Duration::from_secs(60);

pub(super) const TYPED: &str = "title=An+idea&text=caf%C3%A9%0D%0A%26+more";

/// Headers of a form of a page at this origin.
fn form(origin: &str, kind: &str) -> String {
    format!("Origin: {origin}\r\nContent-Type: {kind}\r\n")
}

/// Sends a form, as a page of the site does.
pub(super) async fn send(
    world: &World,
    browser: &mut Browser,
    target: &str,
    body: &str,
) -> Message {
    let more = form(
        &format!("http://{}", world.host),
        "application/x-www-form-urlencoded",
    );
    browser
        .once("POST", target, From::Form, &more, body.as_bytes())
        .await
}

pub(super) fn saved_form(page: &Message) -> String {
    field(&page.text(), "ludgate-form")
}

/// Where the page of alice's form sends it.
const AGAIN: &str = "/apps/grp/echo?a=%20b&ludgate-resume";

pub(super) async fn resume(world: &World, browser: &mut Browser, sealed: &str) -> Message {
    send(world, browser, AGAIN, &format!("ludgate-form={sealed}")).await
}

/// Alice's page was open for too long when she sends what she wrote.
pub(super) async fn too_late() -> (World, Browser, String) {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
    world.manual_clock.advance(WINDOW);
    let page = send(&world, &mut alice, "/apps/grp/echo?a=%20b", TYPED).await;
    assert_eq!(page.status(), 401);
    assert!(
        page.text().contains("Your form is saved"),
        "{}",
        page.text()
    );
    let action = page
        .text()
        .split("action=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .map(str::to_owned);
    assert_eq!(
        action.map(|action| action.replace("&#38;", "&")),
        Some(format!("http://{}{AGAIN}", world.host))
    );
    (world, alice, saved_form(&page))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_typed_comes_to_the_app_once_when_its_person_has_signed_in_again() {
    let (world, mut alice, sealed) = too_late().await;
    let reached = world.backend("grp").count();
    let early = resume(&world, &mut alice, &sealed).await;
    assert_eq!(
        (early.status(), saved_form(&early)),
        (401, sealed.clone()),
        "not signed in yet: the page again"
    );
    // The page outlives the memory of whose session it was.
    world.manual_clock.advance(9 * MINUTE);
    alice.sign_in("/apps/usr/", "alice").await;
    let sent = resume(&world, &mut alice, &sealed).await;
    assert_eq!((sent.status(), sent.text()), (200, TYPED.to_owned()));
    let seen = world.backend("grp").last();
    assert_eq!(seen.start, "POST /apps/grp/echo?a=%20b HTTP/1.1");
    assert_eq!(
        seen.all("content-type"),
        ["application/x-www-form-urlencoded"]
    );
    assert_eq!(seen.all("content-length"), [TYPED.len().to_string()]);
    assert_eq!(seen.header("x-forwarded-user").as_deref(), Some("alice"));
    assert!(
        sent.all("set-cookie")
            .iter()
            .any(|line| line.contains("Path=/apps/grp/")),
        "a session of the app"
    );
    let again = resume(&world, &mut alice, &sealed).await;
    assert_eq!(
        (again.status(), world.backend("grp").count()),
        (400, reached + 1),
        "once"
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_user_and_no_other_request_can_send_it() {
    let (world, mut alice, sealed) = too_late().await;
    let reached = world.backend("grp").count();
    let mut bob = world.signed_in("bob").await;
    let page = resume(&world, &mut bob, &sealed).await;
    assert!(
        page.status() == 401 && page.text().contains("Another person is signed in"),
        "{}",
        page.text()
    );
    alice.sign_in("/apps/usr/", "alice").await;
    let mut forged = sealed.clone().into_bytes();
    forged[40] = if forged[40] == b'A' { b'B' } else { b'A' };
    for wrong in [
        String::from_utf8(forged).expect("ASCII"),
        String::new(),
        sealed[..60].to_owned(),
    ] {
        assert_eq!(resume(&world, &mut alice, &wrong).await.status(), 400);
    }
    let body = format!("ludgate-form={sealed}");
    for (target, body) in [
        (AGAIN, format!("{body}&{body}")),
        ("/apps/grp/other?ludgate-resume", body.clone()),
    ] {
        assert_eq!(
            send(&world, &mut alice, target, &body).await.status(),
            400,
            "{target}"
        );
    }
    for from in ["http://evil.test", "null", "http://grp.localhost"] {
        let more = form(from, "application/x-www-form-urlencoded");
        let answer = alice
            .once("POST", AGAIN, From::ForeignForm, &more, body.as_bytes())
            .await;
        assert_eq!(answer.status(), 401, "{from}: no cookie of hers counts");
    }
    let mut elsewhere = alice.clone();
    elsewhere.host = world.on_host("grp").replace("http://", "");
    let more = form(&world.on_host("grp"), "application/x-www-form-urlencoded");
    let answer = elsewhere
        .once("POST", AGAIN, From::Form, &more, body.as_bytes())
        .await;
    assert_eq!(
        answer.status(),
        401,
        "a host where she has no session: nothing is read"
    );
    world.manual_clock.advance(11 * MINUTE);
    assert_eq!(
        resume(&world, &mut alice, &sealed).await.status(),
        400,
        "too old"
    );
    assert_eq!(
        world.backend("grp").count(),
        reached,
        "nothing came to the app"
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_whose_session_ended_by_itself_lately_gets_it_back() {
    let world = World::new().await.ready().await;
    let is_saved = |page: &Message| page.text().contains("Your form is saved");
    let mut anonymous = world.browser();
    let page = send(&world, &mut anonymous, "/apps/grp/echo", TYPED).await;
    assert!(page.status() == 401 && !is_saved(&page), "a stranger");
    anonymous
        .jar
        .insert(("ludgate".into(), "/".into()), "A".repeat(43));
    assert!(
        !is_saved(&send(&world, &mut anonymous, "/apps/grp/echo", TYPED).await),
        "a forged cookie"
    );
    let mut alice = world.signed_in("alice").await;
    let gateway = world.running.internals();
    world.manual_clock.advance(WINDOW);
    // However the records go: still there, swept, and at last forgotten.
    assert!(is_saved(
        &send(&world, &mut alice, "/apps/usr/echo", TYPED).await
    ));
    gateway.sweep_sessions().await;
    assert!(is_saved(
        &send(&world, &mut alice, "/apps/usr/echo", TYPED).await
    ));
    let fetch = alice
        .send("POST", "/apps/usr/echo", From::Fetch, "", TYPED.as_bytes())
        .await;
    assert_eq!(
        (fetch.status(), fetch.json()["reason"].as_str()),
        (401, Some("anonymous")),
        "a fetch has its own way"
    );
    let foreign = form("http://evil.test", "application/x-www-form-urlencoded");
    let page = alice
        .once(
            "POST",
            "/apps/usr/echo",
            From::ForeignForm,
            &foreign,
            TYPED.as_bytes(),
        )
        .await;
    assert!(
        page.status() == 401 && !is_saved(&page),
        "another site's form"
    );
    world.manual_clock.advance(WINDOW);
    assert!(
        !is_saved(&send(&world, &mut alice, "/apps/usr/echo", TYPED).await),
        "a window later"
    );
    let mut bob = world.signed_in("bob").await;
    let cookie = bob.value("ludgate").expect("a sign-in");
    let found = gateway.sign_in(&cookie);
    found.expect("signed in").end();
    assert!(
        !is_saved(&send(&world, &mut bob, "/apps/usr/echo", TYPED).await),
        "signed out"
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_kept_is_said() {
    let (world, mut alice, _) = too_late().await;
    let origin = format!("http://{}", world.host);
    let (large, fits) = ("x".repeat(64 * 1024 + 1), "x".repeat(64 * 1024));
    for (kind, body) in [
        ("multipart/form-data; boundary=b", "--b--\r\n"),
        ("text/plain", "a=b"),
        ("application/x-www-form-urlencoded", &large),
    ] {
        let page = alice
            .once(
                "POST",
                "/apps/grp/echo",
                From::Form,
                &form(&origin, kind),
                body.as_bytes(),
            )
            .await;
        assert!(
            page.status() == 401 && page.text().contains("could not be saved"),
            "{kind}: {}",
            page.text()
        );
    }
    let page = send(&world, &mut alice, "/apps/grp/echo", &fits).await;
    let sealed = saved_form(&page);
    alice.sign_in("/apps/usr/", "alice").await;
    let sent = send(
        &world,
        &mut alice,
        "/apps/grp/echo?ludgate-resume",
        &format!("ludgate-form={sealed}"),
    )
    .await;
    assert_eq!(sent.text(), fits);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_app_answers_is_at_its_own_address_and_the_next_form_is_its_own() {
    let (world, mut alice, sealed) = too_late().await;
    alice.sign_in("/apps/usr/", "alice").await;
    // A cookie of the app's own, such as one against forged forms.
    alice
        .jar
        .insert(("csrf".into(), "/apps/grp/".into()), "of-the-app".into());
    assert_eq!(resume(&world, &mut alice, &sealed).await.status(), 200);
    let seen = world.backend("grp").last();
    assert!(
        seen.header("cookie")
            .is_some_and(|line| line.contains("csrf=of-the-app")),
        "{seen:?}"
    );
    // A page without an action of its own sends to where it stands.
    let next = send(&world, &mut alice, AGAIN, "field=1").await;
    assert_eq!((next.status(), next.text()), (200, "field=1".to_owned()));
    assert_eq!(
        world.backend("grp").last().target(),
        "/apps/grp/echo?a=%20b"
    );
    let more = form(
        &format!("http://{}", world.host),
        "multipart/form-data; boundary=b",
    );
    let files = alice
        .once("POST", AGAIN, From::Form, &more, b"--b--\r\n")
        .await;
    assert_eq!(
        (files.status(), files.text()),
        (200, "--b--\r\n".to_owned())
    );
    let large = "x".repeat(300_000);
    assert_eq!(send(&world, &mut alice, AGAIN, &large).await.text(), large);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_host_of_its_own_too() {
    let world = World::new().await.ready().await;
    let mut origins = Origins::new(&world);
    let (_, page) = origins
        .follow(&format!("{}/x", world.on_host("grp")), "alice")
        .await;
    assert_eq!(page.status(), 200);
    let origin = world.on_host("grp");
    let authority = origin.replace("http://", "");
    let host = origins.at(&authority);
    world.manual_clock.advance(WINDOW);
    let more = form(&origin, "application/x-www-form-urlencoded");
    let page = host
        .once("POST", "/echo", From::Form, &more, TYPED.as_bytes())
        .await;
    assert_eq!(page.status(), 401);
    let body = format!("ludgate-form={}", saved_form(&page));
    let (_, page) = origins
        .follow(
            &format!("{}/.ludgate/renewed", world.on_host("grp")),
            "alice",
        )
        .await;
    assert_eq!(page.status(), 200);
    let host = origins.at(&authority);
    let sent = host
        .once(
            "POST",
            "/echo?ludgate-resume",
            From::Form,
            &more,
            body.as_bytes(),
        )
        .await;
    assert_eq!((sent.status(), sent.text()), (200, TYPED.to_owned()));
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_browser_one_click_signs_in_and_sends_it() {
    let secure = Secure::start().await;
    let browser = Chromium::believing("MAP *.test 127.0.0.1", Some(&secure.key)).await;
    for address in [secure.site("/apps/grp/x"), secure.host("grp", "/x")] {
        browser.open(&address).await;
        browser
            .wait_for_url(|url| url == address || url.starts_with(secure.provider.issuer()))
            .await;
        if browser.url().await != address {
            browser.click("a[href*=\"login_as=alice\"]").await;
            browser.wait_for_url(|url| url == address).await;
        }
        secure.manual_clock.advance(WINDOW);
        browser
            .run(
                "document.body.innerHTML='<form method=post action=echo><textarea name=text>one\\n&amp;</textarea></form>';\
                 document.querySelector('form').submit()",
            )
            .await;
        browser.wait_for_url(|url| url.ends_with("/echo")).await;
        assert!(
            browser.text().await.contains("Your form is saved"),
            "{}",
            browser.text().await
        );
        browser.click("button").await;
        browser.other_window().await;
        browser
            .wait_for_url(|url| url.starts_with(secure.provider.issuer()))
            .await;
        browser.click("a[href*=\"login_as=alice\"]").await;
        browser.only_window().await;
        browser
            .wait_for_url(|url| url.ends_with("/echo?ludgate-resume"))
            .await;
        assert_eq!(browser.text().await.trim(), "text=one%0D%0A%26");
        let forms = secure
            .grp
            .seen()
            .iter()
            .filter(|seen| seen.start.starts_with("POST "))
            .count();
        assert_eq!(
            forms,
            usize::from(address.contains("svc.test")) + 1,
            "each came once"
        );
    }
    browser.close().await;
}
