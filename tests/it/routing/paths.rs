//! Paths (docs/behaviour.md#paths): which lead where, and which lead nowhere.

use crate::support::{browser::From, message::Message, world::World};

async fn get(world: &World, target: &str) -> Message {
    world
        .exchange(&format!("GET {target} HTTP/1.1\r\nHost: HOST\r\n\r\n"))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn prefix_and_id_are_matched_on_raw_bytes() {
    let world = World::as_program("", "").await;
    for target in [
        "/apps/a%2D1/x",
        "//apps/pub/",
        "/apps;x/pub/",
        "/apps/PUB/",
        "/Apps/pub/",
        "/apps/gr%70/",
        "/%61pps/pub/",
        "/apps%2Fpub/",
        "/apps//pub/",
        "///",
        "/apps/pub;x=1/",
        "/apps/./pub/",
        "/apps/../apps/pub/",
        "/apps/-a/",
        "/apps/pub%2f/",
        "/apps/pub%00/",
    ] {
        let answer = get(&world, target).await;
        assert!(
            matches!(answer.status(), 400 | 404),
            "{target}: {}",
            answer.start
        );
        assert!(
            !answer
                .header("location")
                .unwrap_or_default()
                .starts_with("//"),
            "{target}"
        );
    }
    assert_eq!(world.reached(), 0);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_without_its_slash_is_sent_on_for_every_method_with_its_query() {
    let world = World::as_program("", "").await;
    for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"] {
        let answer = world
            .exchange(&format!(
                "{method} /apps/grp?x=1&y= HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n"
            ))
            .await;
        assert_eq!(answer.status(), 308, "{method}");
        assert_eq!(
            answer.header("location").as_deref(),
            Some("/apps/grp/?x=1&y="),
            "{method}"
        );
    }
    assert_eq!(get(&world, "/apps/none").await.status(), 404);
    assert_eq!(world.reached(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_path_is_forwarded_byte_for_byte_with_or_without_its_prefix() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = world.signed_in("alice").await;
    for sent in [
        "/b%2Fc//d?e",
        "/",
        "/?",
        "/a;b=c/d",
        "//x",
        "/%7Euser/%e2%82%ac?q={a|b}&r='",
        "/a?/../../..",
    ] {
        alice.fetch(&format!("/apps/grp{sent}")).await;
        assert_eq!(
            world.backend("grp").last().target(),
            format!("/apps/grp{sent}")
        );
        alice.fetch(&format!("/apps/strip{sent}")).await;
        let seen = world.backend("strip").last();
        assert_eq!(seen.target(), sent);
        assert_eq!(
            seen.header("x-forwarded-prefix").as_deref(),
            Some("/apps/strip")
        );
        assert_eq!(
            world
                .backend("grp")
                .last()
                .header("x-forwarded-prefix")
                .as_deref(),
            Some("/apps/grp")
        );
    }
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_climbs_above_its_app_in_any_reading_is_refused() {
    let world = World::as_program("", "").await;
    let slashes = [
        "/", "//", "%2f", "%2F", "%252f", "\\", "%5c", "/./", "/%2e/",
    ];
    let dots = [
        "..",
        "%2e%2e",
        ".%2e",
        "%2e.",
        "%252e%252e",
        "..;",
        "..%00",
        "..%09",
        "．．",
        "%c0%ae%c0%ae",
        "...",
    ];
    let mut tried = 0;
    for slash in slashes {
        for dot in dots {
            for target in [
                format!("/apps{slash}{dot}/grp/"),
                format!("/apps/pub/{dot}{slash}grp/secret"),
                format!("/apps/pub{slash}{dot}{slash}grp/secret"),
                format!("/apps/pub/a/b{slash}{dot}{slash}{dot}{slash}{dot}{slash}{dot}{slash}grp/"),
                format!("/apps/pub/x{slash}{dot}"),
            ] {
                let answer = get(&world, &target).await;
                tried += 1;
                assert!(
                    matches!(answer.status(), 200 | 400 | 404),
                    "{target}: {}",
                    answer.start
                );
            }
        }
    }
    assert!(tried > 400, "{tried}");
    assert_eq!(
        world.backend("grp").count(),
        0,
        "nothing of it reached the app it climbed to"
    );
    // What did reach the public app is below it for every reader: a browser's own parser says so
    // too.
    for seen in world.backend("pub").seen() {
        let url = url::Url::parse(&format!("http://gw.test{}", seen.target())).expect("a URL");
        assert!(url.path().starts_with("/apps/pub/"), "{}", seen.target());
    }
    for target in [
        "/apps/pub/../grp/",
        "/apps/pub/%2e%2e/grp/",
        "/apps/pub/..;/grp/",
        "/apps/pub/%252e%252e/grp/",
    ] {
        assert_eq!(get(&world, target).await.status(), 400, "{target}");
    }
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_launcher_shows_people_their_apps_and_visitors_the_public_ones() {
    let world = World::as_program("", "").await.ready().await;
    let page = world.browser().open("/apps/").await;
    assert_eq!(page.status(), 200);
    assert!(
        page.text().contains("href=\"/apps/pub/\"") && !page.text().contains("/apps/grp/"),
        "{}",
        page.text()
    );
    let mut alice = world.signed_in("alice").await;
    let page = alice.open("/apps/").await.text();
    assert!(
        page.contains("/apps/grp/") && page.contains("/apps/his/"),
        "every app is visible: {page}"
    );
    assert!(page.contains("members of other — no access"), "{page}");
    for (target, location) in [
        ("/", "/apps/"),
        ("/apps", "/apps/"),
        ("/apps?x", "/apps/?x"),
    ] {
        let answer = get(&world, target).await;
        assert_eq!(
            (answer.status(), answer.header("location").as_deref()),
            (302, Some(location)),
            "{target}"
        );
    }
    for target in [
        "/x",
        "/metrics",
        "/healthz",
        "/debug/pprof",
        "/config",
        "/oauth2/",
        "/oauth2/authx",
        "/.ludgate/x",
        "/sessions",
    ] {
        assert_eq!(get(&world, target).await.status(), 404, "{target}");
    }
    assert_eq!(
        world
            .exchange("POST /apps/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n")
            .await
            .status(),
        405
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_console_everything_else_is_the_console_s_and_ours_stays_ours() {
    let console = crate::support::backend::Backend::start("console").await;
    let text = format!("http://{}", console.address());
    let world = World::with("", |settings| {
        let upstream = ludgate::settings::values::upstream(&text).expect("an upstream");
        let app = ludgate::model::app::App::console(upstream, std::time::Duration::from_secs(5));
        std::sync::Arc::get_mut(&mut settings.site)
            .expect("not shared yet")
            .console = app.map(std::sync::Arc::new);
    })
    .await
    .ready()
    .await;
    let mut alice = world.signed_in("alice").await;
    alice
        .jar
        .insert(("accessToken".into(), "/".into()), "console-secret".into());
    for target in ["/", "/console/x?y", "/console/a%2fb//c", "/appsx"] {
        assert_eq!(alice.fetch(target).await.status(), 200, "{target}");
        let seen = console.last();
        assert_eq!(seen.target(), target);
        assert_eq!(
            seen.header("cookie").as_deref(),
            Some("accessToken=console-secret"),
            "its own cookies, not ours"
        );
        assert_eq!(seen.header("x-forwarded-user"), None);
    }
    let answer = alice
        .send("GET", "/console/cookies", From::Fetch, "", b"")
        .await;
    assert_eq!(
        answer.all("set-cookie"),
        ["own=1; Path=/; Domain=test"],
        "only our names are dropped"
    );
    let count = console.count();
    for target in [
        "/apps/grp/x",
        "/oauth2/userinfo",
        "/oauth2/nothing",
        "/.ludgate/x",
        "/apps/",
    ] {
        alice.fetch(target).await;
        assert_eq!(console.count(), count, "{target} is ours");
    }
    let seen = world.backend("grp").last().header("cookie");
    assert_eq!(
        seen.as_deref(),
        Some("own=1"),
        "the console's secret is not for apps"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_app_is_404_for_everybody() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = world.signed_in("alice").await;
    for from in [From::Navigation, From::Fetch, From::Frame] {
        assert_eq!(
            alice
                .send("GET", "/apps/none/", from, "", b"")
                .await
                .status(),
            404
        );
        assert_eq!(
            world
                .browser()
                .send("GET", "/apps/none/", from, "", b"")
                .await
                .status(),
            404
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_access_value_denies_everyone_and_is_reported() {
    let world = World::with("", |settings| {
        settings.apps[0].access = ludgate::model::access::Access::parse("Public");
    })
    .await
    .ready()
    .await;
    let mut alice = world.signed_in("alice").await;
    let answer = alice.fetch("/apps/pub/").await;
    assert_eq!(
        (answer.status(), answer.json()["reason"].as_str()),
        (403, Some("unknown_access"))
    );
    assert_eq!(
        world.log.line_with("unknown_access").await["decision"],
        "deny"
    );
    assert_eq!(
        world.browser().open("/apps/pub/").await.status(),
        403,
        "and there is no redirect to sign in"
    );
    assert_eq!(world.backend("pub").count(), 0);
}
