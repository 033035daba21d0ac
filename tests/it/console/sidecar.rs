//! In front of a console that has a login of its own: it notices nothing, and the apps below it
//! none of its secrets.

mod client;
mod exactly;

use std::{net::SocketAddr, time::Duration};

use crate::support::{
    backend::refused_port,
    browser::{Browser, From},
    console::{
        Console,
        answers::{FILE, SECRETS, pattern},
        websocket::frame,
    },
    message::Message,
    raw::Raw,
    world::World,
};
use client::{Client, Told};

const MASK: [u8; 4] = [1, 2, 3, 4];

/// Configured as a platform with such a console would.
async fn sidecar_of(console: SocketAddr) -> World {
    let site = format!(
        "apps_prefix = \"/console/apps\"\nconsole = \"http://{console}\"\n\
         console_cookies = [\"accessToken\", \"refreshToken\", \"apiToken\"]\n"
    );
    World::of_site(&site).await.ready().await
}

/// A browser whose person has a sign-in and a session at `grp`.
async fn signed_in(world: &World) -> Browser {
    let mut browser = world.browser();
    let page = browser.sign_in("/console/apps/grp/", "alice").await;
    assert_eq!(page.status(), 200, "{}", page.text());
    browser
}

/// The same visit twice, first without Ludgate; what was told and what the console saw, each time.
async fn visits(ours: &str) -> [(Told, Vec<Message>); 2] {
    let console = Console::start().await;
    let world = sidecar_of(console.address()).await;
    let mut client = Client {
        address: console.address(),
        host: world.host.clone(),
        token: world.provider.access_token("alice"),
        ours: String::new(),
    };
    let direct = (client.visit().await, console.take_seen());
    client.address = world.running.address;
    if !ours.is_empty() {
        let alice = signed_in(&world).await;
        client.ours = format!("{}; {ours}", alice.cookies("/console/apps/grp/"));
        assert!(
            client.ours.contains("phapplication-session-id="),
            "{}",
            client.ours
        );
    }
    let through = (client.visit().await, console.take_seen());
    [direct, through]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_and_its_client_see_the_same_bytes_with_and_without_ludgate() {
    let [direct, through] = visits("").await;
    exactly::the_console_saw_the_same(&direct.1, &through.1);
    exactly::the_client_was_told_the_same(&direct.0, &through.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_every_cookie_of_ludgate_the_console_still_sees_its_own_byte_for_byte() {
    let more = "__Host-ludgate=x; ludgate-app=y; __Host-ludgate-bind=z; PhApplication-Session-Id=w";
    let [direct, through] = visits(more).await;
    exactly::the_console_saw_the_same(&direct.1, &through.1);
    exactly::the_client_was_told_the_same(&direct.0, &through.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_app_gets_a_secret_of_the_console_or_sets_one() {
    let console = Console::start().await;
    let world = sidecar_of(console.address()).await;
    let mut alice = signed_in(&world).await;
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    alice
        .send("POST", "/login", From::Fetch, form, b"next=/home")
        .await;
    assert_eq!(alice.open("/home").await.text(), "<h1>Welcome</h1>");
    let shouted = "Cookie: ACCESSTOKEN=CANARY; own=1; apitoken.SIG=CANARY\r\n";
    for app in ["grp", "pub", "usr"] {
        let target = format!("/console/apps/{app}/x");
        for name in SECRETS {
            assert!(
                alice
                    .cookies(&target)
                    .contains(&format!("{name}.sig=Z2k-{name}-CANARY")),
                "{name}"
            );
        }
        assert_eq!(
            alice
                .send("GET", &target, From::Fetch, shouted, b"")
                .await
                .status(),
            200
        );
        let seen = world.backend(app).last();
        assert_eq!(seen.all("cookie"), ["own=1"], "{app}");
        assert!(
            !String::from_utf8_lossy(&seen.raw).contains("CANARY"),
            "{seen:?}"
        );
    }
    let mut answer =
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: own=1; Path=/\r\n".to_owned();
    for name in SECRETS {
        answer +=
            &format!("Set-Cookie: {name}=evil; Path=/\r\nSet-Cookie: {name}.sig=evil; Path=/\r\n");
        answer += &format!("Set-Cookie: {}=evil\r\n", name.to_ascii_uppercase());
    }
    world.backend("grp").script((answer + "\r\n").into_bytes());
    let told = alice.fetch("/console/apps/grp/x").await;
    assert_eq!(told.all("set-cookie"), ["own=1; Path=/console/apps/grp/"]);
    assert!(!world.log.text().contains("CANARY"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_gets_no_sign_in_redirect_from_ludgate() {
    let console = Console::start().await;
    let world = sidecar_of(console.address()).await;
    for from in [
        From::Navigation,
        From::ForeignNavigation,
        From::Frame,
        From::Fetch,
        From::ForeignFetch,
        From::SiblingFetch,
        From::Program,
    ] {
        let mut browser = world.browser();
        let answer = browser.send("GET", "/home", from, "", b"").await;
        assert_eq!(answer.start, "HTTP/1.1 302 Found", "{from:?}");
        assert_eq!(
            answer.header("location").as_deref(),
            Some("/login?next=/home"),
            "its own login"
        );
        let posted = browser.send("POST", "/api/x", from, "", b"{}").await;
        let realm = "Bearer realm=\"console\"";
        assert_eq!(
            (
                posted.status(),
                posted.header("www-authenticate").as_deref()
            ),
            (401, Some(realm))
        );
        assert!(browser.jar.is_empty(), "{from:?}: Ludgate sets no cookie");
    }
    assert_eq!(world.running.internals().session_count(), 0);
    assert_eq!(
        world.log.line_with("\"path\":\"/home\"").await["reason"],
        "console"
    );
}

/// A WebSocket below the console or an app.
async fn websocket(world: &World, browser: &Browser, target: &str) -> Raw {
    let mut raw = world.raw().await;
    raw.send(format!(
        "GET {target} HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{1}\r\n",
        world.host,
        browser.cookie_line(target)
    ))
    .await;
    assert_eq!(
        raw.reader
            .head()
            .await
            .expect("readable")
            .expect("a head")
            .status(),
        101
    );
    raw
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_s_streams_outlive_idle_time_and_the_session_that_ludgate_ends() {
    let console = Console::start().await;
    let world = sidecar_of(console.address()).await;
    let mut alice = signed_in(&world).await;
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    alice
        .send("POST", "/login", From::Fetch, form, b"next=/home")
        .await;
    let mut of_app = websocket(&world, &alice, "/console/apps/grp/ws").await;
    let mut socket = websocket(&world, &alice, "/ws").await;
    let greeting = frame(0x81, None, b"welcome");
    assert_eq!(
        socket
            .reader
            .exactly(greeting.len())
            .await
            .expect("a greeting"),
        greeting
    );
    let mut download = world.raw().await;
    let cookies = alice.cookie_line("/files/held");
    download
        .send(format!(
            "GET /files/held HTTP/1.1\r\nHost: {}\r\n{cookies}\r\n",
            world.host
        ))
        .await;
    download
        .reader
        .head()
        .await
        .expect("readable")
        .expect("a head");
    let mut bytes = download.reader.exactly(FILE / 2).await.expect("half of it");

    let seconds = [30, 12 * 3600];
    for (round, seconds) in seconds.into_iter().enumerate() {
        world.manual_clock.advance(Duration::from_secs(seconds));
        if seconds > 30 {
            assert_eq!(
                of_app.farewell().await,
                Some(1008),
                "at an app the session counts"
            );
            assert_eq!(alice.fetch("/console/apps/grp/x").await.status(), 401);
        }
        let text = format!("round {round}");
        socket.send(frame(0x81, Some(MASK), text.as_bytes())).await;
        let echo = frame(0x81, None, text.as_bytes());
        assert_eq!(
            socket.reader.exactly(echo.len()).await.expect("its echo"),
            echo
        );
    }
    assert_eq!(
        alice
            .send("POST", "/go", From::Fetch, "", b"")
            .await
            .status(),
        204
    );
    bytes.extend(
        download
            .reader
            .exactly(FILE / 2)
            .await
            .expect("the other half"),
    );
    assert!(bytes == pattern(0..FILE), "the download is whole");
    assert_eq!(
        alice.open("/home").await.text(),
        "<h1>Welcome</h1>",
        "the console's own session is the console's"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn apps_live_below_the_console_s_prefix_with_the_cookie_that_is_configured() {
    let console = Console::start().await;
    let world = sidecar_of(console.address()).await;
    let mut alice = world.browser();
    let page = alice.sign_in("/console/apps/grp/a%2Fb?c=d", "alice").await;
    assert_eq!(page.status(), 200);
    let seen = world.backend("grp").last();
    assert_eq!(seen.target(), "/console/apps/grp/a%2Fb?c=d");
    assert_eq!(seen.all("x-forwarded-prefix"), ["/console/apps/grp"]);
    assert_eq!(seen.all("x-forwarded-user"), ["alice"]);
    let path = "/console/apps/grp/";
    let id = &alice.jar[&("phapplication-session-id".to_owned(), path.to_owned())];
    let line = format!("phapplication-session-id={id}; HttpOnly; SameSite=Lax; Path={path}");
    assert_eq!(page.all("set-cookie"), [line]);
    alice.fetch("/console/apps/strip/a//b").await;
    assert_eq!(world.backend("strip").last().target(), "/a//b");
    assert_eq!(
        world.browser().fetch("/console/apps/grp/x").await.status(),
        401,
        "a session is needed there"
    );
    assert!(
        console.take_seen().is_empty(),
        "and the console is not asked"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_apps_prefix_itself_is_the_launcher_and_never_the_console_s() {
    let console = Console::start().await;
    let world = sidecar_of(console.address()).await;
    let mut alice = signed_in(&world).await;
    let launcher = alice.open("/console/apps/").await;
    assert_eq!(launcher.status(), 200);
    assert!(
        launcher.text().contains("/console/apps/grp/"),
        "{}",
        launcher.text()
    );
    let without_slash = alice.open("/console/apps?x=1").await;
    let location = without_slash.header("location");
    assert_eq!(
        (without_slash.status(), location.as_deref()),
        (302, Some("/console/apps/?x=1"))
    );
    for (target, status) in [
        ("/console/apps/grp", 308),
        ("/console/apps/none/", 404),
        ("/console/apps//grp/", 404),
        ("/console/apps/g%72p/", 400),
        ("/console/apps/grp/../../x", 400),
        ("/oauth2/nothing", 404),
        ("/.ludgate/x", 404),
    ] {
        assert_eq!(alice.fetch(target).await.status(), status, "{target}");
    }
    assert!(console.take_seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_console_is_away_its_paths_are_502_and_the_apps_go_on() {
    let world = sidecar_of(refused_port().await).await;
    let page = world.browser().open("/home").await;
    assert_eq!(page.status(), 502);
    assert!(page.text().contains("Try again"), "{}", page.text());
    for (method, more) in [
        ("GET", ""),
        ("POST", ""),
        (
            "GET",
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        ),
    ] {
        let problem = world
            .browser()
            .send(method, "/ws", From::Fetch, more, b"")
            .await;
        assert_eq!(
            (problem.status(), problem.json()["reason"].as_str()),
            (502, Some("upstream_refused"))
        );
    }
    let mut alice = signed_in(&world).await;
    assert_eq!(
        alice.open("/console/apps/").await.status(),
        200,
        "the launcher too"
    );
    assert_eq!(alice.fetch("/console/apps/grp/x").await.status(), 200);
}
