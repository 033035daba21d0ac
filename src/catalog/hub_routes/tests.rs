//! The table of routes.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::clock::ManualClock;

fn routes() -> (HubRoutes, ManualClock) {
    let (clock, manual_clock) = Clock::manual();
    let settings = HubRouteSettings {
        prefix: "/nb".into(),
        access: Access::Public,
        timeout: Duration::from_secs(1),
        own: Vec::new(),
    };
    let routes = HubRoutes::new(settings, clock, PolicyChanges::new());
    (routes, manual_clock)
}

fn data(target: &str) -> Map<String, Value> {
    Map::from_iter([("target".to_owned(), target.into())])
}

fn add(routes: &HubRoutes, path: &str, target: &str) -> Result<(), HubRouteError> {
    routes.add(&RoutePath::parse(path)?, data(target))
}

/// The path of the route that a request finds, and the rest of the request's path.
fn found(routes: &HubRoutes, path: &str) -> Option<(String, String)> {
    match routes.find(path) {
        HubLookup::Route { app, end } => Some((app.mount.to_string(), path[end..].to_owned())),
        HubLookup::Elsewhere | HubLookup::NoRoutes | HubLookup::NoMatch => None,
    }
}

#[test]
fn the_longest_prefix_of_whole_segments_is_found() {
    let (routes, _) = routes();
    for path in [
        "/nb",
        "/nb/user/alice",
        "/nb/user/alice/gpu",
        "/nb/user/a%40b.c",
        "/nb/user/%C3%A4",
        "/nb/services/s",
    ] {
        add(&routes, path, "http://10.0.0.7:8888").expect("a route");
    }
    for (path, wanted) in [
        ("/nb", Some(("/nb", ""))),
        ("/nb/", Some(("/nb", "/"))),
        ("/nb/hub/home", Some(("/nb", "/hub/home"))),
        ("/nb/user/alice", Some(("/nb/user/alice", ""))),
        ("/nb/user/alice/", Some(("/nb/user/alice", "/"))),
        ("/nb/user/alice/lab", Some(("/nb/user/alice", "/lab"))),
        ("/nb/user/alice/gpu/x", Some(("/nb/user/alice/gpu", "/x"))),
        ("/nb/user/alice/gpus", Some(("/nb/user/alice", "/gpus"))),
        ("/nb/user/alicea/lab", Some(("/nb", "/user/alicea/lab"))),
        ("/nb/user/Alice/lab", Some(("/nb", "/user/Alice/lab"))),
        // Escapes of a segment are compared decoded, once.
        ("/nb/user/%61lice/lab", Some(("/nb/user/alice", "/lab"))),
        ("/nb/user/a@b.c/x", Some(("/nb/user/a%40b.c", "/x"))),
        ("/nb/user/a%40b%2Ec/x", Some(("/nb/user/a%40b.c", "/x"))),
        ("/nb/user/%c3%a4/x", Some(("/nb/user/%C3%A4", "/x"))),
        ("/nb/user/%2561lice/x", Some(("/nb", "/user/%2561lice/x"))),
        ("/nb/user/%ff/x", Some(("/nb", "/user/%ff/x"))),
        // An escaped slash ends no segment.
        ("/nb/user%2Falice/x", Some(("/nb", "/user%2Falice/x"))),
        (
            "/nb/user/alice%2Fgpu/x",
            Some(("/nb", "/user/alice%2Fgpu/x")),
        ),
        ("/nb/user/alice/a%2Fb", Some(("/nb/user/alice", "/a%2Fb"))),
        ("/nb//user/alice/x", Some(("/nb", "//user/alice/x"))),
        ("/nb/./user/alice/x", Some(("/nb", "/./user/alice/x"))),
        ("/nbx", None),
        ("/n%62/user/alice/", None),
        ("/", None),
    ] {
        let wanted = wanted.map(|(route, rest)| (route.to_owned(), rest.to_owned()));
        assert_eq!(found(&routes, path), wanted, "{path}");
    }
}

#[test]
fn paths_without_a_route_are_told_from_those_of_others() {
    let (routes, _) = routes();
    assert!(matches!(routes.find("/apps/a/"), HubLookup::Elsewhere));
    assert!(matches!(routes.find("/nb/hub/"), HubLookup::NoRoutes));
    add(&routes, "/nb/user/alice", "http://10.0.0.7:8888").expect("a route");
    assert!(matches!(routes.find("/nb/hub/"), HubLookup::NoMatch));
}

#[test]
fn routes_outside_of_the_prefix_are_refused() {
    let (routes, _) = routes();
    for path in ["/", "/user/alice", "/nbx", "/hub.example.com/nb/user/alice"] {
        let error = add(&routes, path, "http://10.0.0.7:8888").expect_err(path);
        let text = error.to_string();
        assert!(text.contains("base_url must be /nb/"), "{text}");
        assert!(text.contains("subdomain_host"), "{text}");
    }
    assert!(routes.list(None).is_empty());
}

#[test]
fn a_replaced_route_keeps_its_app_unless_the_server_is_another() {
    let (routes, _) = routes();
    let path = RoutePath::parse("/nb/user/alice").expect("a path");
    let app = || match routes.find("/nb/user/alice/") {
        HubLookup::Route { app, .. } => app,
        HubLookup::Elsewhere | HubLookup::NoRoutes | HubLookup::NoMatch => panic!("no route"),
    };
    let first = data("http://10.0.0.7:8888");
    routes.add(&path, first.clone()).expect("a route");
    let before = app();
    let mut changes = routes.policy_changes.subscribe();
    let mut again = first;
    again.insert("user".to_owned(), json!("alice"));
    routes.add(&path, again).expect("a route");
    assert!(Arc::ptr_eq(&before, &app()));
    assert_eq!(routes.get(&path).expect("a route")["user"], "alice");
    assert!(!changes.has_changed().expect("a sender"));
    assert!(routes.still_published(&before).is_some());

    routes
        .add(&path, data("http://10.0.0.8:8888"))
        .expect("a route");
    assert!(changes.has_changed().expect("a sender"));
    changes.mark_unchanged();
    assert!(routes.still_published(&before).is_none());
    assert!(routes.still_published(&app()).is_some());

    assert!(routes.remove(&path) && !routes.remove(&path));
    assert!(changes.has_changed().expect("a sender"));
    assert!(routes.still_published(&before).is_none());
}

#[test]
fn routes_are_listed_with_their_data_and_their_last_activity() {
    let (routes, manual_clock) = routes();
    add(&routes, "/nb/user/a%40b", "http://10.0.0.7:8888").expect("a route");
    let begin = routes.clock.wall_millis();
    manual_clock.advance(Duration::from_secs(60));
    add(&routes, "/nb", "http://hub:8081").expect("a route");
    let all = routes.list(None);
    assert_eq!(all.keys().collect::<Vec<_>>(), ["/nb", "/nb/user/a@b"]);
    let listed = &all["/nb/user/a@b"];
    assert_eq!(listed["target"], "http://10.0.0.7:8888");
    let text = listed["last_activity"].as_str().expect("a text");
    assert!(text.ends_with(".000Z"), "{text}");
    let time = DateTime::parse_from_rfc3339(text).expect("a time");
    assert_eq!(time.timestamp_millis(), begin);

    let inactive = |since| routes.list(Some(since)).into_iter().map(|(key, _)| key);
    assert_eq!(inactive(begin).count(), 0);
    assert!(inactive(begin + 1).eq(["/nb/user/a@b"]));
    assert_eq!(inactive(begin + 60_001).count(), 2);
}

#[test]
fn the_number_of_routes_is_limited_and_present_ones_can_change() {
    let (routes, _) = routes();
    for number in 0..MAX_ROUTES {
        add(
            &routes,
            &format!("/nb/user/{number}"),
            "http://10.0.0.7:8888",
        )
        .expect("a route");
    }
    let one_more = add(&routes, "/nb/user/more", "http://10.0.0.7:8888");
    assert_eq!(one_more, Err(HubRouteError::Full));
    add(&routes, "/nb/user/7", "http://10.0.0.8:8888").expect("a change");
    assert!(routes.remove(&RoutePath::parse("/nb/user/8").expect("a path")));
    add(&routes, "/nb/user/more", "http://10.0.0.7:8888").expect("room for one");
}

#[test]
fn the_data_of_all_routes_is_limited_and_that_of_replaced_and_removed_ones_is_free() {
    let (routes, _) = routes();
    let add = |number: usize, bytes: usize| {
        let mut data = data("http://10.0.0.7:8888");
        data.insert("more".to_owned(), "x".repeat(bytes).into());
        let path = format!("/nb/user/{number}");
        routes.add(&RoutePath::parse(&path)?, data)
    };
    let most = MAX_DATA / 4 - 100;
    for number in 0..4 {
        add(number, most).expect("a route");
    }
    assert_eq!(add(4, 1000), Err(HubRouteError::TooMuchData));
    add(0, most).expect("the data that it replaces does not count");
    add(1, 0).expect("less data");
    add(4, most).expect("room for one");
    assert_eq!(add(1, 1000), Err(HubRouteError::TooMuchData));
    assert!(routes.remove(&RoutePath::parse("/nb/user/2").expect("a path")));
    add(1, most).expect("room for one");
    assert_eq!(routes.list(None).len(), 4);
}

/// The route that a list of routes has for a path: the longest whose segments begin it.
fn longest<'r>(added: &'r [Vec<String>], path: &[String]) -> Option<&'r Vec<String>> {
    let fits = |route: &&Vec<String>| path.starts_with(route);
    added.iter().filter(fits).max_by_key(|route| route.len())
}

/// Segments, few enough to meet.
fn segments(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("[ab]{1,2}", count).prop_map(|mut segments| {
        segments.insert(0, "nb".to_owned());
        segments
    })
}

proptest! {
    #[test]
    fn every_path_finds_its_longest_route(
        added in proptest::collection::vec(segments(0..5), 0..12),
        removed in segments(0..5),
        path in segments(0..7),
        has_slash in any::<bool>(),
    ) {
        let (routes, _) = routes();
        let text = |segments: &[String]| format!("/{}", segments.join("/"));
        for route in &added {
            add(&routes, &text(route), "http://10.0.0.7:8888").expect("a route");
        }
        routes.remove(&RoutePath::parse(&text(&removed)).expect("a path"));
        let left: Vec<_> = added.into_iter().filter(|route| *route != removed).collect();
        let wanted = longest(&left, &path).map(|route| text(route));
        let path = text(&path) + if has_slash { "/" } else { "" };
        let route = found(&routes, &path);
        if let Some((route, rest)) = &route {
            prop_assert_eq!(format!("{route}{rest}"), path);
        }
        prop_assert_eq!(route.map(|(route, _)| route), wanted);
    }
}
