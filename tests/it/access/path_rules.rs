//! Rules of paths and CORS preflights on the wire: identity, sessions, and streams that are open
//! while a rule changes.

use ludgate::{
    catalog::snapshot::Snapshot,
    model::{
        access::Access,
        app::AppSpec,
        path_rule::{PathRule, PathRules},
    },
};

use super::rule_apps::add_apps;
use crate::support::world::World;

/// The apps as they are, with other rules for the paths of one.
fn with_paths(world: &World, app: &str, paths: &[(&str, &str)]) -> Snapshot {
    let rules = paths.iter().map(|(prefix, access)| {
        PathRule::new(prefix, Vec::new(), Access::parse(access)).expect("a rule")
    });
    let rules = PathRules::new(rules.collect()).expect("few");
    let now = world.running.internals().snapshot();
    let specs = now.apps().map(|published| {
        let spec = published.spec.clone();
        if spec.id.as_str() == app {
            let paths = rules.clone();
            AppSpec { paths, ..spec }
        } else {
            spec
        }
    });
    Snapshot::new(now.site().clone(), specs.collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrowed_rule_of_a_path_ends_the_streams_below_it_and_no_others() {
    let world = World::with("", add_apps).await.ready().await;
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let mut open = world
        .websocket_at(&world.browser(), "/apps/paths/open/ws")
        .await;
    let mut team = world.websocket_at(&alice, "/apps/paths/team/ws").await;
    let mut own = world.websocket_at(&bob, "/apps/paths/ws").await;
    let rules = [("/open", "group:other"), ("/team", "group:phusers")];
    let inside = world.running.internals();
    inside.publish(with_paths(&world, "paths", &rules));
    assert_eq!(open.farewell().await, Some(1008), "it needs a person now");
    assert!(team.carries().await && own.carries().await);
    inside.publish(with_paths(&world, "paths", &[("/team", "group:other")]));
    assert_eq!(
        team.farewell().await,
        Some(1008),
        "alice is not in that group"
    );
    assert!(own.carries().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_paths_that_are_newer_than_a_stream_apply_to_it_all_at_once() {
    let world = World::new().await.ready().await;
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let mut of_alice = world.websocket(&alice, "usr").await;
    let mut of_bob = world.websocket(&bob, "usr").await;
    let inside = world.running.internals();
    inside.publish(with_paths(&world, "usr", &[("/x", "group:phusers")]));
    assert_eq!(of_bob.farewell().await, Some(1008), "it may be below /x");
    assert!(of_alice.carries().await, "alice meets every rule");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_path_gets_no_identity_and_begins_no_session() {
    let world = World::with("", add_apps).await.ready().await;
    let alice = world.signed_in("alice").await;
    let answer = alice.clone().fetch("/apps/paths/open/x").await;
    assert_eq!(answer.status(), 200);
    assert!(answer.all("set-cookie").is_empty());
    let seen = world.backend("usr").last();
    for name in [
        "cookie",
        "x-forwarded-user",
        "x-forwarded-email",
        "x-forwarded-groups",
    ] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    let answer = alice.clone().fetch("/apps/paths/team/x").await;
    assert_eq!(answer.status(), 200);
    assert!(!answer.all("set-cookie").is_empty());
    let seen = world.backend("usr").last();
    assert_eq!(seen.header("x-forwarded-user").as_deref(), Some("alice"));
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_the_rule_that_refuses_and_none_of_other_requests() {
    let world = World::with("", add_apps).await.ready().await;
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    for (person, path, status, access) in [
        (&bob, "/apps/grp/rule", 403, Some("group:phusers")),
        (&bob, "/apps/mine/rule", 403, Some("owner:alice")),
        (
            &bob,
            "/apps/any/rule",
            403,
            Some("any(group:phusers, group:admins)"),
        ),
        (
            &alice,
            "/apps/not-group/rule",
            403,
            Some("user, deny:group:phusers"),
        ),
        (&bob, "/apps/paths/team/rule", 403, Some("group:phusers")),
        (
            &bob,
            "/apps/unk/rule",
            403,
            Some("\"primehub\" (not understood: denied)"),
        ),
        (&bob, "/apps/paths/rule", 200, None),
        (&bob, "/apps/usr/rule", 200, None),
        (&world.browser(), "/apps/grp/anonymous", 401, None),
    ] {
        let answer = person.clone().fetch(path).await;
        assert_eq!(answer.status(), status, "{path}");
        let line = world.log.line_with(&format!("\"{path}\"")).await;
        assert_eq!(line["access"].as_str(), access, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_header_replaces_the_path_or_the_method_that_chose_a_rule() {
    let world = World::with("", add_apps).await.ready().await;
    let names = [
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "X_Original.URL",
    ];
    let fields: String = names.map(|name| format!("{name}: /team\r\n")).concat();
    for (target, app, wanted) in [
        ("/apps/paths/open/x", "usr", false),
        // Without rules of paths they are the app's own.
        ("/apps/pub/x", "pub", true),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: HOST\r\n{fields}X-Mine: 1\r\n\r\n");
        assert_eq!(world.exchange(&head).await.status(), 200, "{target}");
        let seen = world.backend(app).last();
        assert_eq!(seen.header("x-mine").as_deref(), Some("1"), "{target}");
        for name in names {
            assert_eq!(seen.header(name).is_some(), wanted, "{target} {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preflight_reaches_the_app_without_a_person_and_nothing_else_does() {
    let world = World::with("", add_apps).await.ready().await;
    let alice = world.signed_in("alice").await;
    let cookies = alice.cookie_line("/apps/cors/");
    let origin = "Origin: http://other.test\r\n";
    let asks = "Access-Control-Request-Method: PUT\r\n";
    let send = async |method: &str, app: &str, fields: &str| {
        let head = format!("{method} /apps/{app}/x HTTP/1.1\r\nHost: HOST\r\n{fields}\r\n");
        world.exchange(&head).await
    };
    let overrides = "X-HTTP-Method-Override: DELETE\r\nX_Original_Url: /y\r\n";
    let fields = format!("{origin}{asks}{cookies}{overrides}");
    let answer = send("OPTIONS", "cors", &fields).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.all("set-cookie").is_empty());
    let seen = world.backend("usr").last();
    assert_eq!(seen.header("origin").as_deref(), Some("http://other.test"));
    for name in [
        "cookie",
        "x-forwarded-user",
        "x-forwarded-groups",
        "x-http-method-override",
        "x_original_url",
    ] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    for (method, app, fields) in [
        ("OPTIONS", "cors", String::new()),
        ("OPTIONS", "cors", origin.to_owned()),
        ("OPTIONS", "cors", asks.to_owned()),
        ("OPTIONS", "cors", format!("{origin}{origin}{asks}")),
        ("OPTIONS", "cors", format!("{origin}{asks}{asks}")),
        (
            "OPTIONS",
            "cors",
            format!("{origin}{asks}Transfer-Encoding: chunked\r\n\r\n0\r\n"),
        ),
        ("GET", "cors", format!("{origin}{asks}{cookies}")),
        ("PUT", "cors", format!("{origin}{asks}")),
        ("OPTIONS", "usr", format!("{origin}{asks}{cookies}")),
    ] {
        let answer = send(method, app, &fields).await;
        assert_eq!(answer.status(), 401, "{method} {app} {fields}");
    }
}
