//! A real browser at a port that changes hands: what the last tenant's pages left must not meet the
//! next one.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    arvados::Arvados, backend::Backend, chromium::Chromium, cluster::section, secure::Secure,
};

/// An answer of one kind to every request.
fn always(kind: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A service worker that would answer every page of the origin itself.
const WORKER: &str = "self.addEventListener('install', e => e.waitUntil(skipWaiting())); \
    self.addEventListener('activate', e => e.waitUntil(clients.claim())); \
    self.addEventListener('fetch', e => e.respondWith(fetch(e.request)))";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_last_tenant_is_left_in_the_browser() {
    let (arvados, folder) = (
        Arvados::start().await,
        tempfile::tempdir().expect("a folder"),
    );
    let ports = "ports = { host = \"ports.test\", range = \"20000-20009\" }\n";
    let secure = Secure::with(&section(&arvados, &folder, ports)).await;
    let app = Backend::start("container").await;
    let alice = arvados.add_user("alice", false);
    let published = json!({"80": {"access": "public", "label": "Page", "external_port": 20001}});
    let (submitters, ports) = ([alice.uuid.as_str()], [(80, app.address())]);
    let tenant = || arvados.add_container(&submitters, published.clone(), &ports);
    let first = tenant().await;
    let rules = format!("{},MAP *.test 127.0.0.1", secure.rule(20001));
    let browser = Chromium::believing(&rules, Some(&secure.key)).await;
    let page = "https://ports.test:20001/a/deep/page";

    app.script(always("text/html", "first"));
    browser.open(page).await;
    assert_eq!(browser.text().await, "first");
    app.script(always("text/javascript", WORKER));
    let ready = "await navigator.serviceWorker.register('/sw.js', { scope: '/' }); \
                 await navigator.serviceWorker.ready; return 'ready'";
    assert_eq!(browser.run_async(ready).await, "ready");
    browser
        .run(
            "localStorage.setItem('left', '1'); document.cookie = 'root=1; Path=/; Max-Age=9999; Secure'; \
             document.cookie = 'deep=1; Path=/a/deep; Max-Age=9999; Secure'",
        )
        .await;
    app.script(always("text/html", "first"));
    browser.open(page).await;
    assert_eq!(
        browser.run("return document.cookie").await,
        "deep=1; root=1"
    );
    assert_eq!(
        browser
            .run("return navigator.serviceWorker.controller !== null")
            .await,
        true
    );

    arvados.set_state(&first.uuid, "Complete");
    tenant().await;
    secure.manual_clock.advance(Duration::from_secs(61));
    app.script(always("text/html", "second"));
    let before = app.count();
    browser.open(page).await;
    assert_eq!(
        (browser.url().await.as_str(), browser.text().await.as_str()),
        (page, "second")
    );
    assert_eq!(browser.run("return document.cookie").await, "");
    assert_eq!(
        browser.run("return localStorage.getItem('left')").await,
        Value::Null
    );
    let workers = "return (await navigator.serviceWorker.getRegistrations()).length";
    assert_eq!(browser.run_async(workers).await, 0, "the worker is gone");
    let seen = &app.seen()[before..];
    assert!(
        seen.iter()
            .all(|request| request.header("cookie").is_none()),
        "the next tenant saw none: {seen:?}"
    );
    // And once is enough: what the new tenant keeps stays.
    browser
        .run("localStorage.setItem('mine', '1'); document.cookie = 'mine=1; Path=/; Secure'")
        .await;
    browser.open(page).await;
    assert_eq!(
        browser
            .run("return localStorage.getItem('mine') + document.cookie")
            .await,
        "1mine=1"
    );
    browser.close().await;
}
