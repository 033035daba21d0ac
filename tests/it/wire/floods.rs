//! One client that takes as much as it can get: memory before authentication, capacity of an app,
//! room in the session store. Other clients are not affected.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream};
use http::Request;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame as BodyFrame;
use redis::cmd;
use tokio::task::JoinSet;

use crate::{
    forwarding::upstreams::handshake,
    support::{
        backend::Backend,
        browser::{From, field},
        http2::{self, Frame, Frames, Http2},
        message::{Message, PATIENCE},
        process::{gateway, resident},
        raw::Raw,
        replicas::Replicas,
        until::{in_time, until, until_async},
        world::{World, free_port},
    },
};

/// A connection of HTTP/2 that keeps sending bodies that never end, until it is closed or has sent
/// `limit` bytes. `sent` counts the bytes.
async fn pour(port: u16, path: &str, streams: u32, limit: u64, sent: Arc<AtomicU64>) {
    let connecting = Frames::connect(([127, 0, 0, 1], port).into());
    let mut frames = in_time("the flood is connected", connecting).await;
    let origin = format!("http://127.0.0.1:{port}");
    let authority = format!("127.0.0.1:{port}");
    let length = "262136";
    for stream in (0..streams).map(|n| 2 * n + 1) {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", authority.as_str()),
            (":path", path),
            ("origin", origin.as_str()),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
            (
                "cookie",
                "ludgate=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            ),
            ("content-type", "application/x-www-form-urlencoded"),
            ("content-length", length),
        ];
        frames.headers(stream, 0, &fields).await;
    }
    let piece = vec![b'x'; 16_000];
    let (mut read, mut write) = frames.split();
    let writing = async {
        let mut total = 0;
        // Windows are opened as fast as the gateway opens them; what is refused is refused.
        for stream in (0..streams).map(|n| 2 * n + 1).cycle() {
            if total >= limit
                || !write
                    .raw(&Frame::new(0, 0, stream, piece.clone()).bytes())
                    .await
            {
                return;
            }
            total += piece.len() as u64;
            sent.fetch_add(piece.len() as u64, Relaxed);
        }
    };
    let reading = async { while read.next().await.is_some() {} };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_anonymous_clients_are_not_collected() {
    let backend = Backend::start("pub").await;
    let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
    let provider = World::new().await.ready().await;
    let text = format!(
        "[listen]\naddress = \"127.0.0.1:{port}\"\nh2c = true\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [site]\nurl = \"http://127.0.0.1:{port}\"\n[identity]\nissuer = \"{}\"\nclient_id = \"x\"\nclient_secret = \"y\"\n\
         [log]\nrequests = false\n[[apps]]\nid = \"pub\"\naccess = \"user\"\nupstream = \"http://{}\"\n",
        provider.provider.issuer(),
        backend.address()
    );
    let process = gateway(folder.path(), &text, port).await;
    let request =
        format!("GET /apps/pub/x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    assert_eq!(
        Raw::exchange(([127, 0, 0, 1], port).into(), &request)
            .await
            .status(),
        401
    );
    let before = resident(&process);
    for path in [
        "/apps/nope/x?ludgate-resume",
        "/apps/pub/x?ludgate-resume",
        "/oauth2/sign_out",
        "/oauth2/backchannel_logout",
    ] {
        let (mut all, sent) = (JoinSet::new(), Arc::<AtomicU64>::default());
        for _ in 0..40 {
            // 100 streams of 40 connections, some 5 MiB on each: 200 MiB in all, if they were
            // taken.
            let flood = pour(port, path, 100, 5 << 20, sent.clone());
            all.spawn(async move {
                let _ = tokio::time::timeout(Duration::from_secs(4), flood).await;
            });
        }
        let mut peak = 0;
        while !matches!(
            tokio::time::timeout(Duration::from_millis(50), all.join_next()).await,
            Ok(None)
        ) {
            peak = peak.max(resident(&process));
        }
        assert!(sent.load(Relaxed) > 1 << 20, "{path}: the flood came");
        let grown = peak.saturating_sub(before) >> 20;
        // Four thousand requests at once take their place, in a build for tests more than twice
        // that of a release; what they send would be 200 MiB.
        assert!(grown < 64, "{path}: {grown} MiB more");
        assert_eq!(
            Raw::exchange(([127, 0, 0, 1], port).into(), &request)
                .await
                .status(),
            401
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_given_back_and_sent_while_others_flood() {
    let world = World::with("", |settings| settings.listen.h2c = true)
        .await
        .ready()
        .await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
    let port = world.running.address.port();
    let (mut flood, sent) = (JoinSet::new(), Arc::<AtomicU64>::default());
    for path in ["/oauth2/backchannel_logout", "/apps/grp/x?ludgate-resume"].repeat(4) {
        flood.spawn(pour(port, path, 100, u64::MAX, sent.clone()));
    }
    until("the flood has begun", || sent.load(Relaxed) > 1 << 20).await;
    world.manual_clock.advance(Duration::from_secs(30 * 60));
    let kind = "application/x-www-form-urlencoded";
    let more = format!("Origin: http://{}\r\nContent-Type: {kind}\r\n", world.host);
    let page = alice
        .once("POST", "/apps/grp/echo", From::Form, &more, b"text=typed")
        .await;
    assert!(page.text().contains("ludgate-form"), "{}", page.text());
    let body = format!("ludgate-form={}", field(&page.text(), "ludgate-form"));
    alice.sign_in("/apps/usr/", "alice").await;
    let sent = alice
        .once(
            "POST",
            "/apps/grp/echo?ludgate-resume",
            From::Form,
            &more,
            body.as_bytes(),
        )
        .await;
    assert_eq!((sent.status(), sent.text()), (200, "text=typed".to_owned()));
}

/// From an address of its own: another client.
async fn from_elsewhere(world: &World, target: &str) -> Message {
    let mut raw = Raw::connect_from("127.0.0.77", world.running.address).await;
    raw.send(format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        world.host
    ))
    .await;
    raw.answer().await.expect("an answer")
}

/// A body of which a byte comes, and then nothing more.
fn endless() -> http2::Body {
    let first = stream::iter([Ok(BodyFrame::data("x".into()))]);
    BodyExt::boxed(StreamBody::new(first.chain(stream::pending())))
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_uploads_leave_the_app_to_other_clients() {
    let world = World::with("[limits]\nrequests_per_app = 256\n", |settings| {
        settings.listen.h2c = true
    })
    .await;
    let (mut uploads, mut clients) = (JoinSet::new(), Vec::new());
    for _ in 0..3 {
        let client = Http2::connect(world.running.address).await;
        for _ in 0..100 {
            let request =
                Request::post(format!("http://{}/apps/pub/slow", world.host)).body(endless());
            let mut sender = client.0.clone();
            let sent = sender.send_request(request.expect("a request"));
            uploads.spawn(async move { sent.await.map(|answer| answer.status().as_u16()) });
        }
        clients.push(client);
    }
    // What is more than its share is refused at once: then all of them were looked at.
    for count in 0..300 - 64 {
        let refused = tokio::time::timeout(PATIENCE, uploads.join_next()).await;
        let status = refused
            .unwrap_or_else(|_| panic!("{count} were refused"))
            .expect("some")
            .expect("no panic");
        assert_eq!(status.expect("an answer"), 503);
    }
    for _ in 0..20 {
        assert_eq!(from_elsewhere(&world, "/apps/pub/x").await.status(), 200);
    }
    let own = world
        .exchange("GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(
        own.status(),
        200,
        "a request that waits for its own body holds no other up"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_requests_leave_the_app_to_other_clients() {
    let world = World::with("[limits]\nrequests_per_app = 40\n", |_| {}).await;
    let request = format!(
        "GET /apps/pub/hang HTTP/1.1\r\nHost: {}\r\n\r\n",
        world.host
    );
    let mut waiting = Vec::new();
    for _ in 0..40 {
        let mut raw = world.raw().await;
        raw.send(&request).await;
        waiting.push(raw);
    }
    until("the client's share of the app is in use", || {
        world.backend("pub").count() >= 10
    })
    .await;
    for _ in 0..20 {
        assert_eq!(from_elsewhere(&world, "/apps/pub/x").await.status(), 200);
    }
    let refused = world
        .exchange("GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(
        (refused.status(), refused.json()["reason"].as_str()),
        (503, Some("upstream_busy"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_of_one_address_or_person_leave_room_for_the_others() {
    let world = World::with("[limits]\nconnections_per_app = 40\n", |_| {})
        .await
        .ready()
        .await;
    let mut open = Vec::new();
    while open.len() < 40 {
        let mut raw = world.raw().await;
        raw.send(handshake(&world, "/apps/pub/ws")).await;
        if raw
            .reader
            .head()
            .await
            .expect("readable")
            .expect("a head")
            .status()
            != 101
        {
            break;
        }
        open.push(raw);
    }
    assert_eq!(open.len(), 10, "a quarter");
    for _ in 0..20 {
        assert_eq!(from_elsewhere(&world, "/apps/pub/x").await.status(), 200);
    }
    // Who is signed in is counted as a person: others at the same address are others.
    let (alice, mut bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let mut hers = Vec::new();
    for _ in 0..8 {
        hers.push(world.websocket(&alice, "usr").await);
    }
    assert_eq!(bob.fetch("/apps/usr/x").await.status(), 200);
    drop(open);
    until_async("what is given back is there again", async || {
        let answer = world.exchange("GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n");
        answer.await.status() == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_cookies_cost_the_session_store_little_and_others_nothing() {
    let pair = Replicas::start().await;
    let mut alice = pair.one.signed_in("alice").await;
    pair.redis().until_keys("ludgate:a:", 1).await;
    let commands = async || {
        let stats: String = pair.redis().run(cmd("INFO").arg("stats")).await;
        let count = stats
            .lines()
            .find_map(|line| line.strip_prefix("total_commands_processed:"));
        count
            .expect("a number")
            .trim()
            .parse::<u64>()
            .expect("a number")
    };
    let before = commands().await;
    for count in 0..600 {
        let made_up = |n: usize| format!("{:A<43}", format!("{count}x{n}x"));
        let apps: String = (0..4)
            .map(|n| format!("phapplication-session-id={}; ", made_up(n)))
            .collect();
        let signs: Vec<_> = (4..8).map(|n| format!("ludgate={}", made_up(n))).collect();
        let request = format!(
            "GET /apps/grp/x HTTP/1.1\r\nHost: {}\r\nCookie: {apps}{}\r\nConnection: close\r\n\r\n",
            pair.one.host,
            signs.join("; ")
        );
        let mut raw = Raw::connect_from("127.0.0.78", pair.other().running.address).await;
        raw.send(request).await;
        assert!(matches!(
            raw.answer().await.expect("an answer").status(),
            401 | 503
        ));
    }
    let spent = commands().await - before;
    assert!(spent < 3_000, "{spent} commands for 600 requests");
    // Another replica has to look for her session, and finds it.
    alice.turn_to(pair.other().running.address);
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_sends_interim_answers_without_end_is_502() {
    let world = World::new().await;
    let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
    let last = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let answer = |count: usize| [interim.repeat(count), last.to_vec()].concat();
    world.backend("pub").script(answer(100));
    let request = "GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n";
    assert_eq!(world.exchange(request).await.status(), 200);
    world.backend("pub").script(answer(10_000));
    let refused = world.exchange(request).await;
    assert_eq!(
        (refused.status(), refused.json()["reason"].as_str()),
        (502, Some("upstream_bad_answer"))
    );
    world.backend("pub").script(None);
    assert_eq!(world.exchange(request).await.status(), 200);
}
