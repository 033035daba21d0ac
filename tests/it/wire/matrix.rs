//! docs/behaviour.md#forwarding as one table: whatever a client speaks, and whatever an app
//! speaks over whatever it listens on, the same comes out at both ends.

use http::Request;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    forwarding::upstreams::handshake,
    support::{
        backend::Backend,
        http2::{Body, Http2, get, whole},
        http2_app::Http2App,
        message::PATIENCE,
        tls_app::Authority,
        unix_app::Sockets,
        world::World,
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Chunked,
    Events,
    WebSocket,
    /// Needs HTTP/2 on both sides.
    Grpc,
}

const FRAME: [u8; 9] = [0x82, 0x83, 1, 2, 3, 4, b'a', b'b', b'c'];
const CALL: &[u8] = &[0, 0, 0, 0, 2, b'h', b'i'];

fn in_pieces() -> Body {
    let frames = ["hel", "lo"].map(|part| Ok(Frame::data(part.into())));
    BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)))
}

/// What came out, in words that are the same for both versions.
async fn over_http1(world: &World, app: &str, kind: Kind) -> String {
    let (mut raw, host) = (world.raw().await, world.host.as_str());
    let post = format!("POST /apps/{app}/echo?a=%2F HTTP/1.1\r\nHost: {host}\r\n");
    match kind {
        Kind::Plain => {
            raw.send(format!("{post}Content-Length: 5\r\n\r\nhello"))
                .await;
            let answer = raw.answer().await.expect("an answer");
            format!(
                "{} {} {:?}",
                answer.status(),
                answer.text(),
                answer.all("content-length")
            )
        }
        Kind::Chunked => {
            raw.send(format!(
                "{post}Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
            ))
            .await;
            let echo = raw.answer().await.expect("an answer");
            raw.send(format!(
                "GET /apps/{app}/chunked HTTP/1.1\r\nHost: {host}\r\n\r\n"
            ))
            .await;
            let answer = raw.answer().await.expect("an answer");
            format!("{} {} {}", echo.text(), answer.text(), answer.truncated)
        }
        Kind::Events => {
            raw.send(format!(
                "GET /apps/{app}/sse HTTP/1.1\r\nHost: {host}\r\n\r\n"
            ))
            .await;
            let head = raw.reader.head().await.expect("readable").expect("a head");
            let first = raw
                .reader
                .some()
                .await
                .expect("an event, although the app goes on");
            let first = String::from_utf8_lossy(&first).into_owned();
            format!(
                "{:?} {}",
                head.header("content-type"),
                first.contains("data: 1")
            )
        }
        Kind::WebSocket => {
            raw.send(handshake(world, &format!("/apps/{app}/ws"))).await;
            let head = raw.reader.head().await.expect("readable").expect("a head");
            assert_eq!(head.status(), 101, "{app}");
            raw.send(FRAME).await;
            format!(
                "{:?}",
                raw.reader.exactly(FRAME.len()).await.expect("an echo")
            )
        }
        Kind::Grpc => unreachable!("no gRPC over HTTP/1.1"),
    }
}

async fn over_http2(world: &World, client: &Http2, app: &str, kind: Kind) -> String {
    let echo =
        |body| Request::post(format!("http://{}/apps/{app}/echo?a=%2F", world.host)).body(body);
    match kind {
        Kind::Plain => {
            let answer = client.whole(echo(whole("hello")).expect("a request")).await;
            let length: Vec<_> = answer.header("content-length").into_iter().collect();
            format!("{} {} {length:?}", answer.status(), answer.text())
        }
        Kind::Chunked => {
            let echo = client.whole(echo(in_pieces()).expect("a request")).await;
            let answer = get(world, &format!("/apps/{app}/chunked"))
                .body(whole(""))
                .expect("a request");
            format!(
                "{} {} false",
                echo.text(),
                client.whole(answer).await.text()
            )
        }
        Kind::Events => {
            let request = get(world, &format!("/apps/{app}/sse"))
                .body(whole(""))
                .expect("a request");
            let (head, mut body) = client.send(request).await.expect("an answer").into_parts();
            let frame = tokio::time::timeout(PATIENCE, body.frame())
                .await
                .expect("in time");
            let first = frame
                .expect("an event")
                .expect("whole")
                .into_data()
                .expect("data");
            let kind = head
                .headers
                .get("content-type")
                .map(|kind| kind.to_str().expect("a text").to_owned());
            format!("{kind:?} {}", first.starts_with(b"data: 1"))
        }
        Kind::WebSocket => {
            let request = Request::connect(format!("http://{}/apps/{app}/ws", world.host))
                .header("sec-websocket-version", "13")
                .extension(hyper::ext::Protocol::from_static("websocket"));
            let answer = client
                .send(request.body(whole("")).expect("a request"))
                .await
                .expect("an answer");
            assert_eq!(answer.status(), 200, "{app}");
            let upgraded = hyper::upgrade::on(answer).await.expect("a tunnel");
            let (mut tunnel, mut echo) = (hyper_util::rt::TokioIo::new(upgraded), FRAME);
            tunnel.write_all(&FRAME).await.expect("written");
            echo.fill(0);
            tokio::time::timeout(PATIENCE, tunnel.read_exact(&mut echo))
                .await
                .expect("in time")
                .expect("an echo");
            format!("{echo:?}")
        }
        Kind::Grpc => {
            let mut end = http::HeaderMap::new();
            end.insert("x-end", http::HeaderValue::from_static("1"));
            let frames = [Ok(Frame::data(CALL.into())), Ok(Frame::trailers(end))];
            let request = Request::post(format!("http://{}/apps/{app}/call", world.host))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(BodyExt::boxed(StreamBody::new(futures_util::stream::iter(
                    frames,
                ))));
            let answer = client.whole(request.expect("a request")).await;
            let status = answer
                .trailers
                .as_ref()
                .map(|end| end["grpc-status"].clone());
            format!("{} {:?} {status:?}", answer.status(), answer.body)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_every_app_every_kind_of_traffic() {
    let (sockets, authority) = (Sockets::new(), Authority::new());
    std::fs::write(sockets.path("ca.crt"), authority.pem()).expect("written");
    let ca = format!("ca = \"{}\"\n", sockets.path("ca.crt").display());
    let certificate = authority.sign(&["127.0.0.1"]);
    let (h1, h1_tls, h1_unix) = (
        Backend::start("h1").await,
        certificate.app("h1-tls").await,
        sockets.app("h1-unix"),
    );
    let h2c = Http2App::start().await;
    let h2_tls = Http2App::secure(certificate.server(None, rustls::ALL_VERSIONS)).await;
    let h2_unix = Http2App::at_socket(&sockets.path("h2-unix"));
    let h2 = "protocol = \"h2\"\n";
    let apps = [
        ("h1", format!("http://{}", h1.address()), String::new()),
        (
            "h1-tls",
            format!("https://{}", h1_tls.address()),
            ca.clone(),
        ),
        ("h1-unix", sockets.upstream("h1-unix"), String::new()),
        ("h2c", format!("http://{}", h2c.address()), h2.to_owned()),
        (
            "h2-tls",
            format!("https://{}", h2_tls.address()),
            format!("{h2}{ca}"),
        ),
        ("h2-unix", sockets.upstream("h2-unix"), h2.to_owned()),
    ];
    let toml: String = apps
        .iter()
        .map(|(id, upstream, more)| {
            format!(
                "[[apps]]\nid = \"{id}\"\naccess = \"public\"\nupstream = \"{upstream}\"\n{more}"
            )
        })
        .collect();
    let world = World::with_threads(1, &toml, |settings| settings.listen.h2c = true).await;
    let client = Http2::connect(world.running.address).await;
    let websocket = format!("{FRAME:?}");
    for (kind, expected) in [
        (Kind::Plain, "200 hello [\"5\"]"),
        (Kind::Chunked, "hello abcdef false"),
        (Kind::Events, "Some(\"text/event-stream\") true"),
        (Kind::WebSocket, websocket.as_str()),
        (Kind::Grpc, "200 b\"\\0\\0\\0\\0\\x02hi\" Some(\"0\")"),
    ] {
        for (app, _, _) in &apps {
            if kind != Kind::Grpc {
                assert_eq!(
                    over_http1(&world, app, kind).await,
                    expected,
                    "h1 client, {app}, {kind:?}"
                );
            }
            if kind != Kind::Grpc || app.starts_with("h2") {
                assert_eq!(
                    over_http2(&world, &client, app, kind).await,
                    expected,
                    "h2 client, {app}, {kind:?}"
                );
            }
        }
    }
    for (app, which) in [(&h2c, "h2c"), (&h2_tls, "h2-tls"), (&h2_unix, "h2-unix")] {
        assert_eq!(
            app.connections(),
            1,
            "{which}: one connection for all of it"
        );
        for (head, _, trailers) in app.seen() {
            let authority = head.uri.authority().expect("an authority").as_str();
            assert_eq!(
                (authority, head.version),
                (world.host.as_str(), http::Version::HTTP_2),
                "{which}"
            );
            assert!(
                head.uri.path().starts_with(&format!("/apps/{which}/")),
                "{which}: {head:?}"
            );
            let is_call = head.uri.path().ends_with("/call");
            assert_eq!(
                trailers.is_some_and(|end| end.contains_key("x-end")),
                is_call,
                "{which}: kept for gRPC only"
            );
            assert_eq!(head.headers.get("te").is_some(), is_call, "{which}");
            assert!(
                head.headers.contains_key("x-forwarded-for") && head.headers.contains_key("via"),
                "{which}"
            );
        }
    }
    world
        .and_backend("h1", h1)
        .and_backend("h1-tls", h1_tls.backend)
        .and_backend("h1-unix", h1_unix)
        .check_oracles()
        .await;
}
