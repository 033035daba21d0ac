//! Sessions that an Arvados token has begun, and when they end.

use super::tokens::{HANDSHAKE, assert_unauthorised};
use crate::support::{
    arvados::Fault,
    browser::From,
    cluster::{Cluster, encoded},
    until::{until, until_async},
};
use base64::{Engine, engine::general_purpose::URL_SAFE};
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_token_makes_a_session_and_a_header_never_does() {
    let (cluster, url) = Cluster::with_private_url().await;
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
        assert_eq!(alice.fetch(&url).await.status(), 200, "the session alone");
        assert!(cluster.app.last().header("cookie").is_none());
        // A cookie, so only where our own origin led the browser.
        let stranger = cluster.get(&url, From::ForeignFetch, &cookie).await;
        assert_eq!(stranger.status(), 401);
        let more = format!("{cookie}{HANDSHAKE}Origin: http://evil.test\r\n");
        assert_eq!(cluster.get(&url, From::Program, &more).await.status(), 403);
    }
    for header in [
        format!("Bearer {}", cluster.alice.token_v2),
        format!("OAuth2 {}", cluster.alice.token_v1),
    ] {
        let more = format!("Authorization: {header}\r\n");
        let answer = cluster.get(&url, From::Program, &more).await;
        assert_eq!((answer.status(), answer.all("set-cookie").len()), (200, 0));
        assert!(
            cluster.app.last().header("authorization").is_none(),
            "removed"
        );
    }
    // A revoked token in a cookie does not keep a browser from signing in.
    cluster.arvados.revoke(&cluster.bob.token_v2);
    let cookie = format!("Cookie: arvados_api_token={}\r\n", cluster.bob.token_v2);
    assert_eq!(
        cluster.get(&url, From::Navigation, &cookie).await.status(),
        302
    );
    assert_eq!(cluster.get(&url, From::Fetch, &cookie).await.status(), 401);
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_token_ends_soon_after_the_token_and_survives_an_api_that_is_away() {
    let (cluster, url) = Cluster::with_private_url().await;
    let mut alice = cluster.visitor();
    let cookie = format!("Cookie: arvados_api_token={}\r\n", cluster.alice.token_v2);
    assert_eq!(alice.get(&url, From::Fetch, &cookie).await.status(), 200);
    let verified = || cluster.arvados.calls_to("/arvados/v1/users/current");
    let until_verified = async |times: usize| {
        until("the token is verified again", || verified() >= times).await;
    };
    // Every five minutes, in the background, once however many ask.
    cluster.world.manual_clock.advance(Duration::from_secs(300));
    for _ in 0..5 {
        assert_eq!(alice.fetch(&url).await.status(), 200);
    }
    until_verified(2).await;
    assert_eq!(verified(), 2);
    // The API does not answer: the session goes on.
    cluster.arvados.fail(Some(Fault::Status(503)));
    cluster.world.manual_clock.advance(Duration::from_secs(300));
    assert_eq!(alice.fetch(&url).await.status(), 200);
    until_verified(3).await;
    assert_eq!(alice.fetch(&url).await.status(), 200);
    // The token is over: so is the session.
    cluster.arvados.fail(None);
    cluster.arvados.revoke(&cluster.alice.token_v2);
    cluster.world.manual_clock.advance(Duration::from_secs(300));
    until_async("the session ends", async || {
        alice.fetch(&url).await.status() == 401
    })
    .await;
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
        .get(&cluster.url(&host, "/x"), From::Fetch, &cookie)
        .await;
    let session = alice.at(&cluster.authority(&host)).cookie_line("/");
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
async fn an_expired_token_is_refused_while_its_session_waits_for_a_recheck() {
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
        assert_unauthorised(&cluster.get(&link, from, "").await, "revoked");
    }
    let ended = alice.fetch(&cluster.url(&label, "/x")).await;
    assert_eq!(
        ended.status(),
        401,
        "and the session that stood on it is over"
    );
    assert_eq!(cluster.app.count(), 0);
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
    assert_eq!(alice.fetch(&page).await.status(), 200);
    // The same person signs in on the site as well, and out again.
    alice.follow(&cluster.url("usr", "/x"), "alice").await;
    alice.sign_out(&cluster.world).await;
    assert_eq!(alice.fetch(&page).await.status(), 401);
}
