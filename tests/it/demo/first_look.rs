//! `ludgate demo` as a stranger meets it: the launcher, four apps, a refusal that helps, a chat.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use ludgate::{
    demo::{self, DemoOptions, RunningDemo},
    run::StartOptions,
};
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest};

use crate::support::{
    browser::{Browser, From},
    origins::Origins,
    world::free_port,
};

async fn start() -> (RunningDemo, Browser) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let demo = demo::start(
        DemoOptions {
            listen,
            log_requests: false,
        },
        StartOptions::for_this_machine(),
    )
    .await
    .expect("a demo");
    let address = demo.gateway.address;
    (demo, Browser::new(address, &address.to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_opens_the_demo_signs_in_as_alice_and_opens_all_four_apps() {
    let (demo, mut browser) = start().await;
    assert!(
        demo.welcome()
            .contains(&format!("open http://{}/", demo.gateway.address))
    );
    let page = browser.open("/apps/").await.text();
    assert!(
        page.contains("This is a demo") && page.contains("Hello") && page.contains("Sign in"),
        "{page}"
    );
    assert_eq!(browser.open("/apps/hello/").await.status(), 200);
    assert!(browser.jar.is_empty(), "no cookie before the sign-in");
    let whoami = browser.sign_in("/apps/whoami/", "alice").await.text();
    assert!(
        whoami.contains("alice") && !whoami.contains(&browser.value("ludgate").expect("a sign-in")),
        "{whoami}"
    );
    assert!(browser.open("/apps/team/").await.text().contains("phusers"));
    assert_eq!(browser.open("/apps/chat/").await.status(), 200);
    let launcher = browser.open("/apps/").await.text();
    assert!(
        launcher.contains("Alice") && launcher.contains("Sign out"),
        "{launcher}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn carol_is_refused_by_the_team_room_and_offered_another_account() {
    let (_demo, mut browser) = start().await;
    browser.sign_in("/apps/whoami/", "carol").await;
    let page = browser.open("/apps/team/").await;
    assert_eq!(page.status(), 403);
    for said in [
        "Carol",
        "Team room",
        "membership of the group phusers",
        "Use another account",
    ] {
        assert!(page.text().contains(said), "{said}: {}", page.text());
    }
    assert_eq!(browser.open("/apps/chat/").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_chat_over_real_websockets_through_the_gate() {
    let (demo, mut alice) = start().await;
    let mut bob = Browser::new(demo.gateway.address, &demo.gateway.address.to_string());
    alice.sign_in("/apps/chat/", "alice").await;
    bob.sign_in("/apps/chat/", "bob").await;
    let mut sockets = Vec::new();
    for browser in [&alice, &bob] {
        let mut request = format!("ws://{}/apps/chat/ws", demo.gateway.address)
            .into_client_request()
            .expect("a request");
        let headers = request.headers_mut();
        headers.insert(
            "cookie",
            browser.cookies("/apps/chat/").parse().expect("a value"),
        );
        headers.insert(
            "origin",
            format!("http://{}", demo.gateway.address)
                .parse()
                .expect("a value"),
        );
        let stream = tokio::net::TcpStream::connect(demo.gateway.address)
            .await
            .expect("connected");
        sockets.push(
            tokio_tungstenite::client_async(request, stream)
                .await
                .expect("a WebSocket")
                .0,
        );
    }
    sockets[0]
        .send(Message::text("hello from alice"))
        .await
        .expect("sent");
    let heard = loop {
        let frame =
            tokio::time::timeout(crate::support::message::PATIENCE, sockets[1].next()).await;
        let frame = frame.expect("in time").expect("a frame").expect("no error");
        assert!(!frame.is_close(), "{frame:?}");
        if let Message::Text(text) = frame {
            break text.to_string();
        }
    };
    assert!(
        heard.contains("hello from alice") && heard.contains("\"alice\""),
        "{heard}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_loopback_name_is_sent_on_to_the_site() {
    let (demo, _) = start().await;
    let port = demo.gateway.address.port();
    let mut other = Browser::new(demo.gateway.address, &format!("localhost:{port}"));
    let answer = other.open("/apps/whoami/?x").await;
    assert_eq!(answer.status(), 307);
    assert_eq!(
        answer.header("location"),
        Some(format!("http://127.0.0.1:{port}/apps/whoami/?x"))
    );
    assert_eq!(
        other
            .send("GET", "/apps/hello/", From::Fetch, "", b"")
            .await
            .status(),
        421
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_s_page_says_that_it_is_for_the_demo_only() {
    let (demo, mut browser) = start().await;
    let start = browser
        .open("/oauth2/start?rd=/apps/")
        .await
        .header("location")
        .expect("the provider");
    let url = url::Url::parse(&start).expect("a URL");
    assert!(start.starts_with(&demo.issuer));
    let mut there = Browser::new(
        format!("127.0.0.1:{}", url.port().expect("a port"))
            .parse()
            .expect("an address"),
        url.authority(),
    );
    let page = there
        .open(&format!("{}?{}", url.path(), url.query().expect("a query")))
        .await
        .text();
    for said in [
        "alice",
        "bob",
        "carol",
        "phusers",
        "asks for no password",
        "this machine only",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_serves_every_app_on_a_host_of_its_own_too() {
    let (demo, mut browser) = start().await;
    let host = |id: &str| format!("http://{id}.localhost:{}/", demo.gateway.address.port());
    let launcher = browser.open("/apps/").await.text();
    for id in ["hello", "whoami", "team", "chat"] {
        assert!(demo.welcome().contains(&host(id)), "{}", demo.welcome());
    }
    assert!(
        launcher.contains(&format!("href=\"{}\"", host("hello"))),
        "{launcher}"
    );
    let mut alice = Origins::with_gateway(demo.gateway.address);
    assert_eq!(alice.open(&host("hello")).await.status(), 200);
    for id in ["team", "whoami", "chat"] {
        let (end, page) = alice.follow(&host(id), "alice").await;
        assert_eq!((page.status(), end), (200, host(id)));
    }
    let (_, page) = Origins::with_gateway(demo.gateway.address)
        .follow(&host("team"), "carol")
        .await;
    assert_eq!(page.status(), 403);
    assert!(
        page.text().contains("Use another account"),
        "{}",
        page.text()
    );
}
