//! Tickets (docs/behaviour.md#tickets): how a person who signs in on the site gets a session on an
//! app's own host, and that no other client gets one.

use std::time::Duration;

use crate::support::{browser::From, message::Message, origins::Origins, raw::Raw, world::World};

/// As far as the ticket: the address that the site sends the browser to, not opened yet.
async fn ticket_for(visitor: &mut Origins, url: &str, person: &str) -> String {
    let start = visitor.open(url).await;
    assert_eq!(start.status(), 302, "{start:?}");
    let mut next = start.header("location").expect("the site");
    for _ in 0..4 {
        let answer = visitor.open(&next).await;
        let location = answer
            .header("location")
            .unwrap_or_else(|| panic!("{answer:?}"));
        if location.contains("/.ludgate/enter") {
            return location;
        }
        let site = url::Url::parse(&next)
            .expect("a URL")
            .origin()
            .ascii_serialization();
        let back = crate::support::browser::at_built_in_provider(&location, person).await;
        next = format!("{site}{back}");
    }
    panic!("no ticket")
}

fn assert_refused(answer: &Message, why: &str) {
    assert_eq!(answer.status(), 400, "{why}: {answer:?}");
    assert!(answer.all("set-cookie").is_empty(), "{why}: no cookie");
    assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_handed_over_from_the_site_to_the_host_and_lands_on_the_page_they_asked_for() {
    let world = World::new().await.ready().await;
    let mut alice = Origins::new(&world);
    let page = format!("{}/a/b%2Fc?x=1&y=%26", world.on_host("grp"));
    let (url, answer) = alice.follow(&page, "alice").await;
    assert_eq!((answer.status(), url.as_str()), (200, page.as_str()));
    assert_eq!(world.backend("grp").last().target(), "/a/b%2Fc?x=1&y=%26");
    assert_eq!(world.backend("grp").count(), 1);
    let way: Vec<_> = alice
        .way
        .iter()
        .map(|url| url.split('?').next().expect("a path").to_owned())
        .collect();
    let (host, site) = (world.on_host("grp"), format!("http://{}", world.host));
    let expected = [
        format!("{host}/a/b%2Fc"),
        format!("{site}/oauth2/start"),
        format!("{site}/oauth2/callback"),
        format!("{host}/.ludgate/enter"),
        format!("{host}/a/b%2Fc"),
    ];
    assert_eq!(way, expected);
    // Signed in on the site, another host needs no provider.
    let (_, answer) = alice
        .follow(&format!("{}/", world.on_host("usr")), "unused")
        .await;
    assert_eq!(answer.status(), 200);
    assert_eq!(alice.way.len(), 4, "{:?}", alice.way);
    // And from then on nothing but the app.
    assert_eq!(alice.open(&page).await.status(), 200);
    let jar = &alice.at(&host[7..]).jar;
    let names: Vec<_> = jar
        .keys()
        .map(|(name, path)| format!("{name} {path}"))
        .collect();
    assert_eq!(
        names,
        ["ludgate-app /", "ludgate-bind /"],
        "nothing of the site is on the host"
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_of_the_hand_over_sets_a_domain_or_is_stored() {
    let world = World::new().await.ready().await;
    let mut alice = Origins::new(&world);
    let start = alice.open(&format!("{}/", world.on_host("grp"))).await;
    let enter = ticket_for(&mut alice, &format!("{}/", world.on_host("grp")), "alice").await;
    let entered = alice.open(&enter).await;
    assert_eq!(entered.status(), 303);
    assert_eq!(
        entered.header("referrer-policy").as_deref(),
        Some("no-referrer")
    );
    for answer in [&start, &entered] {
        let cookies = answer.all("set-cookie");
        assert_eq!(cookies.len(), 1);
        let attributes = cookies[0].split_once("; ").expect("attributes").1;
        assert_eq!(attributes, "HttpOnly; SameSite=Lax; Path=/");
        assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_that_is_replayed_late_or_foreign_is_refused_and_sets_no_cookie() {
    let world = World::new().await.ready().await;
    let mut alice = Origins::new(&world);
    let page = format!("{}/", world.on_host("grp"));
    let enter = ticket_for(&mut alice, &page, "alice").await;
    assert_eq!(alice.open(&enter).await.status(), 303);
    assert_refused(&alice.open(&enter).await, "replayed");

    let enter = ticket_for(&mut Origins::new(&world), &page, "alice").await;
    let mut thief = Origins::new(&world);
    thief.open(&page).await;
    assert_refused(&thief.open(&enter).await, "another browser");

    let mut alice = Origins::new(&world);
    let enter = ticket_for(&mut alice, &page, "alice").await;
    let moved = enter.replace("grp.localhost", "usr.localhost");
    alice.open(&format!("{}/", world.on_host("usr"))).await;
    assert_refused(&alice.open(&moved).await, "another host");
    assert_refused(&alice.open(&enter).await, "spent by that");

    let mut alice = Origins::new(&world);
    let enter = ticket_for(&mut alice, &page, "alice").await;
    world.manual_clock.advance(Duration::from_secs(30));
    assert_refused(&alice.open(&enter).await, "late");

    for nonsense in [
        "",
        "?ticket=",
        "?ticket=x",
        "?ticket=a&ticket=b",
        "?x",
        &format!("?ticket={}", "A".repeat(43)),
    ] {
        let answer = alice
            .open(&format!(
                "{}/.ludgate/enter{nonsense}",
                world.on_host("grp")
            ))
            .await;
        assert_refused(&answer, nonsense);
    }
    assert_eq!(world.backend("grp").count(), 0, "O5");
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_at_the_end_is_the_one_the_site_has_kept_whatever_the_address_says() {
    let world = World::new().await.ready().await;
    let mut alice = Origins::new(&world);
    let page = format!("{}/kept", world.on_host("grp"));
    let enter = ticket_for(&mut alice, &page, "alice").await;
    let answer = alice.open(&format!("{enter}&rd=http://evil.test/")).await;
    assert_eq!(answer.header("location").as_deref(), Some(&*page));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_site_gives_no_ticket_to_who_may_not_enter() {
    let world = World::new().await.ready().await;
    let mut bob = Origins::new(&world);
    let (url, answer) = bob
        .follow(&format!("{}/x", world.on_host("grp")), "bob")
        .await;
    assert_eq!(answer.status(), 403);
    assert!(
        url.starts_with(&format!("http://{}/oauth2/", world.host)),
        "the site says it: {url}"
    );
    let text = answer.text();
    assert!(
        text.contains("bob") && text.contains("phusers") && text.contains("Use another account"),
        "{text}"
    );
    assert!(
        text.contains("grp.localhost"),
        "and another account would come back to it: {text}"
    );
    assert_eq!(world.backend("grp").count(), 0);
    let (_, answer) = bob
        .follow(&format!("{}/x", world.on_host("unknown")), "bob")
        .await;
    assert_eq!(answer.status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_of_one_host_or_of_the_site_is_none_at_another() {
    let world = World::new().await.ready().await;
    let mut alice = Origins::new(&world);
    for label in ["grp", "mine"] {
        let (_, page) = alice
            .follow(&format!("{}/", world.on_host(label)), "alice")
            .await;
        assert_eq!(page.status(), 200);
    }
    let port = world.running.address.port();
    let value = |visitor: &mut Origins, host: &str, name: &str| {
        visitor
            .at(&format!("{host}:{port}"))
            .value(name)
            .unwrap_or_else(|| panic!("{name} at {host}"))
    };
    let of_grp = value(&mut alice, "grp.localhost", "ludgate-app");
    let of_site = value(&mut alice, "127.0.0.1", "ludgate");
    let get = |host: String, target: &str, cookie: String| {
        Raw::exchange(
            world.running.address,
            format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n"),
        )
    };
    let grp = format!("grp.localhost:{port}");
    assert_eq!(
        get(grp.clone(), "/", format!("ludgate-app={of_grp}"))
            .await
            .status(),
        200
    );
    for (host, target, cookie) in [
        (
            format!("mine.localhost:{port}"),
            "/",
            format!("ludgate-app={of_grp}"),
        ),
        (
            format!("usr.localhost:{port}"),
            "/",
            format!("ludgate-app={of_grp}"),
        ),
        (grp.clone(), "/", format!("ludgate={of_site}")),
        (grp.clone(), "/", format!("ludgate-app={of_site}")),
        (
            grp.clone(),
            "/",
            format!("phapplication-session-id={of_grp}"),
        ),
        (
            world.host.clone(),
            "/apps/grp/",
            format!("ludgate-app={of_grp}"),
        ),
        (
            world.host.clone(),
            "/apps/grp/",
            format!("phapplication-session-id={of_grp}"),
        ),
        (
            world.host.clone(),
            "/apps/grp/",
            format!("ludgate={of_grp}"),
        ),
    ] {
        assert_eq!(
            get(host.clone(), target, cookie.clone()).await.status(),
            401,
            "{host} {cookie}"
        );
    }
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_on_the_site_ends_the_session_of_every_host() {
    let world = World::new().await.ready().await;
    let mut alice = Origins::new(&world);
    for label in ["grp", "usr"] {
        let (_, page) = alice
            .follow(&format!("{}/", world.on_host(label)), "alice")
            .await;
        assert_eq!(page.status(), 200);
    }
    alice.sign_out(&world).await;
    for label in ["grp", "usr"] {
        let url = format!("{}/", world.on_host(label));
        assert_eq!(
            alice.send("GET", &url, From::Fetch, "", b"").await.status(),
            401,
            "{label}"
        );
        assert_eq!(alice.open(&url).await.status(), 302, "{label}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_host_fetches_frames_and_websockets_get_401_and_never_a_redirect() {
    let world = World::new().await.ready().await;
    let mut visitor = Origins::new(&world);
    let url = format!("{}/x", world.on_host("grp"));
    for (from, method) in [
        (From::Fetch, "GET"),
        (From::Fetch, "POST"),
        (From::Frame, "GET"),
        (From::Program, "GET"),
    ] {
        let answer = visitor.send(method, &url, from, "", b"").await;
        assert_eq!(answer.status(), 401, "{from:?} {method}");
        assert!(answer.header("location").is_none() && answer.all("set-cookie").is_empty());
        assert!(answer.header("www-authenticate").is_some());
    }
    let answer = visitor.send("GET", &url, From::Fetch, "", b"").await.json();
    let sign_in = answer["sign_in"].as_str().expect("an address");
    assert!(
        sign_in.starts_with(&format!(
            "http://{}/oauth2/start?rd=http%3A%2F%2Fgrp.localhost",
            world.host
        )),
        "{sign_in}"
    );
    // A person who follows that address ends where they wanted to be.
    let (end, page) = visitor.follow(sign_in, "alice").await;
    assert_eq!((page.status(), end), (200, url));
    let handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let anonymous = Origins::new(&world)
        .send(
            "GET",
            &format!("{}/ws", world.on_host("grp")),
            From::Program,
            handshake,
            b"",
        )
        .await;
    assert_eq!(anonymous.status(), 401);
    // With the cookie, only from a page of that host.
    let host = format!("grp.localhost:{}", world.running.address.port());
    let cookie = visitor.at(&host).cookie_line("/");
    for (origin, status) in [
        (world.on_host("grp"), 101),
        (world.on_host("usr"), 403),
        (format!("http://{}", world.host), 403),
        ("null".into(), 403),
        (format!("{}:80", world.on_host("grp")), 403),
    ] {
        let request = format!(
            "GET /ws HTTP/1.1\r\nHost: {host}\r\n{handshake}{cookie}Origin: {origin}\r\n\r\n"
        );
        let mut raw = world.raw().await;
        raw.send(request).await;
        let head = raw.reader.head().await.expect("readable").expect("a head");
        assert_eq!(head.status(), status, "{origin}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_host_a_cookie_counts_only_where_that_host_led_the_browser() {
    let world = World::new().await.ready().await;
    let mut alice = Origins::new(&world);
    let url = format!("{}/x", world.on_host("grp"));
    alice.follow(&url, "alice").await;
    for (from, method, more, status) in [
        (From::Fetch, "GET", String::new(), 200),
        (From::Fetch, "POST", String::new(), 200),
        (From::ForeignNavigation, "GET", String::new(), 200),
        (From::ForeignFetch, "GET", String::new(), 401),
        (From::SiblingFetch, "GET", String::new(), 401),
        (
            From::Program,
            "POST",
            format!("Origin: {}\r\n", world.on_host("grp")),
            200,
        ),
        (
            From::Program,
            "POST",
            format!("Origin: {}\r\n", world.on_host("usr")),
            401,
        ),
        (
            From::Program,
            "POST",
            format!("Origin: http://{}\r\n", world.host),
            401,
        ),
    ] {
        let answer = alice.send(method, &url, from, &more, b"").await;
        assert_eq!(answer.status(), status, "{from:?} {method} {more:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_tabs_on_one_host_share_one_bind_cookie_and_each_lands_on_its_own_page() {
    let world = World::new().await.ready().await;
    let mut alice = Origins::new(&world);
    let pages: Vec<String> = (0..50)
        .map(|n| format!("{}/tab?n={n}", world.on_host("grp")))
        .collect();
    let mut tickets = Vec::new();
    for page in &pages {
        tickets.push(ticket_for(&mut alice, page, "alice").await);
    }
    let host = format!("grp.localhost:{}", world.running.address.port());
    assert_eq!(alice.at(&host).jar.len(), 1, "one bind cookie");
    for (ticket, page) in tickets.iter().zip(&pages).rev() {
        let answer = alice.open(ticket).await;
        assert_eq!(
            (answer.status(), answer.header("location").as_deref()),
            (303, Some(page.as_str()))
        );
    }
    assert!(alice.at(&host).cookies("/").len() <= 1024);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_app_on_its_host_needs_no_sign_in_and_makes_no_session() {
    let world = World::new().await.ready().await;
    let mut visitor = Origins::new(&world);
    let before = world.running.internals().session_count();
    let answer = visitor.open(&format!("{}/x", world.on_host("pub"))).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.all("set-cookie").is_empty());
    assert_eq!(world.running.internals().session_count(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bearer_token_is_a_credential_on_a_host_too_and_makes_no_session() {
    let world = World::new().await.ready().await;
    let mut program = Origins::new(&world);
    let more = format!(
        "Authorization: Bearer {}\r\n",
        world.provider.access_token("alice")
    );
    let url = format!("{}/x", world.on_host("grp"));
    let answer = program.send("GET", &url, From::Program, &more, b"").await;
    assert_eq!((answer.status(), answer.all("set-cookie").len()), (200, 0));
    assert!(
        world
            .backend("grp")
            .last()
            .header("authorization")
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_handed_over_again_and_again_is_locked_out_of_nothing() {
    let world = World::new().await.ready().await;
    let mut alice = Origins::new(&world);
    let page = format!("{}/", world.on_host("grp"));
    alice.follow(&page, "alice").await;
    let host = format!("grp.localhost:{}", world.running.address.port());
    for _ in 0..300 {
        alice
            .at(&host)
            .jar
            .remove(&("ludgate-app".into(), "/".into()));
        let (_, answer) = alice.follow(&page, "unused").await;
        assert_eq!(answer.status(), 200);
    }
    let (_, answer) = alice
        .follow(&format!("{}/", world.on_host("usr")), "unused")
        .await;
    assert_eq!(answer.status(), 200);
    assert!(world.running.internals().session_count() <= 2 + 64);
}
