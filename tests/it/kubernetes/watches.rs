//! Watches of a Kubernetes API that goes wrong: an event is never skipped, the past never comes
//! back (docs/behaviour.md#kubernetes).

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{
    kubernetes_api::{
        ALWAYS, APPS, Fault, HUB, KubernetesApi, RequestKind, SLICES, StatesSeen, application,
        bookmark, decision, error_event,
    },
    world::World,
};

fn access_of(world: &World, app: &str) -> String {
    let snapshot = world.running.internals().snapshot();
    snapshot.find(app).map_or_else(
        || "gone".to_owned(),
        |app| app.spec.access.kind().to_owned(),
    )
}

async fn until_access(world: &World, app: &str, kind: &str) {
    world
        .until(|snapshot| {
            snapshot
                .find(app)
                .is_some_and(|app| app.spec.access.kind() == kind)
        })
        .await;
}

/// The object of an event's line, changed.
fn rewritten(line: &str, change: impl Fn(&mut Value)) -> String {
    let mut event: Value = serde_json::from_str(line).expect("JSON");
    change(&mut event);
    format!("{event}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_change_in_an_unreadable_event_is_in_force_all_the_same() {
    let spoilt: [(&str, Fault); 10] = [
        (
            "half a line, and more lines",
            Fault::Spoil(|line| format!("{}\n", &line[..line.len() / 2])),
        ),
        ("half a line, and the end", Fault::CutInside),
        (
            "two halves of lines in one",
            Fault::Spoil(|line| line[..line.len() / 2].to_owned()),
        ),
        (
            "no JSON",
            Fault::Spoil(|_| "<html>502 Bad Gateway</html>\n".to_owned()),
        ),
        (
            "an object that is none",
            Fault::Spoil(|line| rewritten(line, |event| event["object"] = 5.into())),
        ),
        (
            "an unknown type",
            Fault::Spoil(|line| rewritten(line, |event| event["type"] = "PATCHED".into())),
        ),
        (
            "no version",
            Fault::Spoil(|line| {
                rewritten(line, |event| {
                    event["object"]["metadata"]["resourceVersion"] = "".into()
                })
            }),
        ),
        (
            "an error instead",
            Fault::Spoil(|_| format!("{}\n", error_event(500))),
        ),
        ("nothing to look at", Fault::Spoil(|_| "{}\n".to_owned())),
        (
            "an error that is none",
            Fault::Spoil(|_| r#"{"type":"ERROR","object":"x"}"#.to_owned() + "\n"),
        ),
    ];
    let mut tests = JoinSet::new();
    for (what, fault) in spoilt {
        tests.spawn(async move {
            let api = KubernetesApi::start().await;
            api.app("flip", "public", json!({}));
            api.app("goes", "public", json!({}));
            let world = api.world("").await;
            api.script(RequestKind::Watch(APPS), 1, fault);
            api.end_watches(APPS).await;
            // What is lost is told first; that the next events are fine must not hide it.
            api.app("flip", "group", json!({}));
            api.app("other", "primehub", json!({}));
            api.delete(APPS, HUB, "goes");
            world
                .until(|snapshot| {
                    snapshot.find("other").is_some() && snapshot.find("goes").is_none()
                })
                .await;
            until_access(&world, "flip", "group").await;
            assert_eq!(decision(&world, "flip").await, "401 anonymous", "{what}");
        });
    }
    tests.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_revoked_is_not_granted_again_by_an_event_of_the_past() {
    let api = KubernetesApi::start().await;
    api.app("flip", "public", json!({}));
    api.app("ghost", "public", json!({}));
    let old = [api.get(APPS, "flip"), api.get(APPS, "ghost")];
    api.app("flip", "group", json!({}));
    api.delete(APPS, HUB, "ghost");
    let world = api.world("").await;
    assert_eq!(decision(&world, "flip").await, "401 anonymous");
    let states = StatesSeen::start(&world, |snapshot| {
        let is_public = |name: &str| {
            snapshot
                .find(name)
                .is_some_and(|app| app.spec.access.kind() == "public")
        };
        let exists = |name: &str| snapshot.find(name).is_some();
        (is_public("flip"), exists("ghost"), exists("last"))
    });
    for old in old {
        let lists = api.count(RequestKind::List(APPS));
        let watches = api.count(RequestKind::Watch(APPS));
        let event = json!({ "type": "MODIFIED", "object": old });
        api.script(
            RequestKind::Watch(APPS),
            1,
            Fault::Says(format!("{event}\n")),
        );
        api.end_watches(APPS).await;
        // After an old event newer ones may be missing, so the gateway lists again: one watch gets
        // the event, and another follows the list.
        api.until_count(RequestKind::List(APPS), lists + 1).await;
        api.until_count(RequestKind::Watch(APPS), watches + 2).await;
    }
    api.app("last", "public", json!({}));
    world
        .until(|snapshot| snapshot.find("last").is_some())
        .await;
    assert_eq!(access_of(&world, "flip"), "group");
    let seen = states.finish(|(_, _, has_last)| *has_last).await;
    assert!(
        seen.iter()
            .all(|(flip_is_public, has_ghost, _)| !flip_is_public && !has_ghost),
        "{seen:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_twice_or_is_nothing_to_us_needs_no_list() {
    let api = KubernetesApi::start().await;
    api.app("one", "public", json!({}));
    let world = api.world("").await;
    let lists = api.count(RequestKind::List(APPS));
    let watches = api.count(RequestKind::Watch(APPS));
    let again = json!({ "type": "ADDED", "object": api.get(APPS, "one") });
    let (later, version) = (api.version() + 5, (api.version() + 5).to_string());
    let mut stranger = application("stranger", "public", json!({}));
    stranger["metadata"]["resourceVersion"] = version.clone().into();
    let unknown = json!({ "type": "DELETED", "object": stranger });
    api.script(
        RequestKind::Watch(APPS),
        1,
        Fault::SaysAndEnds(format!(
            "{again}\n{again}\n\n{unknown}\n{}\n",
            bookmark(APPS, later)
        )),
    );
    api.end_watches(APPS).await;
    // The watch after it goes on from the bookmark.
    api.until_count(RequestKind::Watch(APPS), watches + 2).await;
    let last = api
        .calls()
        .into_iter()
        .rfind(|call| call.kind == RequestKind::Watch(APPS))
        .expect("a watch");
    assert!(
        last.target.contains(&format!("resourceVersion={version}")),
        "{}",
        last.target
    );
    while api.version() < later {
        api.app("one", "public", json!({}));
    }
    api.app("one", "group", json!({}));
    until_access(&world, "one", "group").await;
    assert!(
        world
            .running
            .internals()
            .snapshot()
            .find("stranger")
            .is_none()
    );
    assert_eq!(api.count(RequestKind::List(APPS)), lists);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_is_never_asked_to_last_longer_than_the_client_can_ask_for() {
    let api = KubernetesApi::start().await;
    let _world = api.world("watch = \"10m\"").await;
    let watch = api
        .calls()
        .into_iter()
        .find(|call| call.kind == RequestKind::Watch(APPS))
        .expect("a watch");
    assert!(
        watch.target.contains("timeoutSeconds=290"),
        "{}",
        watch.target
    );
    assert_eq!(api.count(RequestKind::List(APPS)), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_watch_lives_on_bookmarks_and_never_has_to_list() {
    let api = KubernetesApi::start().await;
    api.app("one", "public", json!({}));
    let world = api.world("watch = \"1s\"").await;
    let lists = api.count(RequestKind::List(APPS));
    // Things happen elsewhere, and are forgotten: only a bookmark says that nothing was missed.
    for round in 0..3 {
        api.put(APPS, "elsewhere", application("two", "public", json!({})));
        let watches = api.count(RequestKind::Watch(APPS));
        api.until_count(RequestKind::Watch(APPS), watches + 1).await;
        if round > 0 {
            api.compact();
        }
    }
    api.app("one", "group", json!({}));
    until_access(&world, "one", "group").await;
    assert_eq!(api.count(RequestKind::List(APPS)), lists);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_goes_wrong_again_and_again_the_api_is_asked_a_few_times_a_second_at_most() {
    const ROUNDS: usize = 5;
    let faults: [(&str, RequestKind, Fault); 9] = [
        (
            "a watch that ends at once",
            RequestKind::Watch(APPS),
            Fault::SaysAndEnds(String::new()),
        ),
        (
            "a watch that says that nothing happened and ends",
            RequestKind::Watch(SLICES),
            Fault::SaysAndEnds(format!("{}\n", bookmark(SLICES, 1_000_000))),
        ),
        (
            "a watch that is always too old",
            RequestKind::Watch(APPS),
            Fault::Status(410),
        ),
        (
            "a watch that is always too old in its stream",
            RequestKind::Watch(APPS),
            Fault::SaysAndEnds(format!("{}\n", error_event(410))),
        ),
        (
            "a watch that says nonsense",
            RequestKind::Watch(APPS),
            Fault::SaysAndEnds("nonsense\n".to_owned()),
        ),
        (
            "a watch that fails",
            RequestKind::Watch(SLICES),
            Fault::Status(503),
        ),
        ("a list that is cut", RequestKind::List(APPS), Fault::Reset),
        (
            "a list that is one too many",
            RequestKind::List(APPS),
            Fault::Status(429),
        ),
        ("no discovery", RequestKind::Discovery, Fault::Status(500)),
    ];
    let mut tests = JoinSet::new();
    for (what, kind, fault) in faults {
        tests.spawn(async move {
            let api = KubernetesApi::start().await;
            api.script(kind, ALWAYS, fault);
            // All pauses come after this, however late the test sees a request.
            let began = Instant::now();
            let _world = api.gateway("").await;
            api.until_count(kind, ROUNDS).await;
            let took = began.elapsed();
            // Pauses of at least 0.2, 0.4, 0.8 and 1.6 seconds, or one of a second for every watch
            // that ends.
            assert!(
                took >= Duration::from_millis(2900),
                "{what}: {ROUNDS} times in {took:?}"
            );
            // Five tries of one kind, each with a discovery of two requests, a list and a watch; as
            // many for the other.
            assert!(
                api.calls().len() <= ROUNDS * 8,
                "{what}: {:#?}",
                api.calls()
            );
        });
    }
    tests.join_all().await;
}
