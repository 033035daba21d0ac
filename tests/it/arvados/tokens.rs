//! Arvados tokens in headers and cookies: verified, bounded, never shown.

use crate::support::{
    arvados::Fault,
    browser::From,
    cluster::{Cluster, encoded},
    message::{Message, PATIENCE},
};
use std::time::Duration;

pub(super) const HANDSHAKE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

pub(super) fn assert_unauthorised(answer: &Message, why: &str) {
    assert_eq!(answer.status(), 401, "{why}: {answer:?}");
    assert!(answer.all("set-cookie").is_empty(), "{why}: no cookie");
    assert!(answer.header("location").is_none(), "{why}: no way round");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_is_no_arvados_token_is_the_app_s_own() {
    let (cluster, url) = Cluster::with_private_url().await;
    let mut alice = cluster.visitor();
    let cookie = format!("Cookie: arvados_api_token={}\r\n", cluster.alice.token_v2);
    alice.get(&url, From::Fetch, &cookie).await;
    let old_looking = format!("Bearer {}", "0123456789abcdef".repeat(3));
    for own in [
        "Basic YTpi",
        "token 0123456789abcdef",
        "Bearer short",
        old_looking.as_str(),
    ] {
        let more = format!("Authorization: {own}\r\n");
        assert_eq!(
            alice.get(&url, From::Fetch, &more).await.status(),
            200,
            "{own}"
        );
        assert_eq!(
            cluster.app.last().header("authorization").as_deref(),
            Some(own)
        );
        assert_eq!(
            cluster.get(&url, From::Program, &more).await.status(),
            401,
            "{own}"
        );
    }
    // A header with an Arvados token never reaches an app, also when a session gives access.
    let more = format!("Authorization: Bearer {}\r\n", cluster.bob.token_v2);
    assert_eq!(alice.get(&url, From::Fetch, &more).await.status(), 200);
    assert!(cluster.app.last().header("authorization").is_none());
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_a_header_is_verified_again_within_thirty_seconds() {
    let (cluster, url) = Cluster::with_private_url().await;
    for _ in 0..10 {
        assert_eq!(
            cluster
                .request("GET", &url, Some(&cluster.alice))
                .await
                .status(),
            200
        );
    }
    assert_eq!(cluster.arvados.calls_to("/arvados/v1/users/current"), 1);
    cluster.arvados.revoke(&cluster.alice.token_v2);
    assert_eq!(
        cluster
            .request("GET", &url, Some(&cluster.alice))
            .await
            .status(),
        200
    );
    cluster.world.manual_clock.advance(Duration::from_secs(30));
    assert_eq!(
        cluster
            .request("GET", &url, Some(&cluster.alice))
            .await
            .status(),
        401
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_cookie_planted_by_a_neighbour_does_not_lock_users_out() {
    let (cluster, url) = Cluster::with_private_url().await;
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
            cluster.get(&url, From::Navigation, &planted).await.status(),
            302
        );
    }
    assert_eq!(
        cluster
            .get(&url, From::Fetch, &cookies(&[bob, alice]))
            .await
            .status(),
        401
    );
    // Two tokens of one user count as one; a cookie that is no token is ignored.
    for fine in [
        cookies(&[alice, &cluster.alice.token_v1]),
        cookies(&["x", alice]),
        cookies(&[&"a".repeat(50), alice]),
    ] {
        assert_eq!(
            cluster.get(&url, From::Fetch, &fine).await.status(),
            200,
            "{fine}"
        );
    }
    assert_eq!(
        cluster
            .get(&url, From::Fetch, &cookies(&[bob]))
            .await
            .status(),
        404
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_opened_with_a_token_in_a_header_ends_with_the_token() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let host = cluster.authority(format!("{}-8080", container.uuid));
    let mut raw = cluster.world.raw().await;
    let token = &cluster.alice.token_v2;
    raw.send(format!(
        "GET /sse HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    ))
    .await;
    assert_eq!(raw.head().await.status(), 200);
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
    let (cluster, url) = Cluster::with_private_url().await;
    let mut refused = 0;
    for n in 0..300 {
        let more = format!("Authorization: Bearer v2/zzzzz-gj3su-{n:015}/secret\r\n");
        match cluster.get(&url, From::Program, &more).await.status() {
            401 => refused += 1,
            status => assert_eq!(status, 503),
        }
    }
    assert!(refused >= 30, "{refused}");
    assert!(cluster.arvados.calls_to("/arvados/v1/users/current") <= 40);
    cluster.world.manual_clock.advance(Duration::from_secs(60));
    assert_eq!(
        cluster
            .request("GET", &url, Some(&cluster.alice))
            .await
            .status(),
        200
    );
    // What cannot be a token is not even asked about.
    let before = cluster.arvados.calls_to("/arvados/v1/users/current");
    let nonsense = format!("{url}?api_token=x");
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
