//! The sign-in suite against a second, certified provider: npm `oidc-provider`, as `make test`
//! installs it.

use crate::support::oidc_provider::OidcProvider;
use crate::support::{
    browser::{Browser, From},
    message::{Message, PATIENCE},
    raw::Raw,
    until::assert_soon,
    world::{SECRET, World, free_port},
};
use std::collections::BTreeMap;

async fn world(algorithm: &str) -> (World, OidcProvider) {
    world_with(algorithm, "").await
}

async fn world_with(algorithm: &str, more: &str) -> (World, OidcProvider) {
    let port = free_port();
    let provider = OidcProvider::start(&format!("127.0.0.1:{port}"), algorithm).await;
    let (_, manual_clock) = ludgate::model::clock::Clock::manual();
    let issuer = provider.issuer.clone();
    // The provider's clock is the machine's; so is the gateway's here.
    let clock = ludgate::model::clock::Clock::system();
    let client = crate::support::world::client("127.0.0.1:1");
    let unused = ludgate::demo::provider::DemoProvider::start(client, clock.clone())
        .await
        .expect("a provider");
    let world = World::behind(unused, clock, manual_clock, port, more, |settings| {
        let identity = settings.identity.as_mut().expect("an identity section");
        identity.issuer = openidconnect::IssuerUrl::new(issuer).expect("a URL");
    })
    .await
    .ready()
    .await;
    (world, provider)
}

async fn sign_in(
    world: &World,
    provider: &OidcProvider,
    target: &str,
    person: &str,
) -> (Browser, Message) {
    let mut browser = world.browser();
    let start = browser.open(target).await;
    let away = browser
        .open(&start.header("location").expect("start"))
        .await
        .header("location")
        .expect("the provider");
    let back = provider.visit(&away, person).await;
    let landed = browser.open(&back).await;
    assert_eq!(
        (landed.status(), landed.header("location").as_deref()),
        (303, Some(target)),
        "{}",
        landed.text()
    );
    let page = browser.open(target).await;
    (browser, page)
}

#[tokio::test(flavor = "multi_thread")]
async fn people_sign_in_at_a_certified_provider_and_reach_what_their_groups_allow() {
    for algorithm in ["RS256", "ES256"] {
        let (world, provider) = world(algorithm).await;
        let (mut alice, page) = sign_in(&world, &provider, "/apps/grp/x?y=%2F", "alice").await;
        assert_eq!(page.status(), 200, "{algorithm}: {}", page.text());
        let seen = world.backend("grp").last();
        assert_eq!(seen.header("x-forwarded-user").as_deref(), Some("alice"));
        assert_eq!(
            seen.header("x-forwarded-groups").as_deref(),
            Some("phusers,friends")
        );
        assert_eq!(alice.fetch("/apps/oth/").await.status(), 403);
        let (mut bob, page) = sign_in(&world, &provider, "/apps/grp/", "bob").await;
        assert_eq!(page.status(), 403);
        assert_eq!(bob.fetch("/apps/usr/").await.status(), 200);
        world.check_oracles().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_of_the_certified_provider_is_good_once_and_for_one_browser() {
    let (world, provider) = world("RS256").await;
    let mut alice = world.browser();
    let start = alice.open("/oauth2/start?rd=/apps/grp/").await;
    let back = provider
        .visit(&start.header("location").expect("the provider"), "alice")
        .await;
    assert!(back.contains("iss="), "the provider names itself: {back}");
    assert_eq!(
        world.browser().open(&back).await.status(),
        400,
        "another browser"
    );
    let without_issuer = back
        .split('&')
        .filter(|pair| !pair.starts_with("iss="))
        .collect::<Vec<_>>()
        .join("&");
    assert_eq!(
        alice.clone().open(&without_issuer).await.status(),
        400,
        "RFC 9207: promised, so required"
    );
    assert_eq!(alice.open(&back).await.status(), 303);
    let mut other = alice.clone();
    other.jar.retain(|(name, _), _| name == "ludgate-bind");
    assert_eq!(other.open(&back).await.status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_access_token_of_the_certified_provider_is_a_credential() {
    let (world, provider) = world("RS256").await;
    // The code is taken from the browser on its way back and exchanged here, to get at an access
    // token.
    let mut browser = world.browser();
    let verifier = "a-verifier-of-at-least-forty-three-characters-0123456789";
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, verifier.as_bytes());
    let challenge = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, hash);
    let away = browser
        .open("/oauth2/start?rd=/")
        .await
        .header("location")
        .expect("the provider");
    let mut url = url::Url::parse(&away).expect("a URL");
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(k, _)| k != "code_challenge")
        .map(|(k, v)| (k.into(), v.into()))
        .collect();
    url.query_pairs_mut()
        .clear()
        .extend_pairs(kept)
        .append_pair("code_challenge", &challenge);
    let back = provider.visit(url.as_str(), "alice").await;
    let code = url::form_urlencoded::parse(back.split_once('?').expect("a query").1.as_bytes())
        .find(|(k, _)| k == "code")
        .expect("a code")
        .1
        .into_owned();
    let form = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("code_verifier", verifier),
        ])
        .append_pair(
            "redirect_uri",
            &format!("http://{}/oauth2/callback", world.host),
        )
        .finish();
    let basic = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        format!("ludgate:{SECRET}"),
    );
    let address = provider
        .issuer
        .strip_prefix("http://")
        .expect("http")
        .to_owned();
    let request = format!(
        "POST /token HTTP/1.1\r\nHost: {address}\r\nAuthorization: Basic {basic}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}",
        form.len()
    );
    let tokens = Raw::exchange(address.parse().expect("an address"), request)
        .await
        .json();
    let access = tokens["access_token"]
        .as_str()
        .unwrap_or_else(|| panic!("{tokens}"));
    let id_token = tokens["id_token"].as_str().expect("an ID token");
    let with = |token: &str| format!("Authorization: Bearer {token}\r\n");
    assert_eq!(
        world
            .browser()
            .send("GET", "/apps/grp/", From::Program, &with(access), b"")
            .await
            .status(),
        200
    );
    assert_eq!(
        world
            .browser()
            .send("GET", "/apps/grp/", From::Program, &with(id_token), b"")
            .await
            .status(),
        401,
        "an ID token is none"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_tabs_sign_in_at_the_certified_provider_and_each_lands_on_its_own_page() {
    let (world, provider) = world("ES256").await;
    let mut browser = world.browser();
    let mut pending = Vec::new();
    for tab in 0..10 {
        let target = format!("/apps/grp/tab?n={tab}");
        let start = browser
            .open(&target)
            .await
            .header("location")
            .expect("start");
        pending.push((
            browser
                .open(&start)
                .await
                .header("location")
                .expect("the provider"),
            target,
        ));
    }
    assert_eq!(
        (browser.jar.len(), world.running.internals().session_count()),
        (1, 0),
        "one cookie, no memory"
    );
    pending.reverse();
    for (authorize, target) in pending {
        let back = provider.visit(&authorize, "alice").await;
        assert_eq!(
            browser.open(&back).await.header("location"),
            Some(target.clone())
        );
        assert_eq!(browser.open(&target).await.status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_of_the_certified_provider_are_told_who_they_are_why_not_and_can_sign_out() {
    let (world, provider) = world("RS256").await;
    let (mut carol, page) = sign_in(&world, &provider, "/apps/usr/", "carol").await;
    assert_eq!(page.status(), 200);
    let said = carol.fetch("/oauth2/userinfo").await.json();
    assert_eq!(
        (said["user"].as_str(), &said["groups"]),
        (Some("carol"), &serde_json::json!(["guests"]))
    );
    let refused = carol.open("/apps/grp/x").await;
    assert_eq!(refused.status(), 403);
    assert!(refused.text().contains("Use another account") && refused.text().contains("carol"));
    let before = carol.clone();
    assert_eq!(carol.sign_out().await.status(), 200);
    assert!(carol.jar.is_empty());
    assert_eq!(before.clone().fetch("/apps/usr/").await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_out_at_the_certified_provider_ends_what_is_open_here() {
    let (world, provider) = world("RS256").await;
    let (mut browser, mut jar) = (world.browser(), BTreeMap::new());
    let start = browser
        .open("/apps/usr/")
        .await
        .header("location")
        .expect("start");
    let away = browser
        .open(&start)
        .await
        .header("location")
        .expect("the provider");
    let back = provider.visit_with(&mut jar, &away, "alice").await;
    assert_eq!(browser.open(&back).await.status(), 303);
    assert_eq!(browser.fetch("/apps/usr/x").await.status(), 200);
    let (mut other, _) = sign_in(&world, &provider, "/apps/usr/", "alice").await;
    let (mut socket, mut events) = (
        world.websocket(&browser, "usr").await,
        world.events(&browser, "usr").await,
    );
    let since = std::time::Instant::now();
    provider.sign_out(&mut jar).await;
    assert_eq!(socket.farewell().await, Some(1008));
    assert!(events.is_closed().await);
    assert_soon(std::time::Duration::from_secs(2), since.elapsed());
    assert_eq!(browser.fetch("/apps/usr/x").await.status(), 401);
    assert_eq!(
        other.fetch("/apps/usr/x").await.status(),
        200,
        "her other browser is signed in by itself"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_requests_at_recheck_do_not_trip_a_provider_that_detects_reuse() {
    let (world, provider) = world_with("ES256", "[session]\nrecheck = \"2s\"\n").await;
    let (mut alice, page) = sign_in(&world, &provider, "/apps/grp/x", "alice").await;
    assert_eq!(page.status(), 200);
    let refreshed = async || {
        let metrics = world.admin("/metrics", "").await.text();
        let of = |result: &str| {
            let name =
                format!("ludgate_oidc_requests_total{{endpoint=\"refresh\",result=\"{result}\"}}");
            let line = metrics
                .lines()
                .find(|line| line.starts_with(&name))
                .map(str::to_owned);
            line.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok())
                .unwrap_or(0)
        };
        (of("ok"), of("refused"))
    };
    for round in 1..=3 {
        let cookies = alice.cookie_line("/apps/grp/");
        let asked = async {
            while refreshed().await.0 < round {
                let all: Vec<_> = (0..200)
                    .map(|_| {
                        let request = format!(
                            "GET /apps/grp/x HTTP/1.1\r\nHost: {}\r\n{}{cookies}Connection: close\r\n\r\n",
                            world.host,
                            From::Fetch.headers()
                        );
                        tokio::spawn(Raw::exchange(world.running.address, request))
                    })
                    .collect();
                for one in all {
                    assert_eq!(one.await.expect("no panic").status(), 200, "round {round}");
                }
            }
        };
        tokio::time::timeout(PATIENCE, asked)
            .await
            .expect("it is asked again");
    }
    let (ok, refused) = refreshed().await;
    assert!(ok >= 3 && refused == 0, "{ok} {refused}");
    assert_eq!(
        alice.fetch("/apps/grp/x").await.status(),
        200,
        "the grant still stands"
    );
}
