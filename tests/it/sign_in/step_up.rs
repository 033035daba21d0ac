//! Apps that require a recent or a strong sign-in (`max_age` and `acr`): a person whose sign-in
//! does not meet that signs in again, and the provider has to confirm it.

use std::time::Duration;

use http::Request;
use ludgate::{
    commands::explain::explain,
    model::{
        authentication::{AuthenticationEvent, AuthenticationRequirement},
        caller::{Caller, Credential},
        principal::{PersonClaims, Principal},
    },
    settings::Settings,
};
use serde_json::json;

use super::saved_forms::{TYPED, resume, saved_form, send};
use crate::support::{
    browser::{Browser, From, at_built_in_provider},
    message::Message,
    origins::Origins,
    until::until_async,
    world::World,
};

const MAX_AGE: Duration = Duration::from_secs(900);
const SECOND: Duration = Duration::from_secs(1);
const CHALLENGE: &str = "Bearer realm=\"ludgate\", error=\"insufficient_user_authentication\"";

/// A site whose app `grp` has these requirements.
async fn world(max_age: Option<&str>, acr_values: Option<&str>) -> World {
    let requirement = AuthenticationRequirement::from_parameters(max_age, acr_values);
    let requirement = requirement.expect("valid").map(Box::new);
    let change = |settings: &mut Settings| {
        let mut apps = settings.apps.iter_mut();
        let app = apps.find(|app| app.id.as_str() == "grp").expect("grp");
        app.authentication = requirement;
    };
    World::with("", change).await.ready().await
}

/// A site with a limit of 15 minutes, at which alice signed in a second more ago.
async fn too_late() -> (World, Browser) {
    let world = world(Some("900"), None).await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.open("/apps/grp/x").await.status(), 200);
    world.manual_clock.advance(MAX_AGE);
    assert_eq!(
        alice.open("/apps/grp/x").await.status(),
        200,
        "at the limit"
    );
    world.manual_clock.advance(SECOND);
    (world, alice)
}

fn location(answer: &Message) -> String {
    let location = answer.header("location");
    location.unwrap_or_else(|| panic!("no redirect: {answer:?}"))
}

/// The answer to a WebSocket handshake with the cookies of a browser.
async fn handshake(world: &World, browser: &Browser) -> Message {
    let cookies = browser.cookie_line("/apps/grp/ws");
    let request = format!(
        "GET /apps/grp/ws HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Origin: http://HOST\r\n{cookies}\r\n"
    );
    world.exchange(&request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_signed_in_too_long_ago_signs_in_again_and_lands_on_the_same_page() {
    let (world, mut alice) = too_late().await;
    let reached = world.backend("grp").count();
    assert_eq!(
        alice.open("/apps/usr/").await.status(),
        200,
        "other apps go on"
    );
    let start = alice.open("/apps/grp/x?y=1").await;
    assert_eq!(start.status(), 302);
    let start_at = location(&start);
    assert_eq!(
        start_at,
        "/oauth2/start?rd=%2Fapps%2Fgrp%2Fx%3Fy%3D1&max_age=900"
    );
    let line = world.log.line_with("authentication_too_old").await;
    assert_eq!(
        (&line["decision"], &line["app"]),
        (&json!("sign_in"), &json!("grp"))
    );
    let authorize = location(&alice.open(&start_at).await);
    assert!(authorize.contains("max_age=900"), "{authorize}");
    let landed = alice.sign_in_from(&start, "alice").await;
    assert_eq!(location(&landed), "/apps/grp/x?y=1");
    assert_eq!(
        world.backend("grp").count(),
        reached,
        "nothing was forwarded before"
    );
    assert_eq!(alice.open("/apps/grp/x?y=1").await.status(), 200);
    assert!(world.websocket(&alice, "grp").await.carries().await);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_may_take_minutes_to_enter() {
    let (world, mut alice) = too_late().await;
    let start = alice.open("/apps/grp/x").await;
    let authorize = location(&alice.open(&location(&start)).await);
    world.manual_clock.advance(300 * SECOND);
    let back = at_built_in_provider(&authorize, "alice").await;
    let landed = alice.open(&back).await;
    assert_eq!(landed.status(), 303, "{}", landed.text());
    assert_eq!(alice.open("/apps/grp/x").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_and_scripts_get_a_challenge() {
    let (world, mut alice) = too_late().await;
    let wanted = format!("{CHALLENGE}, max_age=\"900\"");
    let refused = alice.fetch("/apps/grp/x").await;
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.header("www-authenticate"), Some(wanted.clone()));
    let problem = refused.json();
    assert_eq!(problem["reason"], "authentication_too_old");
    let sign_in = format!(
        "http://{}/oauth2/start?rd=%2Fapps%2Fgrp%2Fx&max_age=900",
        world.host
    );
    assert_eq!(problem["sign_in"], sign_in);
    let socket = handshake(&world, &alice).await;
    assert_eq!(socket.status(), 401);
    assert_eq!(socket.header("www-authenticate"), Some(wanted.clone()));
    let frame = alice.send("GET", "/apps/grp/x", From::Frame, "", b"").await;
    assert_eq!(frame.status(), 401);
    assert!(frame.text().contains("max_age=900"), "{}", frame.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bearer_token_is_judged_by_its_own_claims() {
    let world = world(Some("900"), Some("gold silver")).await;
    let now = world.running.internals().wall_seconds();
    let challenge = format!("{CHALLENGE}, acr_values=\"gold silver\", max_age=\"900\"");
    for (auth_time, acr, wanted) in [
        (None, None, Some("authentication_too_old")),
        (Some(now - 901), None, Some("authentication_too_old")),
        (Some(now), None, Some("authentication_context")),
        (Some(now), Some("bronze"), Some("authentication_context")),
        (Some(now), Some("silver"), None),
    ] {
        let claims = [
            ("auth_time", auth_time.map(|time| json!(time))),
            ("acr", acr.map(|acr: &str| json!(acr))),
        ];
        for (claim, value) in claims {
            if let Some(value) = value {
                world.provider.set_claim("alice", claim, value);
            }
        }
        let token = world.provider.access_token("alice");
        let answer = world.get_with_token("grp", &token).await;
        let Some(reason) = wanted else {
            assert_eq!(answer.status(), 200, "{}", answer.text());
            continue;
        };
        assert_eq!(answer.status(), 401);
        assert_eq!(answer.header("www-authenticate"), Some(challenge.clone()));
        assert_eq!(answer.json()["reason"], reason);
        // Another sign-in would not change the token.
        let line = format!("Authorization: Bearer {token}\r\n");
        let mut browser = world.browser();
        let page = browser
            .send("GET", "/apps/grp/x", From::Navigation, &line, b"")
            .await;
        assert_eq!(page.status(), 401, "no redirect");
        assert_eq!(world.get_with_token("usr", &token).await.status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_that_the_provider_does_not_confirm_begins_no_session_and_no_circle() {
    let (world, mut alice) = too_late().await;
    let session = alice.value("ludgate");
    let long_ago = world.running.internals().wall_seconds() - 901;
    world
        .provider
        .set_claim("alice", "auth_time", json!(long_ago));
    let start = alice.open("/apps/grp/x").await;
    let answer = alice.sign_in_from(&start, "alice").await;
    assert_eq!(answer.status(), 403, "{}", answer.text());
    assert!(
        answer.text().contains("did not confirm"),
        "{}",
        answer.text()
    );
    assert!(answer.all("set-cookie").is_empty());
    world.log.line_with("authentication_not_confirmed").await;
    assert_eq!(alice.value("ludgate"), session, "the old session stays");
    assert_eq!(alice.open("/apps/usr/").await.status(), 200);
    // The same without any time in the ID token.
    world.provider.set_mischief(Some(Box::new(|_, claims| {
        claims.as_object_mut().expect("claims").remove("auth_time");
    })));
    let start = alice.open("/apps/grp/x").await;
    assert_eq!(alice.sign_in_from(&start, "alice").await.status(), 403);
    // Where nothing is required, nothing has to be confirmed.
    let mut other = world.browser();
    other.sign_in("/apps/usr/", "alice").await;
    assert_eq!(other.open("/apps/grp/x").await.status(), 302, "not known");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_is_asked_at_once_for_what_the_app_requires() {
    let world = world(None, Some("gold silver")).await;
    let mut alice = world.browser();
    let start = alice.open("/apps/grp/x").await;
    assert!(
        location(&start).ends_with("&acr_values=gold+silver"),
        "{start:?}"
    );
    let authorize = location(&alice.open(&location(&start)).await);
    assert!(authorize.contains("acr_values=gold+silver"), "{authorize}");
    assert_eq!(alice.sign_in_from(&start, "alice").await.status(), 403);
    world.provider.set_claim("alice", "acr", json!("silver"));
    let landed = alice.sign_in_from(&start, "alice").await;
    assert_eq!(location(&landed), "/apps/grp/x");
    assert_eq!(alice.open("/apps/grp/x").await.status(), 200);
    for wrong in ["max_age=soon", "max_age=1&max_age=2", "acr_values=a%22b"] {
        let answer = alice
            .open(&format!("/oauth2/start?rd=%2F&go=1&{wrong}"))
            .await;
        assert_eq!(answer.status(), 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_is_no_authentication_whatever_its_id_token_says() {
    let world = world(Some("900"), None).await;
    let mut alice = world.signed_in("alice").await;
    let groups = json!(["phusers", "friends", "newcomers"]);
    world.provider.set_claim("alice", "groups", groups);
    world.provider.set_mischief(Some(Box::new(|_, claims| {
        claims["auth_time"] = claims["iat"].clone();
    })));
    world.manual_clock.advance(MAX_AGE - SECOND);
    assert_eq!(alice.open("/apps/usr/").await.status(), 200);
    until_async("the person is checked again", async || {
        let known = alice.clone().fetch("/oauth2/userinfo").await;
        known.text().contains("newcomers")
    })
    .await;
    assert_eq!(alice.open("/apps/grp/x").await.status(), 200);
    world.manual_clock.advance(2 * SECOND);
    assert_eq!(alice.open("/apps/grp/x").await.status(), 302);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_streams_were_decided_at_their_start() {
    let world = world(Some("900"), None).await;
    let mut alice = world.signed_in("alice").await;
    let mut socket = world.websocket(&alice, "grp").await;
    let _events = world.events(&alice, "grp").await;
    world.manual_clock.advance(MAX_AGE + SECOND);
    assert_eq!(alice.open("/apps/grp/x").await.status(), 302);
    // Another user's end shows that the streams were checked since.
    let mut bob = world.signed_in("bob").await;
    let mut others = world.websocket(&bob, "usr").await;
    bob.sign_out().await;
    assert_eq!(others.farewell().await, Some(1008));
    assert!(socket.carries().await);
    assert_eq!(world.running.internals().streams_cut(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_on_its_own_host_is_opened_again_after_the_sign_in() {
    let world = world(Some("900"), None).await;
    let mut alice = Origins::new(&world);
    let page = format!("{}/a?b=c", world.on_host("grp"));
    let other = format!("{}/", world.on_host("usr"));
    for url in [&page, &other] {
        assert_eq!(alice.follow(url, "alice").await.1.status(), 200);
    }
    assert_eq!(world.provider.calls("authorize"), 1);
    world.manual_clock.advance(MAX_AGE + SECOND);
    let status = format!("{}/.ludgate/session", world.on_host("grp"));
    let state = alice.fetch(&status).await.json();
    assert_eq!(state["signed_in"], false, "not enough for the app");
    // A window that is closed without a sign-in leaves the session as it is.
    let window = format!("{}/.ludgate/renewed", world.on_host("grp"));
    for leads_away in [&page, &window] {
        let answer = alice.open(leads_away).await;
        assert_eq!(answer.status(), 302);
        assert!(answer.all("set-cookie").is_empty(), "{answer:?}");
    }
    let refused = alice.fetch(&page).await.json();
    assert_eq!(refused["reason"], "authentication_too_old");
    let (url, answer) = alice.follow(&page, "alice").await;
    assert_eq!((answer.status(), &url), (200, &page));
    assert_eq!(world.provider.calls("authorize"), 2);
    assert_eq!(alice.fetch(&status).await.json()["signed_in"], true);
    // The site knows a recent sign-in, so that another visit needs no provider.
    assert_eq!(alice.open(&page).await.status(), 200);
    // A sign-in that is too old leads to the provider before there is a session on the host.
    let mut bob = Origins::new(&world);
    world
        .provider
        .set_claim("bob", "groups", json!(["phusers"]));
    assert_eq!(bob.follow(&other, "bob").await.1.status(), 200);
    world.manual_clock.advance(MAX_AGE + SECOND);
    let (url, answer) = bob.follow(&page, "bob").await;
    assert_eq!((answer.status(), &url), (200, &page));
    assert_eq!(world.provider.calls("authorize"), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_came_too_late_is_sent_after_the_sign_in() {
    let (world, mut alice) = too_late().await;
    let page = send(&world, &mut alice, "/apps/grp/echo?a=%20b", TYPED).await;
    assert_eq!(page.status(), 401);
    let text = page.text();
    assert!(
        text.contains("Your form is saved") && text.contains("sign in again"),
        "{text}"
    );
    let link = "/.ludgate/renewed?max_age=900";
    assert!(text.contains(&format!("href=\"{link}\"")), "{text}");
    let sealed = saved_form(&page);
    let early = resume(&world, &mut alice, &sealed).await;
    assert_eq!((early.status(), saved_form(&early)), (401, sealed.clone()));
    let start = alice.open(link).await;
    let landed = alice.sign_in_from(&start, "alice").await;
    assert_eq!(location(&landed), "/.ludgate/renewed");
    assert_eq!(alice.open(link).await.status(), 200, "no second sign-in");
    let sent = resume(&world, &mut alice, &sealed).await;
    assert_eq!((sent.status(), sent.text()), (200, TYPED.to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_what_is_required() {
    let world = world(Some("900"), Some("gold")).await;
    let snapshot = world.running.internals().snapshot();
    let now = ludgate::model::clock::system_wall_millis() / 1000;
    for (age, acr, wanted) in [
        (Some(10), Some("gold"), "decision  allow (group)\n"),
        (
            Some(1000),
            Some("gold"),
            "decision  sign_in (authentication_too_old)\n",
        ),
        (
            None,
            Some("gold"),
            "decision  sign_in (authentication_too_old)\n",
        ),
        (
            Some(10),
            None,
            "decision  sign_in (authentication_context)\n",
        ),
    ] {
        let claims = PersonClaims {
            subject: "alice".to_owned(),
            groups: ludgate::model::access::GroupName::new("phusers")
                .into_iter()
                .collect(),
            authentication: AuthenticationEvent::new(age.map(|age| now - age), acr),
            ..PersonClaims::default()
        };
        let caller = Caller::Person {
            principal: std::sync::Arc::new(Principal::new(claims, &[])),
            credential: Credential::Cookie,
        };
        let request = Request::get("/apps/grp/x")
            .header("host", &world.host)
            .header("sec-fetch-mode", "navigate")
            .header("sec-fetch-dest", "document")
            .body(())
            .expect("a request");
        let parts = request.into_parts().0;
        let look_up = |arrival: &mut ludgate::model::arrival::Arrival| snapshot.at(&arrival.vhost);
        let text = explain(&parts, caller, &snapshot, look_up).text;
        assert!(
            text.contains("sign-in   at most 900 s ago, acr gold\n"),
            "{text}"
        );
        assert!(text.contains(wanted), "{wanted:?} in\n{text}");
    }
}
