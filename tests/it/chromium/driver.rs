//! The driver of the real browser itself: what it says of pages, cookies and scripts is so, and it
//! leaves nothing.

use std::{sync::Arc, time::Duration};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpListener};
use tokio_rustls::TlsAcceptor;

use crate::support::{
    backend::Backend,
    chromium::{Chromium, Cookie, runs},
    message::{PATIENCE, Reader},
};

/// A whole answer with a page.
fn page(headers: &str, html: &str) -> Vec<u8> {
    let length = html.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{headers}Content-Length: {length}\r\n\r\n{html}")
        .into()
}

/// An app that answers everything with this page, and the port it is on.
async fn app(headers: &str, html: &str) -> (Backend, u16) {
    let backend = Backend::start("app").await;
    backend.script(page(headers, html));
    let port = backend.address().port();
    (backend, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_opened_and_read_and_its_links_and_scripts_work() {
    let html = "<title>A page</title><a href='/next?n=1'>on</a> <p hidden>unseen</p>\
                <button onclick='setTimeout(() => location.hash = \"late\", 100)'>later</button>";
    let (backend, port) = app("", html).await;
    let chromium = Chromium::start("MAP *.test 127.0.0.1").await;
    chromium.open(&format!("http://a.test:{port}/")).await;
    assert_eq!(chromium.title().await, "A page");
    assert!(chromium.source().await.contains("unseen"));
    assert_eq!(chromium.text().await, "on later");
    chromium.click("a").await;
    assert_eq!(
        chromium.url().await,
        format!("http://a.test:{port}/next?n=1")
    );
    chromium.click("button").await;
    assert!(
        chromium
            .wait_for_url(|url| url.ends_with("#late"))
            .await
            .contains("/next?n=1#")
    );
    assert_eq!(
        chromium
            .run("return { host: location.hostname, n: 1 + 1 }")
            .await,
        json!({ "host": "a.test", "n": 2 })
    );
    assert_eq!(chromium.run("document.title = 'Other'").await, json!(null));
    assert_eq!(
        chromium
            .run_async("const got = await fetch('/x'); return got.status")
            .await,
        json!(200)
    );
    chromium.run("console.error('a mistake')").await;
    let errors = chromium.errors().await;
    assert!(
        errors.iter().any(|error| error.contains("a mistake")),
        "{errors:?}"
    );
    assert_eq!(chromium.errors().await, Vec::<String>::new());
    let targets: Vec<String> = backend
        .seen()
        .iter()
        .map(|seen| seen.target().to_owned())
        .collect();
    assert!(
        ["/", "/next?n=1", "/x"]
            .iter()
            .all(|wanted| targets.iter().any(|t| t == wanted)),
        "{targets:?}"
    );
    chromium.new_tab().await;
    assert_eq!(chromium.url().await, "about:blank");
    assert!(chromium.screenshot().await.starts_with(b"\x89PNG\r\n"));
    chromium.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_is_seen_on_its_own_host_only_and_in_the_whole_jar() {
    let set = "Set-Cookie: own=1; Path=/; HttpOnly; SameSite=Strict\r\nSet-Cookie: plain=2\r\n";
    let (_app, port) = app(set, "set").await;
    let (_other, other) = app("", "not set").await;
    let chromium = Chromium::start("").await;
    chromium.open(&format!("http://a.localhost:{port}/")).await;
    let cookie = |name: &str, value: &str, http_only, same_site: Option<&str>| Cookie {
        name: name.to_owned(),
        value: value.to_owned(),
        domain: "a.localhost".to_owned(),
        path: "/".to_owned(),
        secure: false,
        http_only,
        same_site: same_site.map(str::to_owned),
    };
    let own = cookie("own", "1", true, Some("Strict"));
    assert_eq!(
        chromium.cookies().await,
        [own.clone(), cookie("plain", "2", false, Some("Lax"))]
    );
    assert_eq!(
        chromium.run("return document.cookie").await,
        json!("plain=2")
    );
    chromium.open(&format!("http://b.localhost:{other}/")).await;
    assert_eq!(chromium.cookies().await, []);
    assert_eq!(
        chromium.all_cookies().await,
        [own, cookie("plain", "2", false, None)]
    );
    // Nothing of it is in another browser.
    assert_eq!(Chromium::start("").await.all_cookies().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_with_an_unknown_issuer_is_opened_and_is_secure() {
    let made =
        rcgen::generate_simple_self_signed(vec!["gw.test".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let settings = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a certificate and its key");
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let (read, mut write) = tokio::io::split(acceptor.accept(stream).await?);
                let mut reader = Reader::new(read);
                while reader.message(false).await?.is_some() {
                    let answer = page("Set-Cookie: __Host-own=1; Path=/; Secure\r\n", "safe");
                    write.write_all(&answer).await?;
                }
                std::io::Result::Ok(())
            });
        }
    });
    let chromium = Chromium::start("MAP *.test 127.0.0.1").await;
    chromium.open(&format!("https://gw.test:{port}/")).await;
    assert_eq!(chromium.text().await, "safe");
    assert_eq!(chromium.run("return isSecureContext").await, json!(true));
    let cookies = chromium.cookies().await;
    assert!(
        cookies.len() == 1 && cookies[0].secure && cookies[0].name == "__Host-own",
        "{cookies:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_a_browser_is_left_when_it_is_closed_or_dropped() {
    for close in [true, false] {
        let chromium = Chromium::start("").await;
        let ids = chromium.processes();
        let now = ids.iter().filter(|id| runs(**id)).count();
        assert!(
            now > 2,
            "chromedriver, Chromium, its pages, of which some have ended: {ids:?}"
        );
        if close {
            chromium.close().await;
        } else {
            drop(chromium);
        }
        // One that was killed lets go of its files, which `drop` waits for, an instant before it is
        // gone.
        let gone = async {
            while ids.iter().any(|id| runs(*id)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, gone)
            .await
            .expect("all are gone");
    }
}
