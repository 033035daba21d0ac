//! Routes that a JupyterHub adds by the API of its proxy (docs/jupyterhub-proxy.md).

use std::fs;

use chrono::DateTime;
use tempfile::TempDir;

use crate::{
    forwarding::upstreams::handshake,
    support::{
        backend::Backend,
        message::Message,
        raw::Raw,
        until::{in_time, until},
        world::World,
    },
};

const TOKEN: &str = "hub-proxy-token-CANARY";
/// A text frame and a ping of a client, with a key of zeros.
const TEXT: [u8; 7] = [0x81, 0x81, 0, 0, 0, 0, b'x'];
const PING: [u8; 6] = [0x89, 0x80, 0, 0, 0, 0];

/// A gateway, a hub and the server of one person.
struct Hub {
    world: World,
    hub: Backend,
    alice: Backend,
    _folder: TempDir,
}

impl Hub {
    async fn with_access(access: &str) -> Hub {
        let folder = tempfile::tempdir().expect("a folder");
        let token = folder.path().join("token");
        fs::write(&token, TOKEN).expect("written");
        let extra = format!(
            "[hub_proxy]\naddress = \"127.0.0.1:0\"\ntoken_file = \"{}\"\naccess = \"{access}\"\n",
            token.display()
        );
        Hub {
            world: World::with(&extra, |_| {}).await,
            hub: Backend::start("hub").await,
            alice: Backend::start("alice").await,
            _folder: folder,
        }
    }

    /// A call of the API.
    async fn call(&self, method: &str, path: &str, body: &str) -> Message {
        let address = self.world.running.hub_proxy.expect("a listener");
        let request = format!(
            "{method} /api/routes{path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: token {TOKEN}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        Raw::exchange(address, request).await
    }

    async fn add(&self, path: &str, server: &Backend) {
        let body = format!("{{\"target\":\"http://{}\"}}", server.address());
        let answer = self.call("POST", path, &body).await;
        assert_eq!(answer.status(), 201, "{}", answer.text());
    }

    async fn add_both(&self) {
        self.add("/nb", &self.hub).await;
        self.add("/nb/user/alice", &self.alice).await;
    }

    /// The answer to a request of a browser that is not signed in.
    async fn fetch(&self, target: &str) -> Message {
        self.world.browser().fetch(target).await
    }

    /// When alice's server was used last, in seconds since 1970.
    async fn last_activity(&self) -> i64 {
        let route = self.call("GET", "/nb/user/alice", "").await.json();
        let text = route["last_activity"].as_str().expect("a text");
        let time = DateTime::parse_from_rfc3339(text).expect("a time");
        time.timestamp()
    }

    fn advance(&self, seconds: u64) {
        let by = std::time::Duration::from_secs(seconds);
        self.world.manual_clock.advance(by);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_to_the_server_of_the_longest_route_with_their_whole_path() {
    let hub = Hub::with_access("public").await;
    // A hub that has not added its routes yet is not a hub without this server.
    assert_eq!(hub.fetch("/nb/hub/home").await.status(), 503);
    hub.add_both().await;
    for (target, wanted) in [
        ("/nb", "hub /nb"),
        ("/nb/", "hub /nb/"),
        ("/nb/hub/home?next=%2Fnb", "hub /nb/hub/home"),
        ("/nb/user/bob/lab", "hub /nb/user/bob/lab"),
        ("/nb/user/alice", "alice /nb/user/alice"),
        ("/nb/user/alice/lab", "alice /nb/user/alice/lab"),
        ("/nb/user/%61lice/a%2Fb", "alice /nb/user/%61lice/a%2Fb"),
        ("/nb/user%2Falice/lab", "hub /nb/user%2Falice/lab"),
    ] {
        let answer = hub.fetch(target).await;
        assert_eq!((answer.status(), answer.text()), (200, wanted.to_owned()));
    }
    for target in [
        "/nb/user/alice/../bob/lab",
        "/nb/user/alice/%2e%2e/bob/lab",
        "/nb/../apps/pub/",
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n");
        assert_eq!(hub.world.exchange(&request).await.status(), 400, "{target}");
    }
    let forwarded = hub.alice.last();
    assert_eq!(
        forwarded.header("x-forwarded-prefix").as_deref(),
        Some("/nb/user/alice")
    );
    assert_eq!(hub.call("DELETE", "/nb/user/alice", "").await.status(), 204);
    let answer = hub.fetch("/nb/user/alice/lab").await;
    assert_eq!(answer.text(), "hub /nb/user/alice/lab");
    assert_eq!(hub.call("DELETE", "/nb", "").await.status(), 204);
    assert_eq!(hub.fetch("/nb/hub/home").await.status(), 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_activity_is_that_of_successful_requests() {
    let hub = Hub::with_access("public").await;
    hub.add_both().await;
    let begin = hub.last_activity().await;
    hub.advance(60);
    assert_eq!(hub.fetch("/nb/user/alice/lab").await.status(), 200);
    assert_eq!(hub.last_activity().await, begin + 60);
    hub.advance(60);
    // What the hub and other servers answer is no activity of this one.
    assert_eq!(hub.fetch("/nb/hub/home").await.status(), 200);
    let redirect = "HTTP/1.1 302 Found\r\nLocation: /nb/hub/login\r\nContent-Length: 0\r\n\r\n";
    hub.alice.script(redirect.as_bytes().to_vec());
    assert_eq!(hub.fetch("/nb/user/alice/lab").await.status(), 302);
    assert_eq!(hub.last_activity().await, begin + 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_a_websocket_is_activity_and_the_socket_ends_with_the_route() {
    let hub = Hub::with_access("public").await;
    hub.add_both().await;
    let begin = hub.last_activity().await;
    let mut socket = hub.world.raw().await;
    socket
        .send(handshake(&hub.world, "/nb/user/alice/ws"))
        .await;
    assert_eq!(socket.answer().await.expect("an answer").status(), 101);
    for (frame, after) in [(&TEXT[..], 60), (&PING[..], 60), (&TEXT[..], 180)] {
        hub.advance(60);
        socket.send(frame).await;
        let mut echo = Vec::new();
        while echo.len() < frame.len() {
            echo.extend(
                in_time("an echo", socket.reader.some())
                    .await
                    .expect("bytes"),
            );
        }
        assert_eq!(echo, frame);
        assert_eq!(hub.last_activity().await, begin + after);
    }
    // The same server again changes nothing; another one ends what is open.
    hub.add("/nb/user/alice", &hub.alice).await;
    hub.add("/nb/user/alice", &hub.hub).await;
    let close = in_time("a close", socket.reader.some()).await;
    assert_eq!(close.expect("bytes").first(), Some(&0x88));
    drop(socket);
    until("the tunnel is closed", || {
        hub.world.running.internals().requests_in_flight() == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_access_rule_of_the_prefix_is_that_of_every_route() {
    let hub = Hub::with_access("group:phusers").await;
    let hub = Hub {
        world: hub.world.ready().await,
        ..hub
    };
    hub.add_both().await;
    assert_eq!(hub.fetch("/nb/user/alice/lab").await.status(), 401);
    let mut bob = hub.world.signed_in("bob").await;
    assert_eq!(bob.fetch("/nb/hub/home").await.status(), 403);
    let mut alice = hub.world.signed_in("alice").await;
    for target in ["/nb/hub/home", "/nb/user/alice/lab", "/nb/hub/home"] {
        assert_eq!(alice.fetch(target).await.status(), 200, "{target}");
    }
    // The hub identifies people itself.
    for server in [&hub.hub, &hub.alice] {
        let seen = server.last();
        assert_eq!(seen.header("x-forwarded-user"), None);
        let cookies = seen.header("cookie").unwrap_or_default();
        assert!(!cookies.contains("ludgate"), "{cookies}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_route_leads_to_a_listener_of_the_gateway() {
    let hub = Hub::with_access("public").await;
    let running = &hub.world.running;
    let api = running.hub_proxy.expect("a listener");
    for port in [running.admin.port(), api.port()] {
        for host in ["localhost", "127.0.0.1"] {
            // The system has chosen the ports, so the settings do not know them.
            let body = format!("{{\"target\":\"http://{host}:{port}\"}}");
            let added = hub.call("POST", "/nb/user/mallory", &body).await;
            assert_eq!(added.status(), 201, "{}", added.text());
            let answer = hub.fetch("/nb/user/mallory/x").await;
            assert_eq!(answer.status(), 502, "{host}:{port} {}", answer.text());
        }
    }
    // The log names the cause, which is not that of the server.
    let body = format!("{{\"target\":\"http://{}\"}}", running.admin);
    let added = hub.call("POST", "/nb/user/trudy", &body).await;
    assert_eq!(added.status(), 201, "{}", added.text());
    assert_eq!(hub.fetch("/nb/user/trudy/x").await.status(), 502);
    let line = hub.world.log.line_with("/nb/user/trudy/x").await;
    let cause = format!("a route of a hub must not lead to {}", running.admin);
    assert_eq!(line["error"], cause, "{line}");
    let verbose = hub.world.admin("/readyz?verbose", "").await.text();
    let failing = "upstreams: degraded: 2 routes of the hub fail";
    assert!(verbose.contains(failing), "{verbose}");
    hub.add_both().await;
    assert_eq!(hub.fetch("/nb/user/alice/lab").await.status(), 200);
}
