//! Hosts (docs/behaviour.md#hosts): which host is whose, in which spelling, and what an app on its
//! own host gets.

use crate::support::{browser::From, origins::Origins, raw::Raw, world::World};

const PORTS: &str = r#"
[[apps]]
id = "web"
upstream = "http://ADDRESS"
access = "group:phusers"
strip_prefix = true
published_ports = { "8080" = { access = "public", label = "Docs", upstream = "http://ADDRESS" }, "9" = {} }
[[apps]]
id = "web-8080"
upstream = "http://ADDRESS"
access = "public"
[[apps]]
id = "alone"
upstream = "http://ADDRESS"
access = "public"
isolation = "host"
"#;

/// One request as written, with a Host of its own.
async fn get(world: &World, host: &str, target: &str, more: &str) -> (u16, String) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n");
    let answer = Raw::exchange(world.running.address, request).await;
    (answer.status(), answer.text())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_one_authority_of_ours_at_our_port_or_it_is_refused() {
    let world = World::as_program("", "").await;
    let port = world.running.address.port();
    for (host, status) in [
        (format!("pub.localhost:{port}"), 200),
        (format!("PUB.LocalHost:{port}"), 200),
        ("pub.localhost".to_owned(), 400),
        ("pub.localhost:1".to_owned(), 400),
        (format!("pub.localhost:0{port}"), 400),
        (format!("pub.localhost.:{port}"), 400),
        (format!("u@pub.localhost:{port}"), 400),
        (format!("pub.localhost:{port}, evil.test"), 400),
        (format!("pub..localhost:{port}"), 400),
        (format!(".localhost:{port}"), 400),
        (format!("p_b.localhost:{port}"), 400),
        (format!("-pub.localhost:{port}"), 400),
        (format!("pub\u{ff}.localhost:{port}"), 400),
        (format!("a.pub.localhost:{port}"), 421),
        (format!("localhost:{port}"), 421),
        (format!("xn--pub-.localhost.xn--:{port}"), 421),
        (format!("pub.localhost.evil.test:{port}"), 421),
        ("evil.test".to_owned(), 421),
    ] {
        assert_eq!(get(&world, &host, "/x", "").await.0, status, "{host:?}");
    }
    let page = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html\r\n";
    let (status, text) = get(&world, "evil.test", "/", page).await;
    assert_eq!(status, 421);
    assert!(
        text.contains(&format!("href=\"http://{}/apps/\"", world.host)),
        "it links to the site: {text}"
    );
    let both =
        format!("GET http://grp.localhost:{port}/ HTTP/1.1\r\nHost: pub.localhost:{port}\r\n\r\n");
    assert_eq!(
        Raw::exchange(world.running.address, both).await.status(),
        400,
        "target and Host name different hosts"
    );
    assert_eq!(world.backend("grp").count(), 0);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_names_a_uuid_and_port_or_a_published_port_or_an_app_in_this_order() {
    let world = World::with_app("web", PORTS).await;
    let port = world.running.address.port();
    let on = |label: &str| format!("{label}.localhost:{port}");
    let uuid = "zzzzz-dz642-xqhgmzqm1tyc3bs";
    for (label, status) in [
        ("pub".to_owned(), 200),
        ("web".to_owned(), 401),
        ("web-8080".to_owned(), 200),
        ("web-9".to_owned(), 401),
        ("web-81".to_owned(), 404),
        ("web-0".to_owned(), 404),
        ("web-08080".to_owned(), 404),
        ("web-65536".to_owned(), 404),
        ("unknown".to_owned(), 404),
        ("oauth2".to_owned(), 404),
        // A uuid is a uuid, also where no catalogue of containers is configured.
        (uuid.to_owned(), 404),
        (format!("{uuid}-80"), 404),
        (format!("{}-80", uuid.to_uppercase()), 404),
        (format!("{uuid}-0"), 400),
        (format!("{uuid}-080"), 400),
        (format!("{uuid}-65536"), 400),
        (format!("{uuid}-80abc"), 400),
        (format!("{uuid}-80x"), 400),
        (format!("{uuid}--80"), 400),
        (format!("{uuid}-+80"), 400),
        (format!("{uuid}-80@evil"), 400),
        (format!("{uuid}-\u{ff18}\u{ff10}"), 400),
        (format!("{uuid}-80.evil"), 421),
    ] {
        assert_eq!(
            get(&world, &on(&label), "/x", "").await.0,
            status,
            "{label:?}"
        );
    }
    // The published port is public. The app with the same id keeps its path on the site.
    assert_eq!(
        get(&world, &on("web-8080"), "/there?q=%2F", "").await.0,
        200
    );
    assert_eq!(world.backend("web").last().target(), "/there?q=%2F");
    assert_eq!(
        get(&world, &world.host, "/apps/web-8080/x", "").await.0,
        200
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_on_its_own_host_has_every_path_but_ours() {
    let world = World::as_program("", "").await;
    let host = format!("pub.localhost:{}", world.running.address.port());
    for target in [
        "/",
        "/oauth2/start",
        "/apps/grp/x",
        "/a/b%2Fc//d?e=%41&&x",
        "//",
        "/.ludgatex",
    ] {
        assert_eq!(get(&world, &host, target, "").await.0, 200, "{target}");
        assert_eq!(world.backend("pub").last().target(), target);
    }
    let before = world.reached();
    for (target, status) in [
        ("/.ludgate", 404),
        ("/.ludgate/", 404),
        ("/.ludgate/x", 404),
        ("/.ludgate/enter", 400),
        ("/../x", 400),
        ("/%2e%2e/x", 400),
        ("/a/%252e%252e/%252e%252e/x", 400),
    ] {
        assert_eq!(get(&world, &host, target, "").await.0, status, "{target}");
    }
    assert_eq!(world.reached(), before, "O5");
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_its_own_host_an_app_is_told_of_that_origin_and_of_no_prefix() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = Origins::new(&world);
    let (_, page) = alice
        .follow(&format!("{}/x", world.on_host("grp")), "alice")
        .await;
    assert_eq!(page.status(), 200, "{page:?}");
    let seen = world.backend("grp").last();
    let host = format!("grp.localhost:{}", world.running.address.port());
    assert_eq!(seen.header("host").as_deref(), Some(&*host));
    assert_eq!(seen.header("x-forwarded-host").as_deref(), Some(&*host));
    assert_eq!(seen.header("x-forwarded-proto").as_deref(), Some("http"));
    assert_eq!(
        seen.header("x-forwarded-port"),
        Some(world.running.address.port().to_string())
    );
    assert_eq!(seen.header("x-forwarded-prefix"), None);
    assert_eq!(seen.header("x-forwarded-user").as_deref(), Some("alice"));
    assert!(
        seen.header("forwarded")
            .is_some_and(|value| value.contains(&format!("host=\"{host}\"")))
    );
    // One connection, two places: nothing of the one is told at the other.
    let mut raw = world.raw().await;
    for (host, target) in [
        (&host, "/x"),
        (&world.host, "/apps/pub/x"),
        (&format!("pub.{}", &host[4..]), "/y"),
    ] {
        raw.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .await;
        raw.answer().await.expect("an answer");
    }
    let seen = world.backend("pub").seen();
    let hosts: Vec<_> = seen
        .iter()
        .filter_map(|request| request.header("x-forwarded-host"))
        .collect();
    assert_eq!(hosts, [world.host.clone(), format!("pub.{}", &host[4..])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_on_its_own_host_says_nothing_for_its_neighbours() {
    let world = World::as_program("", "").await;
    let mut visitor = Origins::new(&world);
    let answer = visitor
        .open(&format!("{}/origin-wide", world.on_host("pub")))
        .await;
    assert_eq!(answer.status(), 200);
    for gone in ["alt-svc", "set-login", "x-hop", "keep-alive"] {
        assert!(answer.header(gone).is_none(), "{gone}");
    }
    // Its own origin is its own: but not the cookies, which it would clear for every host beside
    // it.
    let cleared = answer.header("clear-site-data").expect("what is its own");
    assert!(
        cleared.contains("\"cache\"") && !cleared.contains('*') && !cleared.contains("cookies"),
        "{cleared}"
    );
    assert_eq!(
        answer.header("service-worker-allowed").as_deref(),
        Some("/")
    );
    assert_eq!(
        answer.header("strict-transport-security").as_deref(),
        Some("max-age=1")
    );
    let answer = visitor
        .open(&format!("{}/cookies", world.on_host("pub")))
        .await;
    assert_eq!(answer.all("set-cookie"), ["own=1; Path=/"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_app_is_on_its_host_and_its_path_leads_there() {
    let world = World::with_app("web", PORTS).await;
    let mut visitor = world.browser();
    for (method, from) in [("GET", From::Navigation), ("POST", From::Fetch)] {
        let answer = visitor
            .send(method, "/apps/alone/a/b%2Fc?x=1&y", from, "", b"")
            .await;
        assert_eq!(answer.status(), 307);
        let there = format!("{}/a/b%2Fc?x=1&y", world.on_host("alone"));
        assert_eq!(answer.header("location"), Some(there));
    }
    assert_eq!(visitor.open("/apps/alone?x=1").await.status(), 308);
    let before = world.backend("web").count();
    assert_eq!(visitor.open("/apps/alone/../x").await.status(), 400);
    assert_eq!(visitor.open("/apps/alone/%2e%2e/x").await.status(), 400);
    assert_eq!(world.backend("web").count(), before);
    let mut there = Origins::new(&world);
    assert_eq!(
        there
            .open(&format!("{}/x", world.on_host("alone")))
            .await
            .status(),
        200
    );
    let launcher = visitor.open("/apps/").await.text();
    assert!(
        launcher.contains(&format!("href=\"{}/\"", world.on_host("alone"))),
        "{launcher}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_a_neighbour_s_cookies_does_not_lock_a_host() {
    let world = World::as_program("", "").await.ready().await;
    let port = world.running.address.port();
    let flood = (0..200)
        .map(|n| format!("c{n}=1"))
        .collect::<Vec<_>>()
        .join("; ");
    for (host, target, status) in [
        (format!("grp.localhost:{port}"), "/x", 401),
        (world.host.clone(), "/apps/grp/x", 431),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nCookie: {flood}\r\n\r\n");
        assert_eq!(
            Raw::exchange(world.running.address, request).await.status(),
            status,
            "{host}"
        );
    }
}
