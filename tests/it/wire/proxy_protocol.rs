//! `listen.proxy_protocol_from`: a balancer must send the header, no other client may, and the
//! address in it is the client for logs, apps, limits and trust. 127.0.0.2 is the balancer here,
//! 127.0.0.1 another client.

use std::time::Duration;

use ludgate::settings::Settings;

use crate::support::{message::Message, raw::Raw, world::World};

const BALANCER: &str = "127.0.0.2";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const LINE: &[u8] = b"PROXY TCP4 203.0.113.7 192.0.2.1 4660 443\r\n";
/// LOCAL, with a block that must be ignored.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x11\0\x0D\xCB\0\x71\x07\0\0\0\0\0\0\0\0\xFF";

fn balanced(settings: &mut Settings) {
    settings.listen.proxy_protocol_from = vec!["127.0.0.2/32".parse().expect("a network")];
}

fn trusting(settings: &mut Settings, networks: &[&str]) {
    let networks: Vec<_> = networks
        .iter()
        .map(|net| net.parse().expect("a network"))
        .collect();
    settings.peers.trusted.clone_from(&networks);
    settings.listen.trusted_proxies = networks;
}

fn v2(family: u8, addresses: &[&[u8]], extensions: &[u8]) -> Vec<u8> {
    let block = [&addresses.concat(), extensions].concat();
    let length = u16::try_from(block.len()).expect("a length").to_be_bytes();
    [SIGNATURE, &[0x21, family], &length, &block].concat()
}

fn request(world: &World, path: &str, more: &str) -> Vec<u8> {
    format!(
        "GET /apps/pub/{path} HTTP/1.1\r\nHost: {}\r\n{more}\r\n",
        world.host
    )
    .into_bytes()
}

/// What the balancer gets for a request behind these bytes.
async fn balance(world: &World, header: &[u8], path: &str, more: &str) -> (Raw, Option<Message>) {
    let mut raw = Raw::connect_from(BALANCER, world.running.address).await;
    raw.send([header, &request(world, path, more)].concat())
        .await;
    let answer = raw.answer().await;
    (raw, answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_named_address_is_the_client_for_apps_and_the_log() {
    let world = World::with("", balanced).await;
    let v6: std::net::Ipv6Addr = "2001:db8::7".parse().expect("an address");
    let (v6, ports) = (v6.octets(), [0x12, 0x34, 1, 0xBB]);
    let four = [&[203, 0, 113, 7][..], &[192, 0, 2, 1], &ports];
    let mapped = [
        &[0; 10][..],
        &[0xFF; 2],
        &[203, 0, 113, 7],
        &[0; 16],
        &ports,
    ];
    for (path, header, client) in [
        ("line-four", LINE.to_vec(), "203.0.113.7"),
        (
            "line-six",
            b"PROXY TCP6 2001:db8::7 ::1 4660 443\r\n".to_vec(),
            "2001:db8::7",
        ),
        (
            "line-unknown",
            b"PROXY UNKNOWN 203.0.113.7 x\r\n".to_vec(),
            BALANCER,
        ),
        ("four", v2(0x11, &four, b""), "203.0.113.7"),
        (
            "four-more",
            v2(0x11, &four, &[&[0xEA, 3, 0][..], &[7; 0x300]].concat()),
            "203.0.113.7",
        ),
        (
            "six",
            v2(0x21, &[&v6, &[0; 16], &ports], b""),
            "2001:db8::7",
        ),
        ("mapped", v2(0x21, &mapped, b""), "203.0.113.7"),
        ("unix", v2(0x31, &[&[b'/'; 216]], b""), BALANCER),
        ("unspecified", v2(0x00, &[&four.concat()], b""), BALANCER),
        ("local", LOCAL.to_vec(), BALANCER),
    ] {
        let lie = "X-Forwarded-For: 198.51.100.1\r\n";
        let (mut raw, answer) = balance(&world, &header, path, lie).await;
        assert_eq!(answer.map(|answer| answer.status()), Some(200), "{path}");
        let seen = world.backend("pub").last();
        assert_eq!(
            seen.header("x-forwarded-for").as_deref(),
            Some(client),
            "{path}"
        );
        assert_eq!(seen.header("x-real-ip").as_deref(), Some(client), "{path}");
        assert_eq!(
            world.log.line_with(&format!("/apps/pub/{path}\"")).await["client"],
            client,
            "{path}"
        );
        // The header stands before the first request only; before another it is nonsense.
        raw.send(request(&world, "again", "")).await;
        assert_eq!(
            raw.answer().await.map(|answer| answer.status()),
            Some(200),
            "{path}"
        );
        assert_eq!(
            world.backend("pub").last().header("x-real-ip").as_deref(),
            Some(client),
            "{path}"
        );
        raw.send(&header).await;
        raw.send(request(&world, "never", "")).await;
        assert_eq!(
            raw.answer().await.map(|answer| answer.status()),
            Some(400),
            "{path}"
        );
        assert!(raw.is_closed().await, "{path}");
    }
    assert!(
        world
            .backend("pub")
            .seen()
            .iter()
            .all(|seen| !seen.target().ends_with("never"))
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_arrives_byte_by_byte_is_the_same_header() {
    let world = World::with("", balanced).await;
    let four = v2(
        0x11,
        &[&[203, 0, 113, 7], &[192, 0, 2, 1], &[1, 2, 3, 4]],
        &[4, 0, 3, 1, 2, 3],
    );
    for header in [LINE, &four] {
        let mut raw = Raw::connect_from(BALANCER, world.running.address).await;
        for byte in header {
            raw.send([*byte]).await;
            tokio::task::yield_now().await;
        }
        raw.send(request(&world, "slowly", "")).await;
        assert_eq!(raw.answer().await.map(|answer| answer.status()), Some(200));
        assert_eq!(
            world.backend("pub").last().header("x-real-ip").as_deref(),
            Some("203.0.113.7")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn from_other_peers_it_is_a_malformed_request() {
    let world = World::with("", balanced).await;
    for header in [LINE, b"PROXY UNKNOWN\r\n", LOCAL] {
        let mut raw = world.raw().await;
        raw.send([header, &request(&world, "x", "")].concat()).await;
        assert_eq!(raw.answer().await.map(|answer| answer.status()), Some(400));
        assert!(raw.is_closed().await);
    }
    assert_eq!(world.reached(), 0);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_right_header_nothing_is_answered_or_forwarded_and_the_reason_is_counted() {
    let world = World::with("", balanced).await;
    let four = [&[203, 0, 113, 7][..], &[192, 0, 2, 1], &[1, 2, 3, 4]];
    let checksum = v2(0x11, &four, &[3, 0, 4, 1, 2, 3, 4]);
    let long = [SIGNATURE, &[0x21, 0x11, 0xFF, 0xFF]].concat();
    let line = format!("PROXY UNKNOWN {}\r\n", "f".repeat(92)).into_bytes();
    let cases: [(&str, &[&[u8]]); 4] = [
        (
            "missing",
            &[
                b"",
                b"\x16\x03\x01",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"\r\n",
            ],
        ),
        (
            "malformed",
            &[
                b"PROXY TCP4 203.0.113.7\r\n",
                b"PROXY TCP4 a b 1 2\r\n",
                b"PROXY \r\n",
                &v2(0x13, &four, b""),
                &v2(0x11, &four[..2], b""),
                &checksum,
            ],
        ),
        ("too_long", &[&line, &long]),
        ("unfinished", &[]),
    ];
    for (reason, headers) in cases {
        for header in headers {
            let (mut raw, answer) = balance(&world, header, "x", "").await;
            assert!(answer.is_none(), "{reason}: {header:?}: {answer:?}");
            assert!(raw.is_closed().await, "{reason}: {header:?}");
        }
        if reason == "unfinished" {
            for part in [
                &b""[..],
                b"PROX",
                &LINE[..20],
                &SIGNATURE[..7],
                &LOCAL[..20],
            ] {
                let mut raw = Raw::connect_from(BALANCER, world.running.address).await;
                raw.send(part).await;
                drop(raw);
            }
        }
        let count = if reason == "unfinished" {
            5
        } else {
            headers.len()
        };
        let metric = format!(
            "ludgate_connections_refused_total{{reason=\"proxy_header_{reason}\"}} {count}"
        );
        world.until_counted(&metric).await;
    }
    assert_eq!(world.reached(), 0);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_does_not_come_in_time_ends_the_connection() {
    let world = World::with("[limits]\nhandshake = \"50ms\"\n", balanced).await;
    for part in [
        &b""[..],
        b"P",
        LINE.strip_suffix(b"\n").expect("a line"),
        &LOCAL[..28],
    ] {
        let mut raw = Raw::connect_from(BALANCER, world.running.address).await;
        raw.send(part).await;
        assert!(
            raw.answer().await.is_none() && raw.is_closed().await,
            "{part:?}"
        );
    }
    world
        .until_counted("ludgate_connections_refused_total{reason=\"proxy_header_slow\"} 4")
        .await;
    world.until_counted("ludgate_connections 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_headers_are_believed_when_the_named_address_is_a_trusted_proxy() {
    let chain = "X-Forwarded-For: 198.51.100.1\r\n";
    for (trusted, client) in [
        ("203.0.113.0/24", "198.51.100.1"),
        ("127.0.0.2/32", "203.0.113.7"),
    ] {
        let world = World::with("", |settings| {
            balanced(settings);
            trusting(settings, &[trusted]);
        })
        .await;
        let (_raw, answer) = balance(&world, LINE, "named", chain).await;
        assert_eq!(answer.map(|answer| answer.status()), Some(200), "{trusted}");
        assert_eq!(
            world.log.line_with("/apps/pub/named\"").await["client"],
            client,
            "{trusted}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_counted_for_the_named_address_and_not_for_the_balancer() {
    let world = World::with("[limits]\nconnections_per_client = 1\n", balanced).await;
    let other = b"PROXY TCP4 203.0.113.8 192.0.2.1 4660 443\r\n";
    let (first, answer) = balance(&world, LINE, "first", "").await;
    assert_eq!(answer.map(|answer| answer.status()), Some(200));
    assert!(
        balance(&world, LINE, "second", "").await.1.is_none(),
        "one is all that it may have"
    );
    let mut held = Vec::new();
    for header in [&other[..], LOCAL, LOCAL, b"PROXY UNKNOWN\r\n"] {
        let (raw, answer) = balance(&world, header, "other", "").await;
        assert_eq!(
            answer.map(|answer| answer.status()),
            Some(200),
            "{header:?}"
        );
        held.push(raw);
    }
    world
        .until_counted("ludgate_connections_refused_total{reason=\"limit_per_client\"} 1")
        .await;
    drop(first);
    let again = async { while balance(&world, LINE, "again", "").await.1.is_none() {} };
    tokio::time::timeout(Duration::from_secs(10), again)
        .await
        .expect("its seat is given back");
}
