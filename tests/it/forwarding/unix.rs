//! Apps at a unix socket (docs/behaviour.md#forwarding): no listener, a new listener, a full accept
//! queue.

use std::{os::unix::net::UnixListener as StdListener, process::Command, time::Duration};

use ludgate::model::secret::Secret;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixListener;

use crate::{
    forwarding::upstreams::handshake,
    support::{
        message::PATIENCE,
        process::program,
        raw::Raw,
        unix_app::{Sockets, accepting},
        world::World,
    },
};

fn app(id: &str, upstream: &str) -> String {
    format!("[[apps]]\nid = \"{id}\"\naccess = \"public\"\nupstream = \"{upstream}\"\n")
}

async fn get(raw: &mut Raw, world: &World, target: &str) -> u16 {
    raw.send(format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n",
        world.host
    ))
    .await;
    raw.answer().await.expect("an answer").status()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_without_a_listener_is_502() {
    let sockets = Sockets::new();
    std::fs::write(sockets.path("file"), "no socket").expect("written");
    std::fs::create_dir(sockets.path("folder")).expect("made");
    drop(StdListener::bind(sockets.path("left")).expect("a socket"));
    let names = ["missing", "file", "folder", "left"];
    let toml: String = names
        .map(|name| app(name, &sockets.upstream(name)))
        .concat();
    let world = World::with(&toml, |_| {}).await;
    for name in names {
        for (method, more) in [("GET", ""), ("POST", "Content-Length: 0\r\n")] {
            let request = format!("{method} /apps/{name}/x HTTP/1.1\r\nHost: HOST\r\n{more}\r\n");
            let answer = world.exchange(&request).await;
            assert_eq!(answer.status(), 502, "{method} {name}");
            assert_eq!(
                answer.json()["reason"],
                "upstream_refused",
                "{method} {name}"
            );
        }
        let mut raw = world.raw().await;
        raw.send(handshake(&world, &format!("/apps/{name}/ws")))
            .await;
        assert_eq!(
            raw.answer().await.expect("an answer").status(),
            502,
            "{name}: a WebSocket too"
        );
    }
    // The app starts, and is reached without a reload.
    let backend = sockets.app("missing");
    assert_eq!(
        world
            .exchange("GET /apps/missing/x HTTP/1.1\r\nHost: HOST\r\n\r\n")
            .await
            .status(),
        200
    );
    assert_eq!(backend.count(), 1);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_was_started_anew_gets_the_next_get_and_no_post_twice() {
    let sockets = Sockets::new();
    let mut backend = sockets.app("app");
    let world = World::with(&app("app", &sockets.upstream("app")), |_| {}).await;
    let post = format!(
        "POST /apps/app/pay HTTP/1.1\r\nHost: {}\r\nContent-Length: 1\r\n\r\nx",
        world.host
    );
    let mut raw = world.raw().await;
    // A POST may have been processed before its connection died, so it is not sent again.
    assert_eq!(get(&mut raw, &world, "/apps/app/warm").await, 200);
    backend.die();
    let old = backend;
    backend = sockets.app("app");
    raw.send(&post).await;
    assert_eq!(raw.answer().await.expect("an answer").status(), 502);
    assert_eq!(
        (old.last().target(), backend.count()),
        ("/apps/app/pay", 0),
        "never sent twice"
    );
    for round in 0..20 {
        // A connection is kept; then the app goes without closing it, and another one takes its
        // place.
        assert_eq!(
            get(&mut raw, &world, "/apps/app/warm").await,
            200,
            "{round}"
        );
        backend.die();
        let (old, warmed) = (backend.clone(), backend.count());
        backend = sockets.app("app");
        assert_eq!(
            get(&mut raw, &world, "/apps/app/x").await,
            200,
            "{round}: sent once more"
        );
        assert_eq!((old.count() - warmed, backend.count()), (1, 1), "{round}");
        // An app that is known to close what was kept for it is asked on a new connection.
        backend.die();
        let (old, before) = (backend.clone(), backend.count());
        backend = sockets.app("app");
        raw.send(&post).await;
        assert_eq!(
            raw.answer().await.expect("an answer").status(),
            200,
            "{round}"
        );
        assert_eq!((old.count() - before, backend.count()), (0, 1), "{round}");
    }
}

/// A socket whose queue is full: its app has stopped accepting.
fn full(sockets: &Sockets) -> (StdListener, Vec<Socket>) {
    let address = SockAddr::unix(sockets.path("full")).expect("an address");
    let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
    listener.bind(&address).expect("bound");
    listener.listen(0).expect("listening");
    let mut waiting = Vec::new();
    loop {
        let client = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        client.set_nonblocking(true).expect("a socket");
        match client.connect(&address) {
            Ok(()) => waiting.push(client),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return (listener.into(), waiting);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_whose_queue_stays_full_is_504_after_the_deadline() {
    let sockets = Sockets::new();
    let _full = full(&sockets);
    let short = Duration::from_millis(50);
    let world = World::with(&app("full", &sockets.upstream("full")), |s| {
        s.forward.connect = short
    })
    .await;
    let answer = world
        .exchange("GET /apps/full/x HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(
        (answer.status(), answer.json()["reason"].as_str()),
        (504, Some("upstream_connect_timeout"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_app_whose_queue_is_full_for_a_while_is_waited_for() {
    let sockets = Sockets::new();
    let (listener, waiting) = full(&sockets);
    let world = World::with(&app("full", &sockets.upstream("full")), |s| {
        s.forward.connect = PATIENCE
    })
    .await;
    let mut raw = world.raw().await;
    raw.send(format!(
        "POST /apps/full/echo HTTP/1.1\r\nHost: {}\r\nContent-Length: 2\r\n\r\nhi",
        world.host
    ))
    .await;
    // Nothing is counted as open while a place in the queue is waited for.
    world.until_counted("ludgate_requests_in_flight 1").await;
    assert_eq!(world.running.internals().upstream_connections(), 0);
    listener.set_nonblocking(true).expect("a socket");
    let backend = accepting("full", UnixListener::from_std(listener).expect("a socket"));
    drop(waiting);
    assert_eq!(raw.answer().await.expect("an answer").text(), "hi");
    assert_eq!(backend.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_is_kept_or_it_is_localhost() {
    let sockets = Sockets::new();
    let backend = sockets.app("app");
    let upstream = sockets.upstream("app");
    let toml = format!(
        "{}{}rewrite_host = true\n",
        app("kept", &upstream),
        app("own", &upstream)
    );
    let world = World::with(&toml, |_| {}).await;
    for (id, host) in [("kept", world.host.as_str()), ("own", "localhost")] {
        let answer = world
            .exchange(&format!("GET /apps/{id}/x HTTP/1.1\r\nHost: HOST\r\n\r\n"))
            .await;
        assert_eq!(answer.status(), 200);
        assert_eq!(backend.last().all("host"), [host], "{id}");
        assert_eq!(
            backend.last().all("x-forwarded-host"),
            [world.host.as_str()],
            "{id}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn published_ports_have_sockets_of_their_own_and_operators_are_told_which() {
    let sockets = Sockets::new();
    let (web, docs) = (sockets.app("web"), sockets.app("docs"));
    let ports = format!(
        "published_ports = {{ \"8080\" = {{ upstream = \"{}\" }} }}\n",
        sockets.upstream("docs")
    );
    let toml = format!("{}{ports}", app("web", &sockets.upstream("web")));
    let world = World::with(&toml, |s| s.admin.token = Some(Secret::new("let-me-see"))).await;
    let port = world.running.address.port();
    for (host, target) in [("web", "/a"), ("web-8080", "/b")] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}.localhost:{port}\r\n\r\n");
        assert_eq!(
            Raw::exchange(world.running.address, request).await.status(),
            200,
            "{host}"
        );
    }
    assert_eq!((web.last().target(), docs.last().target()), ("/a", "/b"));
    let list = world
        .admin("/apps", "Authorization: Bearer let-me-see\r\n")
        .await
        .json();
    let listed = list["apps"]
        .as_array()
        .expect("apps")
        .iter()
        .find(|app| app["id"] == "web")
        .expect("web");
    assert_eq!(listed["upstream"], sockets.upstream("web"));
    assert_eq!(listed["ports"][0]["upstream"], sockets.upstream("docs"));
    let file = sockets.path("ludgate.toml");
    std::fs::write(&file, app("web", &sockets.upstream("web"))).expect("written");
    let file = file.to_str().expect("a path");
    let explained = Command::new(program())
        .args(["explain", "--config", file, "/apps/web/x"])
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(
        said.contains(&format!("web at {}\n", sockets.upstream("web"))),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_at_a_socket_gets_everything_that_is_not_ours() {
    let sockets = Sockets::new();
    let console = sockets.app("console");
    let world = World::of_site(&format!("console = \"{}\"\n", sockets.upstream("console"))).await;
    let answer = world
        .exchange("GET /some/page?x HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(
        (answer.status(), console.last().target()),
        (200, "/some/page?x")
    );
    assert_eq!(console.last().all("host"), [world.host.as_str()]);
    let mut raw = world.raw().await;
    raw.send(handshake(&world, "/live/ws")).await;
    assert_eq!(
        raw.reader
            .head()
            .await
            .expect("readable")
            .expect("a head")
            .status(),
        101
    );
    raw.send(b"\x81\x80\x01\x02\x03\x04").await;
    assert_eq!(
        raw.reader.exactly(6).await.expect("an echo"),
        b"\x81\x80\x01\x02\x03\x04"
    );
}
