//! The demo in a real browser: the launcher, an app on its path, the same app on its own host, a
//! chat over a WebSocket there, signing out.

use std::net::SocketAddr;

use ludgate::{
    demo::{self, DemoOptions},
    run::StartOptions,
};

use crate::support::{chromium::Chromium, world::free_port};

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_sees_both_modes_of_the_demo() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let running = demo::start(
        DemoOptions {
            listen,
            log_requests: false,
        },
        StartOptions::for_this_machine(),
    )
    .await
    .expect("a demo");
    let site = format!("http://{}", running.gateway.address);
    let host = |id: &str| format!("http://{id}.localhost:{}/", running.gateway.address.port());
    let browser = Chromium::start("").await;
    browser.open(&site).await;
    assert!(browser.text().await.contains("This is a demo"));
    // A public app on its own host, by the launcher's link.
    browser
        .click(&format!("a[href=\"{}\"]", host("hello")))
        .await;
    assert_eq!(browser.url().await, host("hello"));
    // Straight to a host: off to sign in, and back.
    browser.open(&host("team")).await;
    browser.click("a[href*=\"login_as=alice\"]").await;
    let team = host("team");
    browser.wait_for_url(|url| url == team).await;
    assert!(
        browser.text().await.contains("phusers"),
        "{}",
        browser.text().await
    );
    // The same sign-in on paths, and on the next host without a question.
    browser.open(&format!("{site}/apps/team/")).await;
    assert!(browser.text().await.contains("phusers"));
    browser.open(&host("chat")).await;
    assert_eq!(browser.url().await, host("chat"));
    let opened = "return new Promise(done => { const s = new WebSocket(location.href.replace('http', 'ws') + 'ws'); \
                  s.onopen = () => done('open'); s.onerror = () => done('error') })";
    assert_eq!(browser.run_async(opened).await, "open");
    browser.open(&format!("{site}/oauth2/sign_out")).await;
    browser.click("button").await;
    browser.wait_for_url(|url| url.ends_with("/apps/")).await;
    assert_eq!(
        browser.text().await.matches("Sign in").count(),
        2,
        "the browser is not signed in"
    );
    browser.open(&host("team")).await;
    assert!(
        browser.url().await.starts_with(&running.issuer),
        "{}",
        browser.url().await
    );
    browser.close().await;
}
