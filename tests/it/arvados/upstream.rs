//! Between us and the container: the proof of both sides, streams, WebSockets, connections that are
//! kept.

use std::time::Duration;

use super::tokens::HANDSHAKE;
use crate::support::{arvados::Lie, browser::From, cluster::Cluster, message::PATIENCE, raw::Raw};

/// Sends pings until the gateway closes the WebSocket. The clock is manual, so each round advances
/// it: streams are checked again only when time passes.
async fn until_closed(cluster: &Cluster, raw: &mut Raw) {
    let clock = &cluster.world.manual_clock;
    loop {
        clock.advance(Duration::from_millis(500));
        raw.send(b"\x89\x80\x01\x02\x03\x04").await;
        if raw.reader.some().await.is_ok_and(|bytes| bytes.is_empty()) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_prove_to_be_the_container_s_gateway_is_502_and_the_connection_is_dropped() {
    for lie in [
        Lie::WrongProof,
        Lie::NoProof,
        Lie::EchoedProof,
        Lie::TwoProofs,
        Lie::OtherCertificate,
    ] {
        let cluster = Cluster::start().await;
        let container = cluster.container(&[&cluster.alice]).await;
        let url = cluster.url(format!("{}-80", container.uuid), "/cookies");
        assert_eq!(cluster.request("GET", &url, None).await.status(), 200);
        cluster.arvados.lie(&container.uuid, Some(lie));
        if matches!(lie, Lie::OtherCertificate) {
            // Only new connections meet it.
            cluster.arvados.set_state(&container.uuid, "Locked");
            cluster.arvados.set_state(&container.uuid, "Running");
            cluster.world.manual_clock.advance(Duration::from_secs(61));
        }
        let before = cluster.arvados.handshakes(&container.uuid);
        for _ in 0..2 {
            let answer = cluster.request("GET", &url, None).await;
            assert_eq!(answer.status(), 502, "{lie:?}");
            assert_eq!(answer.json()["reason"], "upstream_proof");
            assert!(
                answer.all("set-cookie").is_empty(),
                "nothing of it is passed on"
            );
        }
        let socket = cluster.url(format!("{}-80", container.uuid), "/ws");
        let answer = cluster.get(&socket, From::Program, HANDSHAKE).await;
        assert_eq!(answer.status(), 502, "{lie:?}: a WebSocket too");
        assert!(
            cluster.arvados.handshakes(&container.uuid) > before + 1,
            "{lie:?}: dropped each time"
        );
        cluster.arvados.lie(&container.uuid, None);
        assert_eq!(
            cluster.request("GET", &url, None).await.status(),
            200,
            "{lie:?}: well again"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_and_no_app_sends_or_sees_the_proof() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-80", container.uuid), "/x");
    let forged = "X-Arvados-Authorization: forged\r\nX-Arvados-Container-Gateway-Uuid: zzzzz-dz642-000000000000000\r\n\
                  X-Arvados-Container-Target-Port: 22\r\nX_Arvados.Container-Target_Port: 22\r\nX-Arvados-Authorization-Response: x\r\n";
    let answer = cluster.get(&url, From::Program, forged).await;
    assert_eq!(answer.status(), 200);
    let theirs = |message: &crate::support::message::Message| {
        message.headers.iter().any(|(name, _)| {
            name.to_ascii_lowercase()
                .replace(['_', '.'], "-")
                .starts_with("x-arvados")
        })
    };
    assert!(!theirs(&answer), "{answer:?}");
    assert!(!theirs(&cluster.app.last()), "{:?}", cluster.app.last());
    // And where there is no container it reaches the app as little.
    cluster
        .get(&cluster.url("pub", "/x"), From::Program, forged)
        .await;
    assert!(!theirs(&cluster.world.backend("pub").last()));
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_as_they_are_sent_and_end_with_the_container() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let host = cluster.authority(format!("{}-8080", container.uuid));
    let mut raw = cluster.world.raw().await;
    let token = &cluster.alice.token_v2;
    raw.send(format!(
        "GET /sse HTTP/1.1\r\nHost: {host}\r\nCookie: arvados_api_token={token}\r\n\r\n"
    ))
    .await;
    assert_eq!(raw.head().await.status(), 200);
    let first = raw
        .reader
        .some()
        .await
        .expect("the first event, while the app says nothing more");
    assert!(String::from_utf8_lossy(&first).contains("data: 1"));
    cluster.arvados.set_state(&container.uuid, "Complete");
    tokio::time::timeout(PATIENCE, raw.reader.rest())
        .await
        .expect("cut")
        .ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_reach_the_container_and_end_when_their_token_or_their_port_is_no_longer_good() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let label = format!("{}-8080", container.uuid);
    let mut raw = cluster.world.raw().await;
    let (host, token) = (cluster.authority(&label), &cluster.alice.token_v2);
    raw.send(format!("GET /ws HTTP/1.1\r\nHost: {host}\r\n{HANDSHAKE}Origin: http://{host}\r\nCookie: arvados_api_token={token}\r\n\r\n")).await;
    assert_eq!(raw.head().await.status(), 101);
    raw.send(b"\x82\x84\x01\x02\x03\x04abcd").await;
    assert_eq!(
        raw.reader.some().await.expect("an echo"),
        b"\x82\x84\x01\x02\x03\x04abcd"
    );
    let mut public = cluster.world.raw().await;
    let page = cluster.authority(format!("{}-80", container.uuid));
    public
        .send(format!(
            "GET /ws HTTP/1.1\r\nHost: {page}\r\n{HANDSHAKE}\r\n"
        ))
        .await;
    assert_eq!(public.head().await.status(), 101);
    cluster.arvados.revoke(token);
    cluster.world.manual_clock.advance(Duration::from_secs(300));
    tokio::time::timeout(PATIENCE, until_closed(&cluster, &mut raw))
        .await
        .expect("cut, because the token no longer holds");
    public.send(b"\x82\x80\x01\x02\x03\x04").await;
    assert!(
        public
            .reader
            .some()
            .await
            .is_ok_and(|bytes| !bytes.is_empty()),
        "the public one goes on"
    );
    // Until the port is public no longer.
    cluster.arvados.set_published(
        &container.uuid,
        serde_json::json!({"80": {"access": "private"}}),
    );
    tokio::time::timeout(PATIENCE, until_closed(&cluster, &mut public))
        .await
        .expect("cut, because the port is private now");
}
