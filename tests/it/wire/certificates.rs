//! Certificates towards clients: the name that is asked for chooses, and new files are shown
//! without a restart.

use std::{path::Path, sync::Arc, time::Duration};

use ludgate::listener::tls::{CertificateFiles, TlsSettings};
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, ServerName},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::support::{
    diagnostics::Diagnostics, message::PATIENCE, tls_app::Authority, until::in_time, world::World,
};

/// A certificate for these names, with its key, written as the files of that name.
fn write(folder: &Path, file: &str, names: &[&str]) -> CertificateDer<'static> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    std::fs::write(folder.join(format!("{file}.crt")), made.cert.pem()).expect("written");
    std::fs::write(
        folder.join(format!("{file}.key")),
        made.signing_key.serialize_pem(),
    )
    .expect("written");
    made.cert.der().clone()
}

fn files(folder: &Path, file: &str) -> CertificateFiles {
    CertificateFiles {
        certificate: folder.join(format!("{file}.crt")),
        key: folder.join(format!("{file}.key")),
    }
}

async fn world(folder: &Path, names: &[&str]) -> World {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let tls = TlsSettings::from_files(names.iter().map(|name| files(folder, name)).collect(), None)
        .expect("certificates");
    World::with("", |settings| settings.listen.tls = tls).await
}

async fn connect(world: &World, name: &str) -> TlsStream<TcpStream> {
    let verifier = ludgate::ops::tls_client::config_for_any_certificate();
    let mut config = ClientConfig::clone(&verifier);
    // An address is never sent as a name (RFC 6066 section 3).
    config.enable_sni = name.parse::<std::net::IpAddr>().is_err();
    let tcp = TcpStream::connect(world.running.address)
        .await
        .expect("the gateway listens");
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await
        .expect("a handshake")
}

async fn shown(world: &World, name: &str) -> CertificateDer<'static> {
    let stream = connect(world, name).await;
    let chain = stream
        .get_ref()
        .1
        .peer_certificates()
        .expect("a certificate");
    chain.first().expect("a certificate").clone().into_owned()
}

/// Waits until this one is shown; the clock goes on from look to look.
async fn until_shown(world: &World, name: &str, wanted: &CertificateDer<'_>) {
    let found = async {
        while shown(world, name).await != *wanted {
            world.manual_clock.advance(Duration::from_secs(2));
        }
    };
    tokio::time::timeout(PATIENCE, found)
        .await
        .expect("the new certificate is shown");
}

async fn is_fine(world: &World) -> bool {
    world
        .admin("/metrics", "")
        .await
        .text()
        .contains("ludgate_certificates_last_read_success 1")
}

async fn until_fine(world: &World, wanted: bool) {
    let found = async {
        while is_fine(world).await != wanted {
            world.manual_clock.advance(Duration::from_secs(2));
        }
    };
    tokio::time::timeout(PATIENCE, found)
        .await
        .expect("the metric tells");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_that_is_asked_for_chooses_the_certificate_and_any_other_gets_the_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = write(folder.path(), "site", &["gw.test"]);
    let apps = write(folder.path(), "apps", &["*.svc.test", "extra.test"]);
    let world = world(folder.path(), &["site", "apps"]).await;
    for (name, expected) in [
        ("gw.test", &site),
        ("GW.test", &site),
        ("one.svc.test", &apps),
        ("two.svc.test", &apps),
        ("extra.test", &apps),
        ("svc.test", &site),
        ("a.b.svc.test", &site),
        ("unknown.test", &site),
        ("127.0.0.1", &site),
    ] {
        assert_eq!(&shown(&world, name).await, expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_files_are_shown_from_the_next_handshake_on_and_open_connections_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = write(folder.path(), "site", &["gw.test"]);
    let world = world(folder.path(), &["site"]).await;
    let mut open = connect(&world, "127.0.0.1").await;
    assert_eq!(shown(&world, "gw.test").await, first);
    let second = write(folder.path(), "site", &["gw.test"]);
    until_shown(&world, "gw.test", &second).await;
    let request = format!(
        "GET /apps/pub/x HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        world.host
    );
    open.write_all(request.as_bytes()).await.expect("written");
    let mut answer = Vec::new();
    let _ = in_time("an answer", open.read_to_end(&mut answer)).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert!(is_fine(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_written_files_change_nothing_until_they_are_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = write(folder.path(), "site", &["gw.test"]);
    let world = world(folder.path(), &["site"]).await;
    let aside = tempfile::tempdir().expect("a folder");
    let second = write(aside.path(), "site", &["gw.test"]);
    let (certificate, key) = (
        folder.path().join("site.crt"),
        folder.path().join("site.key"),
    );
    let new = std::fs::read(aside.path().join("site.crt")).expect("a file");
    std::fs::write(&certificate, &new[..new.len() / 2]).expect("written");
    until_fine(&world, false).await;
    assert_eq!(shown(&world, "gw.test").await, first, "half a certificate");
    std::fs::write(&certificate, &new).expect("written");
    world.manual_clock.advance(Duration::from_secs(2));
    assert_eq!(
        shown(&world, "gw.test").await,
        first,
        "a certificate with the key of another"
    );
    std::fs::remove_file(&key).expect("removed");
    world.manual_clock.advance(Duration::from_secs(2));
    assert_eq!(shown(&world, "gw.test").await, first, "no key");
    std::fs::copy(aside.path().join("site.key"), &key).expect("copied");
    until_shown(&world, "gw.test", &second).await;
    until_fine(&world, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_ours_that_has_expired_is_reported_until_it_is_replaced() {
    let diagnostics = Diagnostics::all();
    let folder = tempfile::tempdir().expect("a folder");
    let expired = Authority::new().sign_expired(&["gw.test"]);
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("old.crt"), &expired.pem).expect("written");
    std::fs::write(at("old.key"), expired.key_pem()).expect("written");
    let world = world(folder.path(), &["old"]).await;
    let path = at("old.crt").display().to_string();
    let line = diagnostics.until_line(&[&path, "has expired"]).await;
    assert!(
        line.contains("WARN") && line.contains("2020-12-31"),
        "{line}"
    );
    world
        .until_counted("ludgate_certificate_expires_seconds 1609372800")
        .await;
    let verbose = world.admin("/readyz?verbose", "").await;
    assert_eq!(verbose.status(), 200, "a client may accept it");
    let verbose = verbose.text();
    assert!(
        verbose.contains("certificates: degraded: ") && verbose.contains("has expired on 2020"),
        "{verbose}"
    );
    // A day later it is reported again.
    world.manual_clock.advance(Duration::from_secs(24 * 3600));
    in_time("the second report", async {
        while diagnostics.lines_with(&[&path, "has expired"]).len() < 2 {
            world.manual_clock.advance(Duration::from_secs(2));
            tokio::task::yield_now().await;
        }
    })
    .await;
    let renewed = write(folder.path(), "old", &["gw.test"]);
    until_shown(&world, "gw.test", &renewed).await;
    in_time("the end of the warning", async {
        while !world
            .admin("/readyz?verbose", "")
            .await
            .text()
            .contains("certificates: valid")
        {}
    })
    .await;
}

#[test]
fn what_is_wrong_with_a_certificate_is_said_with_its_file() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "one", &["gw.test"]);
    write(folder.path(), "two", &["gw.test"]);
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("empty.crt"), "").expect("written");
    let pair = |certificate: &str, key: &str| CertificateFiles {
        certificate: at(certificate),
        key: at(key),
    };
    for (files, said) in [
        (pair("none.crt", "one.key"), "none.crt: No such file"),
        (
            pair("empty.crt", "one.key"),
            "empty.crt: no PEM certificate",
        ),
        (
            pair("one.crt", "empty.crt"),
            "empty.crt: no PEM private key",
        ),
        (
            pair("one.crt", "two.key"),
            "one.crt: the certificate and its key cannot be used",
        ),
    ] {
        let error = TlsSettings::from_files(vec![files], None)
            .expect_err(said)
            .to_string();
        assert!(error.contains(said), "{error}");
    }
}
