//! Several listeners: people on one, their old links on another that leads to https; who may
//! connect at all; and which requests may come on a connection (docs/behaviour.md#hosts).

use std::{path::Path, sync::Arc};

use http::Request;
use ludgate::listener::tls::{CertificateFiles, TlsSettings as Tls};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{PrivateKeyDer, ServerName},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::support::{
    http2::{Http2, whole},
    message::Message,
    raw::Raw,
    tls_app::{Authority, Certificate},
    until::in_time,
    world::{World, free_port},
};

fn write(folder: &Path, name: &str, certificate: &Certificate) -> CertificateFiles {
    let (pem, key) = (
        folder.join(format!("{name}.crt")),
        folder.join(format!("{name}.key")),
    );
    std::fs::write(&pem, &certificate.pem).expect("written");
    std::fs::write(&key, certificate.key_pem()).expect("written");
    CertificateFiles {
        certificate: pem,
        key,
    }
}

/// A gateway in TLS, as seen by one authority.
struct Guarded {
    world: World,
    folder: tempfile::TempDir,
    roots: Arc<RootCertStore>,
}

impl Guarded {
    async fn start(names: &[&str], clients: Option<&Authority>, trusted: bool) -> Guarded {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::named("the site's");
        let files = write(folder.path(), "site", &authority.sign(names));
        let ca = clients.map(|authority| {
            let path = folder.path().join("clients.crt");
            std::fs::write(&path, authority.pem()).expect("written");
            path
        });
        let tls = Tls::from_files(vec![files], ca.as_deref()).expect("certificates");
        let world = World::with("", |settings| {
            settings.listen.tls = tls;
            if trusted {
                settings.peers.trusted = vec!["127.0.0.0/8".parse().expect("a network")];
            }
        })
        .await;
        let mut roots = RootCertStore::empty();
        roots.add(authority.der()).expect("an authority");
        Guarded {
            world,
            folder,
            roots: Arc::new(roots),
        }
    }

    async fn connect(
        &self,
        name: &str,
        alpn: &[u8],
        shows: Option<&Certificate>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let builder = ClientConfig::builder().with_root_certificates(self.roots.clone());
        let mut config = match shows {
            None => builder.with_no_client_auth(),
            Some(certificate) => {
                let files = write(self.folder.path(), "client", certificate);
                let key = std::fs::read(files.key).expect("a file");
                let key: PrivateKeyDer<'static> =
                    rustls::pki_types::pem::PemObject::from_pem_slice(&key).expect("a key");
                builder
                    .with_client_auth_cert(vec![certificate.der()], key)
                    .expect("they belong together")
            }
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        let tcp = TcpStream::connect(self.world.running.address).await?;
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        TlsConnector::from(Arc::new(config))
            .connect(name, tcp)
            .await
    }
}

async fn status(stream: &mut TlsStream<TcpStream>, host: &str) -> u16 {
    let request = format!("GET /apps/pub/x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = in_time("an answer", stream.read_to_end(&mut answer)).await;
    let start = String::from_utf8_lossy(&answer)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    Message {
        start,
        ..Message::default()
    }
    .status()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_takes_requests_for_the_names_it_was_made_for() {
    let hosts = ["127.0.0.1", "a.localhost", "b.localhost"];
    for (names, made_for, asked, expected) in [
        // A browser may send both on one connection when the certificate speaks for both.
        (&hosts[..], "a.localhost", "a.localhost", 404),
        (&hosts[..], "a.localhost", "b.localhost", 404),
        (&["a.localhost"][..], "a.localhost", "b.localhost", 421),
        (&["a.localhost"][..], "a.localhost", "a.localhost", 404),
        (&["127.0.0.1"][..], "127.0.0.1", "127.0.0.1", 200),
        (&["127.0.0.1"][..], "127.0.0.1", "a.localhost", 421),
    ] {
        let guarded = Guarded::start(names, None, false).await;
        let port = guarded.world.running.address.port();
        let mut stream = guarded
            .connect(made_for, b"http/1.1", None)
            .await
            .expect("connected");
        assert_eq!(
            status(&mut stream, &format!("{asked}:{port}")).await,
            expected,
            "{names:?} {made_for} {asked}"
        );
        let client = Http2::over(
            guarded
                .connect(made_for, b"h2", None)
                .await
                .expect("connected"),
        )
        .await;
        for _ in 0..2 {
            let request = Request::get(format!("https://{asked}:{port}/apps/pub/x"))
                .body(whole(""))
                .expect("a request");
            assert_eq!(
                client.whole(request).await.status(),
                expected,
                "h2: {names:?} {made_for} {asked}"
            );
        }
        if expected == 421 {
            // A proxy of ours mixes what it likes.
            let guarded = Guarded::start(names, None, true).await;
            let port = guarded.world.running.address.port();
            let mut stream = guarded
                .connect(made_for, b"http/1.1", None)
                .await
                .expect("connected");
            assert_ne!(
                status(&mut stream, &format!("{asked}:{port}")).await,
                421,
                "trusted: {names:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_must_show_a_certificate_is_served_with_one_of_the_right_authority_only() {
    let (ours, strangers) = (Authority::named("clients"), Authority::named("strangers"));
    let guarded = Guarded::start(&["127.0.0.1"], Some(&ours), false).await;
    let host = guarded.world.host.clone();
    for (shows, served) in [
        (None, false),
        (Some(strangers.sign(&["client.test"])), false),
        (Some(ours.sign_expired(&["client.test"])), false),
        (Some(ours.sign(&["client.test"])), true),
    ] {
        let answered = match guarded
            .connect("127.0.0.1", b"http/1.1", shows.as_ref())
            .await
        {
            // With TLS 1.3 the client hears of it with the first bytes that it reads.
            Ok(mut stream) => status(&mut stream, &host).await,
            Err(_) => 0,
        };
        assert_eq!(answered, if served { 200 } else { 0 });
    }
    assert_eq!(guarded.world.backend("pub").count(), 1, "O5");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_listener_leads_to_https_and_sets_nothing() {
    let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    write(
        folder.path(),
        "site",
        &Certificate::self_signed(&["gw.test", "*.svc.test"]),
    );
    let backend = crate::support::backend::Backend::start("pub").await;
    let (public, text) = (free_port(), |hsts: &str, more: &str| {
        format!(
            "[[listen]]\naddress = \"127.0.0.1:{port}\"\ntls = {{ certificate = \"site.crt\", key = \"site.key\" }}\n{more}\
             [admin]\naddress = \"127.0.0.1:0\"\n[site]\nurl = \"https://gw.test:8443\"\napps_domain = \"svc.test\"\n{hsts}\
             [[apps]]\nid = \"pub\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
            backend.address()
        )
    });
    let second =
        format!("[[listen]]\naddress = \"127.0.0.1:{public}\"\nredirect_to_https = true\n");
    let written = text("hsts = \"365d\"\n", &second);
    let settings = ludgate::settings::parse(&written, folder.path(), std::iter::empty());
    let settings = settings.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let options = ludgate::run::StartOptions::for_this_machine();
    let _running = ludgate::run::start(settings, options)
        .await
        .expect("a gateway");
    let plain = std::net::SocketAddr::from(([127, 0, 0, 1], public));
    for (method, host, target, status, location) in [
        (
            "GET",
            "gw.test",
            "/apps/pub/a%2Fb?c",
            308,
            Some("https://gw.test:8443/apps/pub/a%2Fb?c"),
        ),
        (
            "POST",
            "GW.test:80",
            "/x",
            308,
            Some("https://gw.test:8443/x"),
        ),
        (
            "GET",
            "pub.svc.test:8080",
            "/",
            308,
            Some("https://pub.svc.test:8443/"),
        ),
        ("GET", "evil.test", "/", 421, None),
        ("GET", "gw.test@evil.test", "/", 400, None),
        (
            "GET",
            "gw.test",
            "//evil.test",
            308,
            Some("https://gw.test:8443//evil.test"),
        ),
    ] {
        let answer = Raw::exchange(
            plain,
            format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        )
        .await;
        assert_eq!(
            (answer.status(), answer.header("location").as_deref()),
            (status, location),
            "{host}{target}"
        );
        for name in ["set-cookie", "strict-transport-security"] {
            assert!(answer.header(name).is_none(), "{name}: {answer:?}");
        }
    }
    assert_eq!(backend.count(), 0, "nothing is served there");
    let verifier = ludgate::ops::tls_client::config_for_any_certificate();
    backend.script(b"HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1; includeSubDomains\r\nContent-Length: 0\r\n\r\n".to_vec());
    for (host, target) in [
        ("gw.test", "/apps/pub/"),
        ("pub.svc.test", "/"),
        ("gw.test", "/nothing"),
    ] {
        let tcp = TcpStream::connect(("127.0.0.1", port))
            .await
            .expect("connected");
        let name = ServerName::try_from(host.to_owned()).expect("a name");
        let mut stream = TlsConnector::from(verifier.clone())
            .connect(name, tcp)
            .await
            .expect("a handshake");
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: {host}:8443\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut answer = Vec::new();
        let _ = in_time("an answer", stream.read_to_end(&mut answer)).await;
        let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        let promises: Vec<_> = answer
            .lines()
            .filter(|line| line.starts_with("strict-transport"))
            .collect();
        assert_eq!(
            promises,
            ["strict-transport-security: max-age=31536000"],
            "{host}{target}: {answer}"
        );
    }
    // What cannot be meant is said.
    for (written, said) in [
        (
            text("", &second).replace("https://gw.test:8443", "http://127.0.0.1:8080"),
            "site.url",
        ),
        (
            text("", &format!("redirect_to_https = true\n{second}")),
            "redirect_to_https",
        ),
        (
            text("hsts = \"1d\"\n", "").replace("https://gw.test:8443", "http://127.0.0.1:8080"),
            "site.hsts",
        ),
        (
            text(
                "",
                &second.replace("redirect_to_https = true", "client_ca = \"site.crt\""),
            ),
            "client_ca",
        ),
        (
            text("", &second.replace("redirect_to_https", "redirects")),
            "redirects",
        ),
    ] {
        let mistakes =
            ludgate::settings::parse(&written, folder.path(), std::iter::empty()).expect_err(said);
        assert!(mistakes.to_string().contains(said), "{said}: {mistakes}");
    }
}
