//! Which headers and cookies pass between client and app.

use crate::support::{browser::From, world::World};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_public_app_is_reached_by_everybody_and_learns_nothing() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let token = world.provider.access_token("alice");
    let answer = alice
        .send(
            "GET",
            "/apps/pub/x",
            From::Fetch,
            &format!("Authorization: Bearer {token}\r\n"),
            b"",
        )
        .await;
    assert_eq!(answer.status(), 200);
    assert!(
        answer.all("set-cookie").is_empty(),
        "public traffic makes no session"
    );
    let seen = world.backend("pub").last();
    for name in [
        "cookie",
        "authorization",
        "x-forwarded-user",
        "x-forwarded-groups",
        "x-forwarded-email",
    ] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert_eq!(
        world
            .browser()
            .send("POST", "/apps/pub/echo", From::ForeignFetch, "", b"hi")
            .await
            .text(),
        "hi"
    );
    world.canaries.lock().expect("no panic").push(token);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn public_traffic_extends_no_session() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    for _ in 0..3 {
        world
            .manual_clock
            .advance(std::time::Duration::from_secs(600));
        assert_eq!(alice.fetch("/apps/pub/").await.status(), 200);
    }
    assert_eq!(alice.fetch("/apps/usr/").await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_gets_its_own_cookies_byte_for_byte_and_none_of_ours() {
    let world = World::new().await.ready().await;
    let alice = world.signed_in("alice").await;
    let ours = alice.cookies("/apps/usr/");
    for (around, expected) in [
        (("a=1; ", "; b=\"x y\"; c=%20"), "a=1; b=\"x y\"; c=%20"),
        (("", ""), ""),
        (
            ("a=1;b=2;  ", "; accessToken=s; accessToken.sig=s;d"),
            "a=1;b=2;d",
        ),
        (
            ("=odd; \t", "; LUDGATE=x; __Host-ludgate=y; ludgate =z"),
            "=odd",
        ),
    ] {
        let line = format!("Cookie: {}{ours}{}\r\n", around.0, around.1);
        let answer = world
            .exchange(&format!(
                "GET /apps/usr/ HTTP/1.1\r\nHost: HOST\r\n{line}\r\n"
            ))
            .await;
        assert_eq!(answer.status(), 200, "{line}");
        assert_eq!(
            world
                .backend("usr")
                .last()
                .header("cookie")
                .unwrap_or_default(),
            expected,
            "{line}"
        );
    }
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_sets_cookies_for_itself_only() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let answer = alice.fetch("/apps/usr/cookies").await;
    assert_eq!(answer.all("set-cookie"), ["own=1; Path=/apps/usr/"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_forwarded_headers_are_ours_and_the_host_is_kept() {
    let world = World::new().await;
    let lies = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: ftp\r\nX-Forwarded-Port: 1\r\n\
         X-Forwarded-Prefix: /x\r\nX-Forwarded-Server: x\r\nX-Forwarded-Ssl: on\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\n\
         True-Client-IP: 6.6.6.6\r\nCF-Connecting-IP: 6.6.6.6\r\nX-Request-Id: mine\r\n";
    world
        .exchange(&format!(
            "GET /apps/pub/ HTTP/1.1\r\nHost: HOST\r\n{lies}\r\n"
        ))
        .await;
    let seen = world.backend("pub").last();
    let port = world.host.split_once(':').expect("a port").1;
    for (name, expected) in [
        ("host", world.host.as_str()),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-real-ip", "127.0.0.1"),
        ("x-forwarded-host", world.host.as_str()),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-port", port),
        ("x-forwarded-prefix", "/apps/pub"),
        (
            "forwarded",
            &format!("for=127.0.0.1;host=\"{}\";proto=http", world.host),
        ),
    ] {
        assert_eq!(seen.all(name), [expected], "{name}");
    }
    for name in [
        "x-forwarded-server",
        "x-forwarded-ssl",
        "true-client-ip",
        "cf-connecting-ip",
    ] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert_ne!(seen.header("x-request-id").as_deref(), Some("mine"));
    assert!(!String::from_utf8_lossy(&seen.raw).contains("6.6.6.6"));
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_proxy_names_the_client_and_the_request() {
    let world = World::with("", |settings| {
        settings
            .peers
            .trusted
            .push("127.0.0.0/8".parse().expect("a network"))
    })
    .await;
    let chain = "X-Forwarded-For: 6.6.6.6, 203.0.113.7\r\nX-Request-Id: edge-17\r\nX-Forwarded-Proto: ftp\r\n";
    world
        .exchange(&format!(
            "GET /apps/pub/ HTTP/1.1\r\nHost: HOST\r\n{chain}\r\n"
        ))
        .await;
    let seen = world.backend("pub").last();
    assert_eq!(
        seen.header("x-forwarded-for").as_deref(),
        Some("6.6.6.6, 203.0.113.7, 127.0.0.1")
    );
    assert_eq!(seen.header("x-real-ip").as_deref(), Some("203.0.113.7"));
    assert_eq!(seen.header("x-request-id").as_deref(), Some("edge-17"));
    assert_eq!(
        seen.header("x-forwarded-proto").as_deref(),
        Some("http"),
        "the public origin's, not the proxy's"
    );
    assert_eq!(
        world.log.line_with("edge-17").await["client"],
        "203.0.113.7"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_round_again_is_refused() {
    let world = World::new().await;
    world
        .exchange("GET /apps/pub/ HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    let ours = world.backend("pub").last().header("via").expect("our name");
    let loud = ours.to_ascii_uppercase();
    for via in [
        ours.clone(),
        format!("1.0 fred, {loud}"),
        format!("1.1 p.example.net , {ours}"),
    ] {
        let answer = world
            .exchange(&format!(
                "GET /apps/pub/ HTTP/1.1\r\nHost: HOST\r\nVia: {via}\r\n\r\n"
            ))
            .await;
        assert_eq!(answer.status(), 508, "{via}");
    }
    assert_eq!(world.reached(), 1);
    world
        .exchange(
            "GET /apps/pub/ HTTP/1.1\r\nHost: HOST\r\nVia: 1.0 fred, 1.1 ludgate-00000000\r\n\r\n",
        )
        .await;
    assert_eq!(
        world.backend("pub").last().all("via"),
        ["1.0 fred, 1.1 ludgate-00000000".to_owned(), ours],
        "another Ludgate is no loop"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_headers_are_ours_in_every_spelling() {
    let world = World::new().await.ready().await;
    world
        .provider
        .set_claim("alice", "groups", json!(["phusers", "a,b", "ü"]));
    let alice = world.signed_in("alice").await;
    let lies = "X-Forwarded-User: root\r\nX_Forwarded_User: root\r\nX.Forwarded.User: root\r\nx-FORWARDED_user: root\r\n\
         X-Forwarded.User: root\r\nX-Forwarded-Groups: root\r\nX-Forwarded-Email: root\r\nX-Forwarded-Preferred-Username: root\r\n\
         X-Forwarded-User: root\r\nX-Auth-Request-User: root\r\nX-Ludgate-Anything: root\r\n";
    let nominated = "Connection: close, X-Forwarded-User, X-Forwarded-For, Host, Cookie, Authorization, X-Mine\r\nX-Mine: 1\r\nX-Yours: 1\r\n";
    let request = format!(
        "GET /apps/usr/ HTTP/1.1\r\nHost: HOST\r\n{}{lies}{nominated}\r\n",
        alice.cookie_line("/apps/usr/")
    );
    assert_eq!(world.exchange(&request).await.status(), 200);
    let seen = world.backend("usr").last();
    assert!(
        !String::from_utf8_lossy(&seen.raw).contains("root"),
        "{seen:?}"
    );
    assert_eq!(seen.all("x-forwarded-user"), ["alice"]);
    assert_eq!(seen.all("x-forwarded-email"), ["alice@example.com"]);
    assert_eq!(seen.all("x-forwarded-preferred-username"), ["alice"]);
    assert_eq!(seen.all("x-forwarded-groups"), ["phusers,a%2Cb,%C3%BC"]);
    assert_eq!(
        seen.all("x-forwarded-for"),
        ["127.0.0.1"],
        "nomination does not remove ours"
    );
    assert_eq!(
        (seen.header("x-mine"), seen.header("x-yours").as_deref()),
        (None, Some("1"))
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_claim_gives_no_header() {
    let world = World::new().await.ready().await;
    world
        .provider
        .set_claim("carol", "email", serde_json::Value::Null);
    world.provider.set_claim("carol", "groups", json!([]));
    let carol = world.signed_in("carol").await;
    let request = format!(
        "GET /apps/usr/ HTTP/1.1\r\nHost: HOST\r\n{}X-Forwarded-Email: root@corp\r\n\r\n",
        carol.cookie_line("/apps/usr/")
    );
    assert_eq!(world.exchange(&request).await.status(), 200);
    let seen = world.backend("usr").last();
    assert_eq!(
        (
            seen.header("x-forwarded-email"),
            seen.header("x-forwarded-groups")
        ),
        (None, None)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hop_by_hop_headers_and_request_trailers_stay_on_their_hop() {
    let world = World::new().await;
    let request = "POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\nTrailer: X-User\r\n\
         Keep-Alive: timeout=5\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\
         Connection: Upgrade, HTTP2-Settings, X-Hop\r\nX-Hop: 1\r\n\r\n3\r\nabc\r\n0\r\nX-User: root\r\n\r\n";
    let answer = world.exchange(request).await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, "abc"));
    let seen = world.backend("pub").last();
    for name in [
        "te",
        "trailer",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "upgrade",
        "http2-settings",
        "x-hop",
        "x-user",
        "connection",
    ] {
        assert_eq!(seen.header(name), None, "{name}: {seen:?}");
    }
    assert!(
        !String::from_utf8_lossy(&seen.raw).contains("root"),
        "trailers are dropped"
    );
    let answer = world
        .exchange("GET /apps/pub/origin-wide HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    for name in [
        "clear-site-data",
        "strict-transport-security",
        "alt-svc",
        "nel",
        "report-to",
        "reporting-endpoints",
        "set-login",
        "service-worker-allowed",
        "x-hop",
        "keep-alive",
    ] {
        assert_eq!(answer.header(name), None, "{name}");
    }
    assert_eq!(answer.header("x-kept").as_deref(), Some("1"));
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_reason_and_header_values_pass_as_the_app_sent_them() {
    let world = World::new().await;
    let answer = world
        .exchange("GET /apps/pub/reason HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(answer.start, "HTTP/1.1 299 Quite All Right");
    assert_eq!(answer.all("x-a"), ["1", "2"]);
    assert_eq!(answer.header("date"), None, "nothing is invented");
    let request = "GET /apps/pub/ HTTP/1.1\r\nHost: HOST\r\nX-B: 1\r\nX-C: \u{e9}\r\nX-B: 2\r\nAuthorization: Basic eDp5\r\nOrigin: http://evil.test\r\n\r\n";
    assert_eq!(world.exchange(request).await.status(), 200);
    let seen = world.backend("pub").last();
    assert_eq!(
        (seen.all("x-b"), seen.all("x-c")),
        (vec!["1".into(), "2".into()], vec!["\u{e9}".into()])
    );
    assert_eq!(
        seen.header("authorization").as_deref(),
        Some("Basic eDp5"),
        "not ours: the app's own"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_worker_cannot_be_allowed_beyond_its_app() {
    let world = World::new().await;
    for (scope, kept) in [
        ("/apps/pub/", true),
        ("/apps/pub/sub/x.js", true),
        ("/", false),
        ("/apps/", false),
        ("/apps/pub", false),
        ("/apps/pub/../", false),
        ("/apps/pub/%2e%2e/", false),
        ("/apps/pub/.\t./", false),
        ("/apps/pub/\r\nService-Worker-Allowed: /", false),
    ] {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nService-Worker-Allowed: {scope}\r\nContent-Length: 0\r\n\r\n"
        );
        world.backend("pub").script(answer.into_bytes());
        let answer = world
            .exchange("GET /apps/pub/sw.js HTTP/1.1\r\nHost: HOST\r\n\r\n")
            .await;
        assert_eq!(
            answer.header("service-worker-allowed").is_some(),
            kept,
            "{scope:?}"
        );
    }
}
