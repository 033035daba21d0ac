//! The provider is away, slow, broken, or comes back: everything but signing in goes on.

use ludgate::{demo::provider::DemoProvider, model::clock::Clock};
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{
    browser::From,
    diagnostics::Diagnostics,
    until::until_async,
    world::{SECRET, World, client, free_port},
};

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_starts_without_its_provider_and_finds_it_when_it_comes() {
    let (clock, manual_clock) = Clock::manual();
    let (port, provider_port) = (free_port(), free_port());
    let elsewhere = DemoProvider::start(client("127.0.0.1:1"), clock.clone())
        .await
        .expect("a provider");
    let issuer = format!("http://127.0.0.1:{provider_port}");
    let world = World::behind(
        elsewhere,
        clock.clone(),
        manual_clock,
        port,
        "",
        |settings| {
            let identity = settings.identity.as_mut().expect("an identity section");
            identity.issuer = openidconnect::IssuerUrl::new(issuer).expect("a URL");
        },
    )
    .await;
    assert_eq!(
        world.browser().fetch("/apps/pub/").await.status(),
        200,
        "public apps are served"
    );
    assert_eq!(world.admin("/readyz", "").await.status(), 200);
    let mut browser = world.browser();
    let start = browser.open("/apps/grp/").await;
    assert_eq!(start.status(), 302);
    let page = browser
        .open(&start.header("location").expect("start"))
        .await;
    assert_eq!(page.status(), 503);
    assert!(
        page.header("retry-after").is_some() && page.text().contains("Sign in again"),
        "{}",
        page.text()
    );
    let token = "Authorization: Bearer e30.eyJpc3MiOiJub3QtdXMifQ.x\r\n";
    assert_eq!(
        world
            .browser()
            .send("GET", "/apps/grp/", From::Program, token, b"")
            .await
            .status(),
        401
    );
    let listener = TcpListener::bind(("127.0.0.1", provider_port))
        .await
        .expect("the port");
    let provider =
        DemoProvider::start_on(listener, client(&world.host), clock).expect("a provider");
    let _world = world.ready().await;
    assert_eq!(
        browser.sign_in("/apps/grp/", "alice").await.status(),
        200,
        "no restart was needed"
    );
    assert!(provider.calls("token") == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_dies_ends_no_session_and_its_outage_is_logged() {
    let lines = Diagnostics::all();
    // A provider on a runtime of its own, which can be taken away as a whole.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()
        .expect("a runtime");
    let (clock, manual_clock) = Clock::manual();
    let port = free_port();
    let starting = runtime.spawn(DemoProvider::start(
        client(&format!("127.0.0.1:{port}")),
        clock.clone(),
    ));
    let provider = starting.await.expect("started").expect("a provider");
    let issuer = provider.issuer().to_owned();
    let world = World::behind(provider, clock.clone(), manual_clock, port, "", |_| {})
        .await
        .ready()
        .await;
    let mut alice = world.signed_in("alice").await;
    let verbose = world.admin("/readyz?verbose", "").await.text();
    assert!(verbose.contains("identity provider: known\n"), "{verbose}");
    let mut late = world.browser();
    let start = late.open("/apps/usr/").await;
    let away = late
        .open(&start.header("location").expect("start"))
        .await
        .header("location")
        .expect("the provider");
    let back = crate::support::browser::at_built_in_provider(&away, "alice").await;
    runtime.shutdown_background();
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
    let page = late.open(&back).await;
    assert_eq!(
        page.status(),
        503,
        "the code cannot be exchanged: {}",
        page.text()
    );
    assert!(page.header("retry-after").is_some() && late.value("ludgate").is_none());
    assert!(!page.text().contains(SECRET));
    let begun = lines.lines_with(&["calls to the identity provider fail", &issuer]);
    assert!(
        begun.len() == 1 && begun[0].contains("WARN") && begun[0].contains("endpoint=\"token\""),
        "{begun:?}"
    );
    let verbose = world.admin("/readyz?verbose", "").await.text();
    assert!(
        verbose.contains("degraded: identity provider\n")
            && verbose.contains("identity provider: degraded: failing for "),
        "{verbose}"
    );
    // It comes back at its address.
    let mut listener = None;
    until_async("its port is free", async || {
        listener = TcpListener::bind(issuer.trim_start_matches("http://"))
            .await
            .ok();
        listener.is_some()
    })
    .await;
    let listener = listener.expect("the port");
    DemoProvider::start_on(listener, client(&world.host), clock).expect("a provider");
    world.signed_in("bob").await;
    let ended = lines
        .until_line(&["the identity provider answers again", &issuer])
        .await;
    assert!(ended.contains("INFO"), "{ended}");
    let verbose = world.admin("/readyz?verbose", "").await.text();
    assert!(verbose.contains("identity provider: known\n"), "{verbose}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_with_a_slash_too_many_is_reported_with_the_remedy() {
    let lines = Diagnostics::all();
    let world = World::with("", |settings| {
        let identity = settings.identity.as_mut().expect("an identity section");
        let issuer = format!("{}/", identity.issuer.as_str());
        identity.issuer = openidconnect::IssuerUrl::new(issuer).expect("a URL");
    })
    .await;
    let remedy = format!("set identity.issuer to {:?}", world.provider.issuer());
    lines
        .until_line(&["cannot discover the identity provider", &remedy])
        .await;
    until_async("the cause is on the probe", async || {
        let verbose = world.admin("/readyz?verbose", "").await.text();
        verbose.contains("identity provider: degraded: not known yet: ")
            && verbose.contains(&remedy)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_group_look_up_refuses_the_sign_in() {
    let world = World::new().await.ready().await;
    // Userinfo of another person: the ID token has no groups, and the two subjects differ.
    world.provider.set_mischief(Some(Box::new(|_, claims| {
        claims.as_object_mut().expect("claims").remove("groups");
        claims["sub"] = json!("mallory");
    })));
    let mut browser = world.browser();
    let start = browser.open("/apps/usr/").await;
    let landed = browser.sign_in_from(&start, "alice").await;
    assert_eq!(landed.status(), 503, "{}", landed.text());
    assert!(browser.value("ludgate").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_that_comes_while_the_provider_is_being_asked_for_the_first_time_waits_for_it() {
    let (clock, manual_clock) = Clock::manual();
    let port = free_port();
    let elsewhere = DemoProvider::start(client("127.0.0.1:1"), clock.clone())
        .await
        .expect("a provider");
    // It listens, and does not answer yet.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let issuer = format!("http://{}", listener.local_addr().expect("an address"));
    let world = World::behind(
        elsewhere,
        clock.clone(),
        manual_clock,
        port,
        "",
        |settings| {
            let identity = settings.identity.as_mut().expect("an identity section");
            identity.issuer = openidconnect::IssuerUrl::new(issuer).expect("a URL");
        },
    )
    .await;
    let mut browser = world.browser();
    let waiting =
        tokio::spawn(async move { browser.open("/oauth2/start?rd=/apps/grp/&go=1").await });
    world.until_counted("ludgate_requests_in_flight 1").await;
    let _provider =
        DemoProvider::start_on(listener, client(&world.host), clock).expect("a provider");
    let answer = waiting.await.expect("no panic");
    assert_eq!(answer.status(), 302, "{}", answer.text());
    assert!(
        answer
            .header("location")
            .expect("to the provider")
            .contains("/authorize?")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_the_provider_refuses_is_our_fault_and_the_log_has_the_number_of_the_page() {
    let lines = Diagnostics::all();
    let world = World::with("", |settings| {
        let identity = settings.identity.as_mut().expect("an identity section");
        identity.client_secret = Some(ludgate::model::secret::Secret::new("wrong"));
    })
    .await
    .ready()
    .await;
    let mut browser = world.browser();
    let start = browser.open("/apps/usr/").await;
    let landed = browser.sign_in_from(&start, "alice").await;
    assert_eq!(landed.status(), 500, "{}", landed.text());
    assert!(
        landed.text().contains("Please contact your administrator"),
        "{}",
        landed.text()
    );
    let id = landed.header("x-request-id").expect("an id");
    let text = lines.text();
    let line = text
        .lines()
        .find(|line| line.contains("sign_in_failed"))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(
        line.contains(&id) && line.contains("invalid_client"),
        "{line}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_claim_that_nothing_carries_is_said_once() {
    let lines = Diagnostics::all();
    let world = World::with("", |settings| {
        settings
            .identity
            .as_mut()
            .expect("an identity section")
            .groups_claim = "roles".into();
    })
    .await
    .ready()
    .await;
    for person in ["alice", "bob"] {
        let mut browser = world.signed_in(person).await;
        assert_eq!(browser.fetch("/apps/grp/x").await.status(), 403);
    }
    let text = lines.text();
    let said: Vec<_> = text.lines().filter(|line| line.contains("roles")).collect();
    assert!(
        said.len() == 1 && said[0].contains("WARN") && said[0].contains("groups sid"),
        "{text}"
    );
}
