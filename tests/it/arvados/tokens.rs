//! Tokens of Arvados as credentials: in an address, a cookie or a header; what becomes of them, and
//! of the sessions that stand on them (behaviour rows 20 and 21, section 9).

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE};
use serde_json::json;

use crate::support::{
    arvados::Fault,
    browser::From,
    cluster::{Cluster, encoded},
    message::{Message, PATIENCE},
};

const HANDSHAKE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn assert_unauthorised(answer: &Message, why: &str) {
    assert_eq!(answer.status(), 401, "{why}: {answer:?}");
    assert!(answer.all("set-cookie").is_empty(), "{why}: no cookie");
    assert!(answer.header("location").is_none(), "{why}: no way round");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_opened_with_a_token_in_its_address_comes_back_without_it_and_with_a_session() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let label = format!("{}-8080", container.uuid);
    for (name, token) in [
        ("api_token", &cluster.alice.token_v2),
        ("arvados_api_token", &cluster.alice.token_v2),
        ("%61pi_token", &cluster.alice.token_v1),
    ] {
        let mut alice = cluster.visitor();
        let before = cluster.app.count();
        let with = cluster.url(
            &label,
            &format!("/a%2Fb?x=%41&{name}={}&&y", encoded(token)),
        );
        let answer = alice.open(&with).await;
        assert_eq!(answer.status(), 303, "{answer:?}");
        let clean = cluster.url(&label, "/a%2Fb?x=%41&&y");
        assert_eq!(answer.header("location").as_deref(), Some(&*clean));
        assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"));
        assert_eq!(
            answer.header("referrer-policy").as_deref(),
            Some("no-referrer")
        );
        assert!(answer.body.is_empty());
        let cookies = answer.all("set-cookie");
        assert_eq!(cookies.len(), 1);
        assert!(
            cookies[0].starts_with("ludgate-app=") && !cookies[0].contains(&cluster.alice.token_v1)
        );
        assert_eq!(cluster.app.count(), before, "O5");
        assert_eq!(alice.open(&clean).await.status(), 200);
        assert_eq!(cluster.app.last().target(), "/a%2Fb?x=%41&&y");
        assert_eq!(
            cluster.app.last().header("x-forwarded-user").as_deref(),
            Some(&*cluster.alice.uuid)
        );
    }
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_other_request_with_a_token_in_its_address_is_forwarded_at_once_without_it() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let label = format!("{}-8080", container.uuid);
    let url = cluster.url(
        &label,
        &format!("/echo?api_token={}&b=1", encoded(&cluster.alice.token_v2)),
    );
    for method in ["GET", "POST", "PATCH", "OPTIONS", "DELETE"] {
        let answer = cluster
            .visitor()
            .send(method, &url, From::Fetch, "", b"a body")
            .await;
        assert_eq!(
            (answer.status(), answer.text().as_str()),
            (200, "a body"),
            "{method}"
        );
        assert_eq!(answer.all("set-cookie").len(), 1, "{method}");
        assert_eq!(
            cluster.app.last().start,
            format!("{method} /echo?b=1 HTTP/1.1")
        );
    }
    // A WebSocket too; its cookie counts for the page's next requests.
    let socket = cluster.url(
        &label,
        &format!("/ws?api_token={}", encoded(&cluster.alice.token_v2)),
    );
    let more = format!("{HANDSHAKE}Origin: {}\r\n", cluster.world.on_host(&label));
    let mut alice = cluster.visitor();
    let answer = alice.send("GET", &socket, From::Program, &more, b"").await;
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.all("set-cookie").len(), 1);
    assert_eq!(cluster.app.last().target(), "/ws");
    assert_eq!(
        alice
            .send("GET", &cluster.url(&label, "/x"), From::Fetch, "", b"")
            .await
            .status(),
        200
    );
    // A foreign page's image is answered, and leaves no session behind.
    let answer = cluster
        .visitor()
        .send("GET", &url, From::ForeignFetch, "", b"")
        .await;
    assert_eq!((answer.status(), answer.all("set-cookie").len()), (200, 0));
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_token_is_401_once_and_leads_nowhere() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let label = format!("{}-8080", container.uuid);
    let revoked = cluster.arvados.add_user("gone", false);
    cluster.arvados.revoke(&revoked.token_v2);
    let inactive = cluster.arvados.add_user("inactive", true);
    cluster.arvados.set_active(&inactive.uuid, false);
    let wrong_uuid = format!("v2/zzzzz-gj3su-000000000000000/{}", cluster.alice.token_v1);
    let two = format!(
        "{}&api_token={}",
        encoded(&cluster.alice.token_v2),
        encoded(&cluster.bob.token_v2)
    );
    let v2 = encoded(&revoked.token_v2);
    for value in [
        "",
        "x",
        "%00",
        &"a".repeat(50),
        &"a".repeat(2000),
        &v2,
        &encoded(&inactive.token_v2),
        &encoded(&wrong_uuid),
        &two,
    ] {
        let url = cluster.url(&label, &format!("/x?api_token={value}&b"));
        for (method, from) in [
            ("GET", From::Navigation),
            ("GET", From::Fetch),
            ("POST", From::Fetch),
        ] {
            assert_unauthorised(
                &cluster.visitor().send(method, &url, from, "", b"").await,
                value,
            );
        }
    }
    let page = cluster
        .visitor()
        .open(&cluster.url(&label, &format!("/x?api_token={v2}&b")))
        .await
        .text();
    assert!(
        !page.contains(&revoked.token_v1) && !page.contains("api_token"),
        "{page}"
    );
    for bearer in [revoked.token_v2.clone(), wrong_uuid] {
        let more = format!("Authorization: Bearer {bearer}\r\n");
        let url = cluster.url(&label, "/x");
        assert_unauthorised(
            &cluster
                .visitor()
                .send("GET", &url, From::Program, &more, b"")
                .await,
            &bearer,
        );
    }
    assert_eq!(cluster.app.count(), 0, "O5");
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_token_of_somebody_who_may_not_enter_makes_no_session() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(
        format!("{}-8080", container.uuid),
        &format!("/x?api_token={}", encoded(&cluster.bob.token_v2)),
    );
    for from in [From::Navigation, From::Fetch] {
        let answer = cluster.visitor().send("GET", &url, from, "", b"").await;
        assert_eq!(
            (answer.status(), answer.all("set-cookie").len()),
            (404, 0),
            "{from:?}"
        );
    }
    assert_eq!(cluster.app.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_with_somebody_s_token_does_not_replace_a_live_session_of_somebody_else() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let label = format!("{}-8080", container.uuid);
    let mut alice = cluster.visitor();
    alice
        .open(&cluster.url(
            &label,
            &format!("/x?api_token={}", encoded(&cluster.alice.token_v2)),
        ))
        .await;
    let link = cluster.url(
        &label,
        &format!("/y?api_token={}", encoded(&cluster.admin.token_v2)),
    );
    let answer = alice
        .send("GET", &link, From::ForeignNavigation, "", b"")
        .await;
    assert_eq!((answer.status(), answer.all("set-cookie").len()), (303, 0));
    assert_eq!(answer.header("location"), Some(cluster.url(&label, "/y")));
    assert_eq!(alice.open(&cluster.url(&label, "/y")).await.status(), 200);
    assert_eq!(
        cluster.app.last().header("x-forwarded-user").as_deref(),
        Some(&*cluster.alice.uuid)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_public_port_the_query_is_the_app_s_but_for_what_has_the_form_of_a_token() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let label = format!("{}-80", container.uuid);
    let calls = cluster.arvados.calls_to("/arvados/v1/users");
    for (target, seen) in [
        (
            "/x?api_token=mine&b=%41".to_owned(),
            "/x?api_token=mine&b=%41",
        ),
        (
            format!("/x?a&api_token={}&b=%41", encoded(&cluster.alice.token_v2)),
            "/x?a&b=%41",
        ),
        (format!("/x?api_token={}", cluster.alice.token_v1), "/x"),
    ] {
        let url = cluster.url(&label, &target);
        let answer = cluster
            .visitor()
            .send("GET", &url, From::Fetch, "", b"")
            .await;
        assert_eq!((answer.status(), answer.all("set-cookie").len()), (200, 0));
        assert_eq!(cluster.app.last().target(), seen);
        // A page is shown under a clean address, or its scripts and all that it loads would tell
        // the token.
        let answer = cluster.visitor().open(&url).await;
        assert!(answer.all("set-cookie").is_empty());
        match target == seen {
            true => assert_eq!(answer.status(), 200),
            false => assert_eq!(
                (answer.status(), answer.header("location")),
                (303, Some(cluster.url(&label, seen)))
            ),
        }
    }
    assert_eq!(cluster.arvados.calls_to("/arvados/v1/users"), calls);
    // Elsewhere it is no business of ours at all.
    let token = format!("/x?api_token={}", encoded(&cluster.alice.token_v2));
    let answer = cluster.visitor().open(&cluster.url("pub", &token)).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(cluster.world.backend("pub").last().target(), token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_token_makes_a_session_and_a_header_never_does() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-8080", container.uuid), "/x");
    for written in [
        cluster.alice.token_v2.clone(),
        URL_SAFE.encode(&cluster.alice.token_v2),
        URL_SAFE.encode(&cluster.alice.token_v1),
    ] {
        let mut alice = cluster.visitor();
        let cookie = format!("Cookie: arvados_api_token={written}\r\n");
        let answer = alice
            .send("POST", &url, From::Fetch, &cookie, b"a form")
            .await;
        assert_eq!(
            (answer.status(), answer.all("set-cookie").len()),
            (200, 1),
            "no redirect to itself"
        );
        assert_eq!(
            alice.send("GET", &url, From::Fetch, "", b"").await.status(),
            200,
            "the session alone"
        );
        assert!(cluster.app.last().header("cookie").is_none());
        // A cookie, so only where our own origin led the browser.
        let stranger = cluster
            .visitor()
            .send("GET", &url, From::ForeignFetch, &cookie, b"")
            .await;
        assert_eq!(stranger.status(), 401);
        let more = format!("{cookie}{HANDSHAKE}Origin: http://evil.test\r\n");
        assert_eq!(
            cluster
                .visitor()
                .send("GET", &url, From::Program, &more, b"")
                .await
                .status(),
            403
        );
    }
    for header in [
        format!("Bearer {}", cluster.alice.token_v2),
        format!("OAuth2 {}", cluster.alice.token_v1),
    ] {
        let more = format!("Authorization: {header}\r\n");
        let answer = cluster
            .visitor()
            .send("GET", &url, From::Program, &more, b"")
            .await;
        assert_eq!((answer.status(), answer.all("set-cookie").len()), (200, 0));
        assert!(
            cluster.app.last().header("authorization").is_none(),
            "removed"
        );
    }
    // An old cookie is no reason to refuse somebody who can sign in.
    cluster.arvados.revoke(&cluster.bob.token_v2);
    let cookie = format!("Cookie: arvados_api_token={}\r\n", cluster.bob.token_v2);
    assert_eq!(
        cluster
            .visitor()
            .send("GET", &url, From::Navigation, &cookie, b"")
            .await
            .status(),
        302
    );
    assert_eq!(
        cluster
            .visitor()
            .send("GET", &url, From::Fetch, &cookie, b"")
            .await
            .status(),
        401
    );
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_is_no_arvados_token_is_the_app_s_own() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-8080", container.uuid), "/x");
    let mut alice = cluster.visitor();
    let cookie = format!("Cookie: arvados_api_token={}\r\n", cluster.alice.token_v2);
    alice.send("GET", &url, From::Fetch, &cookie, b"").await;
    let old_looking = format!("Bearer {}", "0123456789abcdef".repeat(3));
    for own in [
        "Basic YTpi",
        "token 0123456789abcdef",
        "Bearer short",
        old_looking.as_str(),
    ] {
        let more = format!("Authorization: {own}\r\n");
        assert_eq!(
            alice
                .send("GET", &url, From::Fetch, &more, b"")
                .await
                .status(),
            200,
            "{own}"
        );
        assert_eq!(
            cluster.app.last().header("authorization").as_deref(),
            Some(own)
        );
        assert_eq!(
            cluster
                .visitor()
                .send("GET", &url, From::Program, &more, b"")
                .await
                .status(),
            401,
            "{own}"
        );
    }
    // One of Arvados' own form never reaches an app, whoever is let in by what.
    let more = format!("Authorization: Bearer {}\r\n", cluster.bob.token_v2);
    assert_eq!(
        alice
            .send("GET", &url, From::Fetch, &more, b"")
            .await
            .status(),
        200
    );
    assert!(cluster.app.last().header("authorization").is_none());
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_a_header_is_verified_again_within_thirty_seconds() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-8080", container.uuid), "/x");
    for _ in 0..10 {
        assert_eq!(
            cluster
                .ask("GET", &url, Some(&cluster.alice))
                .await
                .status(),
            200
        );
    }
    assert_eq!(cluster.arvados.calls_to("/arvados/v1/users/current"), 1);
    cluster.arvados.revoke(&cluster.alice.token_v2);
    assert_eq!(
        cluster
            .ask("GET", &url, Some(&cluster.alice))
            .await
            .status(),
        200
    );
    cluster.world.manual_clock.advance(Duration::from_secs(30));
    assert_eq!(
        cluster
            .ask("GET", &url, Some(&cluster.alice))
            .await
            .status(),
        401
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_token_ends_soon_after_the_token_and_survives_an_api_that_is_away()
 {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-8080", container.uuid), "/x");
    let mut alice = cluster.visitor();
    let cookie = format!("Cookie: arvados_api_token={}\r\n", cluster.alice.token_v2);
    assert_eq!(
        alice
            .send("GET", &url, From::Fetch, &cookie, b"")
            .await
            .status(),
        200
    );
    let verified = || cluster.arvados.calls_to("/arvados/v1/users/current");
    let until = |count: usize| async move {
        let seen = async {
            while verified() < count {
                tokio::task::yield_now().await
            }
        };
        tokio::time::timeout(PATIENCE, seen)
            .await
            .expect("verified again");
    };
    // Every five minutes, in the background, once however many ask.
    cluster.world.manual_clock.advance(Duration::from_secs(300));
    for _ in 0..5 {
        assert_eq!(
            alice.send("GET", &url, From::Fetch, "", b"").await.status(),
            200
        );
    }
    until(2).await;
    assert_eq!(verified(), 2);
    // Nobody could be asked: it goes on.
    cluster.arvados.fail(Some(Fault::Status(503)));
    cluster.world.manual_clock.advance(Duration::from_secs(300));
    assert_eq!(
        alice.send("GET", &url, From::Fetch, "", b"").await.status(),
        200
    );
    until(3).await;
    assert_eq!(
        alice.send("GET", &url, From::Fetch, "", b"").await.status(),
        200
    );
    // The token is over: so is the session.
    cluster.arvados.fail(None);
    cluster.arvados.revoke(&cluster.alice.token_v2);
    cluster.world.manual_clock.advance(Duration::from_secs(300));
    let over =
        async { while alice.send("GET", &url, From::Fetch, "", b"").await.status() != 401 {} };
    tokio::time::timeout(PATIENCE, over).await.expect("over");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_one_container_or_port_is_none_at_another() {
    let cluster = Cluster::start().await;
    let published = json!({"80": {"access": "private"}, "8080": {"access": "private"}});
    let container = cluster
        .publishing(&[&cluster.alice], published.clone())
        .await;
    let other = cluster.publishing(&[&cluster.alice], published).await;
    let host = format!("{}-8080", container.uuid);
    let mut alice = cluster.visitor();
    let cookie = format!("Cookie: arvados_api_token={}\r\n", cluster.alice.token_v2);
    alice
        .send("GET", &cluster.url(&host, "/x"), From::Fetch, &cookie, b"")
        .await;
    let session = alice
        .at(&cluster.world.on_host(&host)[7..])
        .cookie_line("/");
    assert!(session.starts_with("Cookie: ludgate-app="));
    let again = |label: String| {
        let (url, session, mut visitor) =
            (cluster.url(label, "/x"), session.clone(), cluster.visitor());
        async move {
            visitor
                .send("GET", &url, From::Fetch, &session, b"")
                .await
                .status()
        }
    };
    assert_eq!(again(host.clone()).await, 200);
    for elsewhere in [
        format!("{}-80", container.uuid),
        format!("{}-8080", container.request_uuids[0]),
        format!("{}-8080", other.uuid),
        "usr".to_owned(),
    ] {
        assert_eq!(again(elsewhere.clone()).await, 401, "{elsewhere}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_referer_tells_a_container_a_token() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let token = encoded(&cluster.alice.token_v2);
    for port in ["80", "8080"] {
        let label = format!("{}-{port}", container.uuid);
        let mut alice = cluster.visitor();
        let cookie = format!("Cookie: arvados_api_token={}\r\n", cluster.alice.token_v2);
        for (address, passes) in [
            (
                cluster.url(&label, &format!("/page?x=1&api_token={token}")),
                false,
            ),
            (
                cluster.url(&label, &format!("/page?%61rvados_api_token={token}")),
                false,
            ),
            (cluster.url(&label, "/page?x=1"), true),
            ("https://workbench.test/processes".to_owned(), true),
        ] {
            let more = format!("{cookie}Referer: {address}\r\n");
            let url = cluster.url(&label, "/style.css");
            assert_eq!(
                alice
                    .send("GET", &url, From::Fetch, &more, b"")
                    .await
                    .status(),
                200
            );
            assert_eq!(
                cluster.app.last().header("referer"),
                passes.then(|| address.clone()),
                "{address}"
            );
        }
    }
    // A frame of the same origin is a page too; one of a foreign page could not come back.
    let url = cluster.url(
        format!("{}-8080", container.uuid),
        &format!("/x?api_token={token}"),
    );
    assert_eq!(
        cluster
            .visitor()
            .send("GET", &url, From::Frame, "", b"")
            .await
            .status(),
        303
    );
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_cookie_that_a_neighbour_planted_locks_nobody_out() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-8080", container.uuid), "/x");
    let cookies = |all: &[&str]| {
        let all: Vec<_> = all
            .iter()
            .map(|token| format!("arvados_api_token={token}"))
            .collect();
        format!("Cookie: {}\r\n", all.join("; "))
    };
    let (alice, bob) = (
        cluster.alice.token_v2.as_str(),
        cluster.bob.token_v2.as_str(),
    );
    // Whose it is cannot be told from two that both hold; the person may still sign in.
    for planted in [
        cookies(&[bob]),
        cookies(&[bob, alice]),
        cookies(&[alice, bob]),
    ] {
        assert_eq!(
            cluster
                .visitor()
                .send("GET", &url, From::Navigation, &planted, b"")
                .await
                .status(),
            302
        );
    }
    assert_eq!(
        cluster
            .visitor()
            .send("GET", &url, From::Fetch, &cookies(&[bob, alice]), b"")
            .await
            .status(),
        401
    );
    // Two of one person are one person, and one that is none hides nobody.
    for fine in [
        cookies(&[alice, &cluster.alice.token_v1]),
        cookies(&["x", alice]),
        cookies(&[&"a".repeat(50), alice]),
    ] {
        assert_eq!(
            cluster
                .visitor()
                .send("GET", &url, From::Fetch, &fine, b"")
                .await
                .status(),
            200,
            "{fine}"
        );
    }
    assert_eq!(
        cluster
            .visitor()
            .send("GET", &url, From::Fetch, &cookies(&[bob]), b"")
            .await
            .status(),
        404
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_over_lets_nobody_in_again_while_its_session_waits_to_be_proved() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let label = format!("{}-8080", container.uuid);
    let link = cluster.url(
        &label,
        &format!("/x?api_token={}", encoded(&cluster.alice.token_v2)),
    );
    let mut alice = cluster.visitor();
    assert_eq!(alice.open(&link).await.status(), 303);
    cluster.arvados.revoke(&cluster.alice.token_v2);
    cluster.world.manual_clock.advance(Duration::from_secs(30));
    for from in [From::Navigation, From::Fetch] {
        assert_unauthorised(
            &cluster.visitor().send("GET", &link, from, "", b"").await,
            "revoked",
        );
    }
    let ended = alice
        .send("GET", &cluster.url(&label, "/x"), From::Fetch, "", b"")
        .await;
    assert_eq!(
        ended.status(),
        401,
        "and the session that stood on it is over"
    );
    assert_eq!(cluster.app.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_opened_with_a_token_in_a_header_ends_with_the_token() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let host = format!(
        "{}-8080.localhost:{}",
        container.uuid,
        cluster.world.running.address.port()
    );
    let mut raw = cluster.world.raw().await;
    let token = &cluster.alice.token_v2;
    raw.send(format!(
        "GET /sse HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    ))
    .await;
    assert_eq!(
        raw.reader
            .head()
            .await
            .expect("readable")
            .expect("a head")
            .status(),
        200
    );
    raw.reader.some().await.expect("the first event");
    cluster.world.manual_clock.advance(Duration::from_secs(31));
    cluster.arvados.revoke(token);
    let rounds = async {
        loop {
            cluster.world.manual_clock.advance(Duration::from_secs(31));
            tokio::task::yield_now().await;
        }
    };
    let cut = async {
        tokio::select! {
            rest = raw.reader.rest() => drop(rest),
            () = rounds => {}
        }
    };
    tokio::time::timeout(PATIENCE, cut).await.expect("cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_tokens_costs_a_bounded_number_of_calls() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-8080", container.uuid), "/x");
    let mut refused = 0;
    for n in 0..300 {
        let more = format!("Authorization: Bearer v2/zzzzz-gj3su-{n:015}/secret\r\n");
        match cluster
            .visitor()
            .send("GET", &url, From::Program, &more, b"")
            .await
            .status()
        {
            401 => refused += 1,
            status => assert_eq!(status, 503),
        }
    }
    assert!(refused >= 30, "{refused}");
    assert!(cluster.arvados.calls_to("/arvados/v1/users/current") <= 40);
    cluster.world.manual_clock.advance(Duration::from_secs(60));
    assert_eq!(
        cluster
            .ask("GET", &url, Some(&cluster.alice))
            .await
            .status(),
        200
    );
    // What cannot be a token is not even asked about.
    let before = cluster.arvados.calls_to("/arvados/v1/users/current");
    let nonsense = cluster.url(format!("{}-8080", container.uuid), "/x?api_token=x");
    for _ in 0..100 {
        assert_eq!(cluster.visitor().open(&nonsense).await.status(), 401);
    }
    assert_eq!(
        cluster.arvados.calls_to("/arvados/v1/users/current"),
        before
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_api_is_away_no_page_shows_a_token() {
    let cluster = Cluster::start().await;
    cluster.arvados.fail(Some(Fault::Status(503)));
    let token = encoded(&cluster.alice.token_v2);
    let url = cluster.url(
        "zzzzz-dz642-000000000000000-8080",
        &format!("/x?api_token={token}&b=1"),
    );
    let page = cluster.visitor().open(&url).await;
    assert_eq!(page.status(), 503);
    assert!(
        !page.text().contains(&cluster.alice.token_v1) && page.text().contains("/x?b=1"),
        "{}",
        page.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_on_the_site_ends_what_the_person_s_tokens_have_begun() {
    let cluster = Cluster::with("accept_sign_in = true\n").await;
    let container = cluster.container(&[&cluster.alice]).await;
    let label = format!("{}-8080", container.uuid);
    let mut alice = cluster.visitor();
    alice
        .open(&cluster.url(
            &label,
            &format!("/x?api_token={}", encoded(&cluster.alice.token_v2)),
        ))
        .await;
    let page = cluster.url(&label, "/x");
    assert_eq!(
        alice
            .send("GET", &page, From::Fetch, "", b"")
            .await
            .status(),
        200
    );
    // The same person signs in on the site as well, and out again.
    alice.follow(&cluster.url("usr", "/x"), "alice").await;
    alice.sign_out(&cluster.world).await;
    assert_eq!(
        alice
            .send("GET", &page, From::Fetch, "", b"")
            .await
            .status(),
        401
    );
}
