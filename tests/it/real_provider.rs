//! The sign-in suite against a second, certified provider: npm `oidc-provider`, as `make test`
//! installs it.

use std::{collections::BTreeMap, process::Stdio};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::support::{
    browser::{Browser, From, path_of},
    message::{Message, PATIENCE},
    raw::Raw,
    world::{SECRET, World, free_port},
};

/// The provider's process; killed with the value.
struct OidcProvider {
    _process: Child,
    issuer: String,
}

fn left_out() -> bool {
    let out = std::env::var("LUDGATE_TEST_WITHOUT").unwrap_or_default();
    let skip = out.split(',').any(|name| name == "oidc-provider");
    if skip {
        eprintln!("left out: oidc-provider (LUDGATE_TEST_WITHOUT={out})");
    }
    skip
}

/// State, processor time and place in the kernel of each thread of a process.
fn what_it_does(process: u32) -> String {
    let read = |file: &std::path::Path| std::fs::read_to_string(file).unwrap_or_default();
    let threads = std::fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let one = |thread: std::path::PathBuf| {
        format!(
            "{} wchan {}\n",
            read(&thread.join("stat")).trim_end(),
            read(&thread.join("wchan"))
        )
    };
    threads.map(|thread| one(thread.path())).collect()
}

impl OidcProvider {
    /// A Node.js that has said nothing for half a minute is ended and started anew, at most twice,
    /// and what it was doing is printed: seen once among some hundred starts, with nothing of ours
    /// under way yet.
    async fn start(host: &str, algorithm: &str) -> OidcProvider {
        for _ in 0..3 {
            let (mut process, mut lines) = Self::spawn(host, algorithm);
            let Ok(line) = tokio::time::timeout(PATIENCE, lines.next_line()).await else {
                eprintln!("{}", what_it_does(process.id().expect("it runs")));
                process.kill().await.expect("it ends");
                continue;
            };
            let line = line
                .expect("readable")
                .expect("a line: was `npm ci` run in tests/real/oidc-provider?");
            let said: Value = serde_json::from_str(&line).expect("JSON");
            let issuer = said["issuer"].as_str().expect("an issuer").to_owned();
            return OidcProvider {
                _process: process,
                issuer,
            };
        }
        panic!("the provider did not start, three times over");
    }

    fn spawn(host: &str, algorithm: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/oidc-provider");
        let mut process = Command::new("node")
            .arg("op.mjs")
            .current_dir(folder)
            .env("REDIRECT_URI", format!("http://{host}/oauth2/callback"))
            .env("CLIENT_SECRET", SECRET)
            .env(
                "BACKCHANNEL_LOGOUT_URI",
                format!("http://{host}/oauth2/backchannel_logout"),
            )
            .env("ID_TOKEN_ALG", algorithm)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("node is installed; `make test` installs it");
        let lines = BufReader::new(process.stdout.take().expect("an output")).lines();
        (process, lines)
    }

    /// What a browser does there: redirects and cookies, and a click on a name.
    async fn visit(&self, authorize: &str, person: &str) -> String {
        self.visit_with(&mut BTreeMap::new(), authorize, person)
            .await
    }

    /// One request of a browser there, with its cookies; `more` ends the head.
    async fn ask(&self, jar: &mut BTreeMap<String, String>, start: &str, more: &str) -> Message {
        let address: std::net::SocketAddr = self
            .issuer
            .strip_prefix("http://")
            .expect("http")
            .parse()
            .expect("an address");
        let cookies: Vec<String> = jar
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let request = format!(
            "{start} HTTP/1.1\r\nHost: {address}\r\nCookie: {}\r\nConnection: close\r\n{more}",
            cookies.join("; ")
        );
        let answer: Message = Raw::exchange(address, request).await;
        for line in answer.all("set-cookie") {
            let (name, value) = line
                .split(';')
                .next()
                .and_then(|pair| pair.split_once('='))
                .expect("a pair");
            jar.insert(name.to_owned(), value.to_owned());
        }
        answer
    }

    /// Signs the browser out there, which tells whoever it had signed in to.
    async fn sign_out(&self, jar: &mut BTreeMap<String, String>) {
        let page = self.ask(jar, "GET /session/end", "\r\n").await.text();
        let token = page
            .split("name=\"xsrf\" value=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let body = format!(
            "xsrf={}&logout=yes",
            token.unwrap_or_else(|| panic!("no token in {page}"))
        );
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let more = format!("{kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let done = self.ask(jar, "POST /session/end/confirm", &more).await;
        assert!(matches!(done.status(), 200 | 302 | 303), "{}", done.text());
    }

    async fn visit_with(
        &self,
        jar: &mut BTreeMap<String, String>,
        authorize: &str,
        person: &str,
    ) -> String {
        let mut target = path_of(authorize);
        for _ in 0..8 {
            let answer = self.ask(jar, &format!("GET {target}"), "\r\n").await;
            let location = answer
                .header("location")
                .unwrap_or_else(|| panic!("{}: {}", answer.start, answer.text()));
            match location.strip_prefix(&self.issuer).unwrap_or(&location) {
                away if away.starts_with("http") => return path_of(away),
                uid if uid.starts_with("/interaction/") => target = format!("{uid}?login={person}"),
                other => target = other.to_owned(),
            }
        }
        panic!("the provider goes in circles");
    }
}

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
    let unused = ludgate::demo::provider::Provider::start(client, clock.clone())
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
    if left_out() {
        return;
    }
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
    if left_out() {
        return;
    }
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
    if left_out() {
        return;
    }
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
    if left_out() {
        return;
    }
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
        (
            browser.jar.len(),
            world.running.gateway.sessions.store.count()
        ),
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
    if left_out() {
        return;
    }
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
    let page = carol.open("/oauth2/sign_out").await.text();
    let token = crate::session_store::field(&page, "token");
    let form = format!("token={token}&rd=");
    let own = format!("Origin: http://{}\r\n", world.host);
    assert_eq!(
        carol
            .send(
                "POST",
                "/oauth2/sign_out",
                From::Program,
                &own,
                form.as_bytes()
            )
            .await
            .status(),
        200
    );
    assert!(carol.jar.is_empty());
    assert_eq!(before.clone().fetch("/apps/usr/").await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_out_at_the_certified_provider_ends_what_is_open_here() {
    if left_out() {
        return;
    }
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
    assert!(
        since.elapsed() < std::time::Duration::from_secs(2),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(browser.fetch("/apps/usr/x").await.status(), 401);
    assert_eq!(
        other.fetch("/apps/usr/x").await.status(),
        200,
        "her other browser is signed in by itself"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_requests_at_recheck_time_do_not_cost_the_grant_of_a_provider_that_detects_reuse()
 {
    if left_out() {
        return;
    }
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
