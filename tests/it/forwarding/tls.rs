//! TLS to apps (docs/behaviour.md#forwarding): which app is believed to be it, who we are to it,
//! and that nothing is sent otherwise.

use std::{net::SocketAddr, path::Path};

use rustls::version::{TLS12, TLS13};
use tokio::{io::AsyncWriteExt, net::TcpListener};

use crate::{
    forwarding::upstreams::handshake,
    support::{
        message::Reader,
        tls_app::{Authority, Certificate, TlsApp},
        world::World,
    },
};

/// One app's table; `more` are its keys about TLS.
fn app(id: &str, upstream: &str, more: &str) -> String {
    format!("[[apps]]\nid = \"{id}\"\naccess = \"public\"\nupstream = \"{upstream}\"\n{more}\n")
}

/// A key whose value is a file with this content.
fn file(folder: &Path, key: &str, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("written");
    format!("{key} = \"{}\"\n", path.display())
}

fn client_certificate(folder: &Path, name: &str, ours: &Certificate) -> String {
    let certificate = file(folder, "certificate", &format!("{name}.crt"), &ours.pem);
    let key = file(folder, "key", &format!("{name}.key"), &ours.key_pem());
    format!(
        "client_certificate = {{ {}, {} }}\n",
        certificate.trim(),
        key.trim()
    )
}

/// Answers in clear, as servers do that are greeted in TLS where they expect HTTP.
async fn speaks_no_tls() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let _ = tcp
                .write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                .await;
            let _ = Reader::new(tcp).rest().await;
        }
    });
    address
}

/// GET, POST and a WebSocket: `None` when the app answered all of them, else why it got none.
async fn reason(world: &World, id: &str) -> Option<String> {
    let get = world
        .exchange(&format!("GET /apps/{id}/x HTTP/1.1\r\nHost: HOST\r\n\r\n"))
        .await;
    let post = format!("POST /apps/{id}/echo HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1\r\n\r\nx");
    let post = world.exchange(&post).await;
    let mut raw = world.raw().await;
    raw.send(handshake(world, &format!("/apps/{id}/ws"))).await;
    let socket = raw.reader.head().await.expect("readable").expect("a head");
    match get.status() {
        200 => {
            assert_eq!((post.status(), socket.status()), (200, 101), "{id}");
            None
        }
        status => {
            assert_eq!(
                (status, post.status(), socket.status()),
                (502, 502, 502),
                "{id}"
            );
            let reason = get.json()["reason"].as_str().expect("a reason").to_owned();
            assert_eq!(post.json()["reason"].as_str(), Some(&*reason), "{id}");
            let line = world
                .log
                .line_with(&format!("\"path\":\"/apps/{id}/x\""))
                .await;
            assert_eq!(line["outcome"].as_str(), Some(&*reason), "{id}: {line}");
            Some(reason)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_believed_by_its_authority_its_name_and_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let (authority, other) = (Authority::new(), Authority::new());
    let ca = file(folder.path(), "ca", "ca.crt", &authority.pem());
    let wrong_ca = file(folder.path(), "ca", "other.crt", &other.pem());
    let by_address = authority.sign(&["127.0.0.1"]);
    let by_name = authority.sign(&["app.internal"]);
    let own = Certificate::self_signed(&["app.internal"]);
    let nameless = Certificate::self_signed(&[]);
    let pin = |certificate: &Certificate| format!("certificate_pin = \"{}\"\n", certificate.pin());
    let name = |name: &str| format!("server_name = \"{name}\"\n");
    let (address_app, name_app) = (by_address.app("address").await, by_name.app("name").await);
    let (own_app, nameless_app) = (own.app("own").await, nameless.app("nameless").await);
    let expired = authority.sign_expired(&["127.0.0.1"]);
    let expired_app = expired.app("expired").await;
    let cases: [(&TlsApp, String, Option<&str>); 23] = [
        (&address_app, ca.clone(), None),
        (&address_app, wrong_ca.clone(), Some("upstream_tls_ca")),
        (&address_app, String::new(), Some("upstream_tls_ca")),
        (
            &address_app,
            ca.clone() + &name("app.internal"),
            Some("upstream_tls_name"),
        ),
        (&name_app, ca.clone(), Some("upstream_tls_name")),
        (&name_app, ca.clone() + &name("app.internal"), None),
        (
            &name_app,
            ca.clone() + &name("other.internal"),
            Some("upstream_tls_name"),
        ),
        (
            &name_app,
            wrong_ca.clone() + &name("app.internal"),
            Some("upstream_tls_ca"),
        ),
        (&address_app, ca.clone() + &pin(&by_address), None),
        (
            &address_app,
            ca.clone() + &pin(&by_name),
            Some("upstream_tls_pin"),
        ),
        (
            &address_app,
            wrong_ca.clone() + &pin(&by_address),
            Some("upstream_tls_ca"),
        ),
        (
            &name_app,
            ca.clone() + &pin(&by_name),
            Some("upstream_tls_name"),
        ),
        (
            &name_app,
            ca.clone() + &pin(&by_name) + &name("app.internal"),
            None,
        ),
        (&expired_app, ca.clone(), Some("upstream_tls_expired")),
        (
            &expired_app,
            ca.clone() + &pin(&expired),
            Some("upstream_tls_expired"),
        ),
        (&expired_app, pin(&expired), None),
        // With a pin no CA is needed; a configured name is checked nevertheless.
        (&own_app, String::new(), Some("upstream_tls_ca")),
        (&own_app, pin(&own), None),
        (&own_app, pin(&nameless), Some("upstream_tls_pin")),
        (&own_app, pin(&own) + &name("app.internal"), None),
        (
            &own_app,
            pin(&own) + &name("other.internal"),
            Some("upstream_tls_name"),
        ),
        (&nameless_app, pin(&nameless), None),
        (&nameless_app, pin(&own), Some("upstream_tls_pin")),
    ];
    let mut toml = app("no-tls", &format!("https://{}", speaks_no_tls().await), &ca);
    for (index, (tls, more, _)) in cases.iter().enumerate() {
        toml += &app(
            &format!("case-{index}"),
            &format!("https://{}", tls.address()),
            more,
        );
    }
    let world = World::as_program("", &toml).await;
    for (index, (tls, more, expected)) in cases.iter().enumerate() {
        let before = tls.backend.count();
        let reason = reason(&world, &format!("case-{index}")).await;
        assert_eq!(reason.as_deref(), *expected, "case {index}: {more}");
        if reason.as_deref() == Some("upstream_tls_expired") {
            let path = format!("\"path\":\"/apps/case-{index}/x\"");
            let line = world.log.line_with(&path).await;
            let error = line["error"].as_str().expect("an error");
            let wanted = "the app's certificate expired on 2020-12-31T00:00:00Z; renew it";
            assert!(error.starts_with(wanted), "{error}");
        }
        let sent = tls.backend.count() - before;
        assert_eq!(
            sent,
            if expected.is_none() { 3 } else { 0 },
            "case {index}: nothing is sent to others"
        );
    }
    assert_eq!(
        reason(&world, "no-tls").await.as_deref(),
        Some("upstream_not_tls")
    );
    let asked = name_app.asked_for();
    assert!(
        asked.contains(&Some("app.internal".to_owned())),
        "{asked:?}"
    );
    assert!(
        address_app.asked_for().iter().all(Option::is_none),
        "an address is no SNI"
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_ours_is_shown_to_an_app_that_wants_one() {
    for version in [&TLS12, &TLS13] {
        let folder = tempfile::tempdir().expect("a folder");
        let (authority, clients) = (Authority::new(), Authority::named("for clients"));
        let other = Authority::named("for others");
        let ca = file(folder.path(), "ca", "ca.crt", &authority.pem());
        let theirs = authority.sign(&["127.0.0.1"]);
        let tls = TlsApp::start("app", theirs.server(Some(&clients), &[version])).await;
        let asks_nobody = TlsApp::start("open", theirs.server(None, &[version])).await;
        let good = client_certificate(folder.path(), "good", &clients.sign(&["ludgate"]));
        let bad = client_certificate(folder.path(), "bad", &other.sign(&["ludgate"]));
        let pinned = format!("certificate_pin = \"{}\"\n", theirs.pin());
        let upstream = format!("https://{}", tls.address());
        let toml = [
            app("given", &upstream, &(ca.clone() + &good)),
            app("pinned", &upstream, &(pinned + &good)),
            app("absent", &upstream, &ca),
            app("foreign", &upstream, &(ca.clone() + &bad)),
            app(
                "unasked",
                &format!("https://{}", asks_nobody.address()),
                &(ca.clone() + &good),
            ),
        ];
        let world = World::as_program("", &toml.concat()).await;
        let refused = Some("upstream_tls_client_certificate");
        for (id, expected, sent) in [
            ("given", None, 3),
            ("absent", refused, 0),
            ("foreign", refused, 0),
            ("pinned", None, 3),
            ("absent", refused, 0),
            ("unasked", None, 0),
        ] {
            let before = tls.backend.count();
            assert_eq!(
                reason(&world, id).await.as_deref(),
                expected,
                "{version:?} {id}"
            );
            assert_eq!(tls.backend.count() - before, sent, "{version:?} {id}");
        }
        world.check_oracles().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_serves_only_the_app_that_it_was_opened_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (authority, clients) = (Authority::new(), Authority::new());
    let ca = file(folder.path(), "ca", "ca.crt", &authority.pem());
    let theirs = authority.sign(&["127.0.0.1"]);
    let wants = TlsApp::start("wants", theirs.server(Some(&clients), rustls::ALL_VERSIONS)).await;
    let ours = client_certificate(folder.path(), "ours", &clients.sign(&["ludgate"]));
    let wrong_pin = format!("certificate_pin = \"{}\"\n", clients.sign(&[]).pin());
    let upstream = format!("https://{}", wants.address());
    let toml = [
        app("known", &upstream, &(ca.clone() + &ours)),
        app("unknown", &upstream, &ca),
        app("pinned", &upstream, &(ca.clone() + &ours + &wrong_pin)),
    ];
    let world = World::as_program("", &toml.concat()).await;
    // On one client connection, so that one data thread and its pool serve them all.
    let mut raw = world.raw().await;
    for round in 0..10 {
        for (id, status) in [("known", 200), ("unknown", 502), ("pinned", 502)] {
            raw.send(format!(
                "GET /apps/{id}/x HTTP/1.1\r\nHost: {}\r\n\r\n",
                world.host
            ))
            .await;
            assert_eq!(
                raw.answer().await.expect("an answer").status(),
                status,
                "{round} {id}"
            );
        }
    }
    assert_eq!(
        (wants.backend.connections(), wants.backend.count()),
        (1, 10)
    );
}
