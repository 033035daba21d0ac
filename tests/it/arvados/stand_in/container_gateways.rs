//! The gateway beside a container: proofs, checks, what passes through, and how it ends.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::clients::{Side, get, running};
use crate::support::{
    arvados::Lie,
    backend::{accept_of, refused_port},
    until::in_time,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_of_a_container_relays_to_a_port_after_a_valid_proof() {
    let (arvados, _, container, app) = running().await;
    let mut side = Side::open(&arvados, &container.uuid).await;
    let headers = format!(
        "{}X-B: 1\r\nx-a: 2\r\nX-B: 3\r\nContent-Length: 5\r\n",
        side.headers(80)
    );
    let answer = side
        .request("PATCH /echo?a=%2F&b=[]", &headers, "hello")
        .await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"));
    assert_eq!(
        answer.all("x-arvados-authorization-response"),
        [side.proof.clone()]
    );
    let seen = String::from_utf8(app.last().raw).expect("text");
    let expected = "PATCH /echo?a=%2F&b=[] HTTP/1.1\r\nHost: app.test\r\nX-B: 1\r\nX-B: 3\r\nx-a: 2\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(
        seen, expected,
        "nothing but the gateway's own headers is gone"
    );
    let reason = side.request("GET /reason", &side.headers(80), "").await;
    assert_eq!(
        (reason.start.as_str(), reason.all("x-a").len()),
        ("HTTP/1.1 299 Quite All Right", 2)
    );
    assert_eq!(
        (app.count(), arvados.handshakes(&container.uuid)),
        (2, 1),
        "one connection for both"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_of_a_container_refuses_who_is_wrong_about_it() {
    let (arvados, alice, container, app) = running().await;
    let gone = refused_port().await;
    let other = arvados
        .add_container(&[&alice.uuid], json!({}), &[(81, gone)])
        .await;
    let mut side = Side::open(&arvados, &container.uuid).await;
    let good = side.headers(80);
    let made_up = good.replace(&side.authorization, &"0".repeat(64));
    let misdirected = good.replace(&container.uuid, &other.uuid);
    let nowhere = good.replace("X-Arvados-Container-Target-Port: 80\r\n", "");
    for (headers, status, proves) in [
        (String::new(), 502, false),
        (misdirected, 502, false),
        (made_up, 401, false),
        (nowhere, 404, true),
        (side.headers(8080), 502, true),
    ] {
        let answer = side.request("GET /", &headers, "").await;
        assert_eq!(answer.status(), status, "{headers}");
        assert_eq!(
            answer.header("x-arvados-authorization-response").is_some(),
            proves,
            "{headers}"
        );
    }
    assert_eq!(app.count(), 0);
    let mut another = Side::open(&arvados, &other.uuid).await;
    assert_ne!(
        another.line.certificate, side.line.certificate,
        "each shows its own"
    );
    let headers = another.headers(81);
    assert_eq!(
        another.request("GET /", &headers, "").await.status(),
        502,
        "the port is closed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_tunnels_pass_unbuffered_and_end_with_the_container() {
    let (arvados, _, container, app) = running().await;
    let mut events = Side::open(&arvados, &container.uuid).await;
    let headers = events.headers(80);
    events
        .line
        .send(format!(
            "GET /sse HTTP/1.1\r\nHost: app.test\r\n{headers}\r\n"
        ))
        .await;
    let head = events
        .line
        .reader
        .head()
        .await
        .expect("readable")
        .expect("a head");
    assert_eq!(
        head.header("content-type").as_deref(),
        Some("text/event-stream")
    );
    let first = events.line.reader.some().await.expect("bytes");
    assert!(
        String::from_utf8_lossy(&first).contains("data: 1"),
        "before the stream ends"
    );
    let mut tunnel = Side::open(&arvados, &container.uuid).await;
    let key = "dGhlIHNhbXBsZSBub25jZQ==";
    let upgrade = format!(
        "{}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n",
        tunnel.headers(80)
    );
    let head = tunnel.request("GET /ws", &upgrade, "").await;
    assert_eq!(
        (head.status(), head.header("sec-websocket-accept")),
        (101, Some(accept_of(key)))
    );
    assert_eq!(
        head.header("x-arvados-authorization-response"),
        Some(tunnel.proof.clone()),
        "on the 101 too"
    );
    assert_eq!(app.last().header("upgrade").as_deref(), Some("websocket"));
    tunnel.line.send(b"\x81\x85\x01\x02\x03\x04ifmmn").await;
    assert_eq!(
        tunnel.line.reader.some().await.expect("bytes"),
        b"\x81\x85\x01\x02\x03\x04ifmmn"
    );
    arvados.set_state(&container.uuid, "Cancelled");
    let ends = async {
        let _ = (
            tunnel.line.reader.rest().await,
            events.line.reader.rest().await,
        );
    };
    in_time("both are cut", ends).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_has_a_gateway_while_it_runs() {
    let (arvados, alice, container, _) = running().await;
    let path = format!("containers/{}", container.uuid);
    let record = || async { get(&arvados, &path, &alice.token_v2).await.json() };
    let before = record().await;
    let address: SocketAddr = before["gateway_address"]
        .as_str()
        .expect("a text")
        .parse()
        .expect("an address");
    arvados.set_state(&container.uuid, "Complete");
    let ended = record().await;
    assert_eq!(
        (&ended["gateway_address"], &ended["started_at"]),
        (&json!(""), &before["started_at"])
    );
    assert!(ended["finished_at"].is_string() && ended["etag"] != before["etag"]);
    let request = format!("container_requests/{}", container.request_uuids[0]);
    assert_eq!(
        get(&arvados, &request, &alice.token_v2).await.json()["state"],
        "Final"
    );
    let closed = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    in_time("the port is closed", closed).await;
    arvados.set_state(&container.uuid, "Queued");
    assert_eq!(
        (&record().await["started_at"], &record().await["state"]),
        (&Value::Null, &json!("Queued"))
    );
    arvados.set_state(&container.uuid, "Running");
    let mut side = Side::open(&arvados, &container.uuid).await;
    let headers = side.headers(80);
    assert_eq!(side.request("GET /", &headers, "").await.status(), 200);
    arvados.set_published(
        &container.uuid,
        json!({ "8000": { "access": "public", "label": "", "initial_path": "" } }),
    );
    assert_eq!(
        record().await["published_ports"]["8000"]["access"],
        "public"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_can_have_another_identity() {
    let (arvados, _, container, app) = running().await;
    for lie in [
        Lie::WrongProof,
        Lie::NoProof,
        Lie::EchoedProof,
        Lie::TwoProofs,
    ] {
        arvados.lie(&container.uuid, Some(lie));
        let mut side = Side::open(&arvados, &container.uuid).await;
        let headers = side.headers(80);
        let answer = side.request("GET /", &headers, "").await;
        let proofs = answer.all("x-arvados-authorization-response");
        assert_eq!(answer.status(), 200, "{lie:?}");
        assert_ne!(proofs, [side.proof.clone()], "{lie:?}");
        assert_eq!(
            proofs == [side.authorization.clone()],
            lie == Lie::EchoedProof
        );
        let count = [Lie::NoProof, Lie::WrongProof, Lie::TwoProofs]
            .iter()
            .position(|l| *l == lie);
        assert_eq!(proofs.len(), count.unwrap_or(1), "{lie:?}");
    }
    assert_eq!(app.count(), 4);
    arvados.lie(&container.uuid, Some(Lie::OtherCertificate));
    let mut stranger = Side::open(&arvados, &container.uuid).await;
    let headers = stranger.headers(80);
    let answer = stranger.request("GET /", &headers, "").await;
    assert_eq!(
        (
            answer.status(),
            answer.header("x-arvados-authorization-response")
        ),
        (401, None)
    );
    assert_eq!(app.count(), 4, "the true gateway let nothing through");
    arvados.lie(&container.uuid, None);
    let mut side = Side::open(&arvados, &container.uuid).await;
    assert_ne!(side.line.certificate, stranger.line.certificate);
    let headers = side.headers(80);
    let answer = side.request("GET /", &headers, "").await;
    assert_eq!(
        answer.header("x-arvados-authorization-response"),
        Some(side.proof.clone())
    );
}
