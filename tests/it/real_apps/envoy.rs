//! A real Envoy in front of an app, configured as docs/forward-auth.md says: it asks the gateway
//! before it forwards a request.

use std::{net::SocketAddr, process::Command};

use super::{Server, installed, server};
use crate::support::{
    browser::{Browser, From},
    forward_auth::{documented, sign_in_at, trust_this_machine},
    raw::Raw,
    world::{World, free_port},
};

/// Envoy at the host of the app `grp`.
struct Envoy {
    address: SocketAddr,
    host: String,
    _server: Server,
    _folder: tempfile::TempDir,
}

impl Envoy {
    async fn before(world: &World) -> Envoy {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
        let host = format!("grp.localhost:{}", world.running.address.port());
        let listen = format!("address: 127.0.0.1, port_value: {port}}}");
        let place =
            |address: SocketAddr| format!("address: 127.0.0.1, port_value: {}}}", address.port());
        let gateway = place(world.running.address);
        let app = place(world.backend("grp").address());
        let changes = [
            ("address: 0.0.0.0, port_value: 8000}", listen.as_str()),
            ("mlflow.apps.example.com", host.as_str()),
            ("address: 127.0.0.1, port_value: 8080}", gateway.as_str()),
            ("address: 127.0.0.1, port_value: 5000}", app.as_str()),
        ];
        let file = folder.path().join("envoy.yaml");
        std::fs::write(&file, documented("Envoy", &changes)).expect("written");
        let mut command = Command::new(installed().join("envoy/envoy"));
        command.arg("-c").arg(file).args([
            "--concurrency",
            "1",
            "--use-dynamic-base-id",
            "--log-level",
            "warning",
        ]);
        Envoy {
            address: ([127, 0, 0, 1], port).into(),
            host,
            _server: server(command, port).await,
            _folder: folder,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_forwards_what_the_gateway_permits_and_nothing_else() {
    let world = World::with("", trust_this_machine).await.ready().await;
    let envoy = Envoy::before(&world).await;
    let app = world.backend("grp");
    let mut alice = Browser::new(envoy.address, &envoy.host);
    assert_eq!(alice.fetch("/x").await.status(), 401);
    // Envoy passes the refusal on, with the address to sign in.
    let page = alice.open("/a%2Fb?x=1&y=%26").await;
    assert_eq!(page.status(), 401, "{page:?}");
    let location = page.header("location").expect("the site");
    let link = location.replace('&', "&#38;");
    assert!(page.text().contains(&link), "{}", page.text());
    let (entered, mut at_site) = sign_in_at(&world, &mut alice, &location, "alice").await;
    let wanted = format!("http://{}/a%2Fb?x=1&y=%26", envoy.host);
    assert_eq!(entered.header("location"), Some(wanted));
    assert_eq!(app.count(), 0);
    let forged = "X-Auth-Request-User: root\r\nX-Auth-Request-Groups-Truncated: true\r\n\
                  X-Forwarded-Uri: /y\r\nX-Forwarded-Host: pub.localhost\r\n\
                  X-Original-URL: /y\r\nX-HTTP-Method-Override: PUT\r\n";
    for (method, body) in [("GET", &b""[..]), ("POST", b"body")] {
        let target = "/a%2Fb/echo?x=1&y=%26";
        let answer = alice.send(method, target, From::Fetch, forged, body).await;
        assert_eq!(
            (answer.status(), answer.body.as_slice()),
            (200, body),
            "{method}"
        );
        let seen = app.last();
        assert_eq!(seen.target(), target);
        assert_eq!(seen.all("x-auth-request-user"), ["alice"]);
        assert_eq!(seen.all("x-auth-request-groups"), ["phusers,friends"]);
        for name in [
            "x-auth-request-groups-truncated",
            "x-original-url",
            "x-http-method-override",
        ] {
            assert_eq!(seen.header(name), None, "{name}");
        }
    }
    let reached = app.count();
    let foreign = alice.send("GET", "/x", From::ForeignFetch, "", b"").await;
    assert_eq!(foreign.status(), 401, "another site's page");
    // Envoy refuses names with underscores, and Ludgate the other spellings.
    for (name, status) in [("X_Auth_Request_User", 400), ("X.Auth.Request.User", 403)] {
        let forged = format!("{name}: root\r\n");
        let answer = alice.send("GET", "/x", From::Fetch, &forged, b"").await;
        assert_eq!(answer.status(), status, "{name}");
    }
    let cookies = alice.cookie_line("/");
    for (lines, expected) in [
        ("Content-Type: application/grpc\r\n", 401),
        ("Authorization: Basic YTpi\r\n", 401),
    ] {
        let request = format!(
            "GET /x HTTP/1.1\r\nHost: {}\r\n{lines}Connection: close\r\n\r\n",
            envoy.host
        );
        let answer = Raw::exchange(envoy.address, request).await;
        let status = answer.status();
        // Envoy turns a refusal of a call into a gRPC status.
        let is_call = answer.header("grpc-status").is_some_and(|code| code != "0");
        assert!(status == expected || is_call, "{lines}: {answer:?}");
    }
    let climbing = format!(
        "GET /a/%252e%252e/%252e%252e/x HTTP/1.1\r\nHost: {}\r\n{cookies}Connection: close\r\n\r\n",
        envoy.host
    );
    assert_eq!(Raw::exchange(envoy.address, climbing).await.status(), 403);
    assert_eq!(at_site.sign_out().await.status(), 200);
    assert_eq!(alice.fetch("/x").await.status(), 401, "signed out");
    assert_eq!(app.count(), reached);
}
