//! In a real browser, the page that is shown while an app is away: it stays as it is until the app
//! answers, and is the app then.

use std::net::TcpListener;

use crate::support::{
    backend::{Backend, refused_port},
    chromium::Chromium,
    world::World,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_page_that_waits_for_an_app_reloads_only_when_the_answer_changes() {
    let address = refused_port().await;
    let late =
        format!("[[apps]]\nid = \"late\"\naccess = \"public\"\nupstream = \"http://{address}\"\n");
    let world = World::with(&late, |_| {}).await;
    let browser = Chromium::start("").await;
    browser
        .open(&format!("http://{}/apps/late/x", world.host))
        .await;
    assert!(
        browser.source().await.contains("502 Bad Gateway"),
        "{}",
        browser.source().await
    );
    browser.run("window.mark = 'not reloaded'").await;
    // The page has asked twice, so the first answer did not make it reload.
    let asked_twice = "let asked = 0; \
        await new Promise(done => new PerformanceObserver(entries => { \
            asked += entries.getEntries().length; if (asked >= 2) done(); \
        }).observe({ type: 'resource', buffered: true })); \
        return window.mark";
    assert_eq!(browser.run_async(asked_twice).await, "not reloaded");
    let _app = Backend::on(
        "late",
        TcpListener::bind(address).expect("the port is still free"),
    );
    let begin = std::time::Instant::now();
    while !browser.text().await.contains("late /apps/late/x") {
        assert!(
            begin.elapsed() < crate::support::message::PATIENCE,
            "{}",
            browser.source().await
        );
        // WebDriver has no event for a page that reloads itself.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    browser.close().await;
}
