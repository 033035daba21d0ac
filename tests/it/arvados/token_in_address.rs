//! Arvados tokens in an address (docs/behaviour.md#arvados-tokens): they leave it before anything
//! else sees it.

use super::tokens::{HANDSHAKE, assert_unauthorised};
use crate::support::{
    browser::From,
    cluster::{Cluster, encoded},
};

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
async fn a_valid_token_without_access_makes_no_session() {
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
async fn a_link_with_a_token_does_not_replace_another_user_s_live_session() {
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
