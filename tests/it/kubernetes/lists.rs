//! Lists of a Kubernetes API that goes wrong: whole or not at all (docs/behaviour.md#kubernetes).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{sync::Semaphore, task::JoinSet, time::MissedTickBehavior};

use crate::support::{
    kubernetes_api::{
        APPS, Fault, KubernetesApi, RequestKind, SLICES, StatesSeen, decision, metric,
    },
    message::PATIENCE,
    world::{APPS as OWN, World},
};

/// More than a page.
const SOME: usize = 600;
const MANY: usize = 10_000;

/// So many apps from `app-0` on; those with even numbers are public, the others have an unknown
/// scope.
fn fill(api: &KubernetesApi, count: usize) {
    for number in 0..count {
        let scope = if number % 2 == 0 {
            "public"
        } else {
            "unknown-access"
        };
        api.app(&format!("app-{number}"), scope, json!({}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_published_before_both_kinds_were_listed_whole_once() {
    for late in [RequestKind::List(SLICES), RequestKind::List(APPS)] {
        let api = KubernetesApi::start().await;
        fill(&api, SOME);
        let permits = Arc::new(Semaphore::new(0));
        api.script(late, 1, Fault::Hold(permits.clone()));
        let world = api.gateway("").await;
        api.until_count(late, 1).await;
        if late == RequestKind::List(SLICES) {
            api.until_count(RequestKind::Watch(APPS), 1).await;
        }
        for app in ["app-0", "app-599", "nothing"] {
            assert_eq!(
                decision(&world, app).await,
                "503 catalog_unavailable",
                "{late:?}"
            );
        }
        assert_eq!(
            decision(&world, "grp").await,
            "401 anonymous",
            "apps of the file do not wait"
        );
        assert_eq!(world.admin("/readyz", "").await.status(), 503);
        permits.add_permits(1);
        world.until(|snapshot| snapshot.is_complete()).await;
        for (app, expected) in [
            ("app-0", "503 starting"),
            ("app-599", "403 unknown_access"),
            ("nothing", "404 unknown_app"),
        ] {
            assert_eq!(decision(&world, app).await, expected);
        }
        assert_eq!(world.admin("/readyz", "").await.status(), 200);
        assert_eq!(
            metric(&world, "ludgate_catalog_apps").await as usize,
            SOME + OWN.len()
        );
        assert_eq!(
            metric(&world, "ludgate_catalog_problems").await as usize,
            SOME / 2
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_breaks_off_changes_nothing_and_the_next_whole_one_everything() {
    let faults = [
        (
            "expired after a page",
            RequestKind::Page(APPS),
            2,
            Fault::Status(410),
        ),
        ("cut after a page", RequestKind::Page(APPS), 2, Fault::Reset),
        (
            "cut in the first page",
            RequestKind::List(APPS),
            2,
            Fault::Reset,
        ),
        (
            "standing still after a page",
            RequestKind::Page(APPS),
            1,
            Fault::Hang,
        ),
        (
            "standing still in a page",
            RequestKind::List(APPS),
            1,
            Fault::HangInside,
        ),
        ("forbidden", RequestKind::List(APPS), 2, Fault::Status(403)),
        ("unknown", RequestKind::List(APPS), 2, Fault::Status(404)),
        ("broken", RequestKind::Page(APPS), 2, Fault::Status(500)),
        (
            "too many requests",
            RequestKind::List(APPS),
            2,
            Fault::Status(429),
        ),
        ("away", RequestKind::List(APPS), 2, Fault::Status(503)),
    ];
    let mut tests = JoinSet::new();
    for (what, kind, times, fault) in faults {
        tests.spawn(async move {
            let api = KubernetesApi::start().await;
            fill(&api, SOME);
            api.app("flip", "public", json!({}));
            // A watch of a second: who stands still is given up after two.
            let world = api.world("watch = \"1s\"").await;
            assert_eq!(decision(&world, "flip").await, "503 starting");
            let whole = world.running.internals().snapshot().len();
            let states = StatesSeen::start(&world, |snapshot| {
                let flip = snapshot.find("flip").map(|app| app.spec.access.kind());
                (snapshot.len(), flip.unwrap_or("gone"))
            });
            api.script(kind, times, fault);
            let lists = api.count(RequestKind::List(APPS));
            // What is written while no watch is open can only come with a list.
            api.expire(APPS).await;
            api.app("flip", "group", json!({}));
            world
                .until(|snapshot| {
                    snapshot
                        .find("flip")
                        .is_some_and(|app| app.spec.access.kind() == "group")
                })
                .await;
            assert!(
                api.count(RequestKind::List(APPS)) > lists + times,
                "{what}: the fault was met"
            );
            assert_eq!(decision(&world, "flip").await, "401 anonymous");
            let seen = states.finish(|(_, access)| *access == "group").await;
            assert!(
                seen.iter()
                    .all(|(count, access)| *count == whole && *access != "gone"),
                "{what}: {seen:?}"
            );
        });
    }
    tests.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_right_while_ten_thousand_apps_are_listed_again() {
    let api = KubernetesApi::start().await;
    fill(&api, MANY);
    let world = Arc::new(api.world("").await);
    let permits = Arc::new(Semaphore::new(0));
    api.script(RequestKind::List(APPS), 1, Fault::Hold(permits.clone()));
    api.script(RequestKind::Page(APPS), MANY, Fault::Hold(permits.clone()));
    api.expire(APPS).await;
    let lists = RequestKind::List(APPS);
    api.until_count(lists, 2).await;
    let pages = MANY.div_ceil(500);
    let (wrong, mut asking) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
    let mut pace = tokio::time::interval(Duration::from_millis(2));
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (began, mut asked, mut listed) = (Instant::now(), 0_usize, 0_usize);
    // A page is let through for every fifty requests: the list lasts as long as two seconds of
    // them.
    while listed < pages || asked < 1200 {
        pace.tick().await;
        asked += 1;
        if asked % 50 == 0 && listed < pages {
            permits.add_permits(1);
            listed += 1;
        }
        let (world, wrong) = (world.clone(), wrong.clone());
        let number = asked * 7919 % (MANY + MANY / 10);
        asking.spawn(async move {
            let expected = match number {
                MANY.. => "404 unknown_app",
                known if known % 2 == 0 => "503 starting",
                _ => "403 unknown_access",
            };
            let got = decision(&world, &format!("app-{number}")).await;
            if got != expected {
                wrong.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let sent = began.elapsed();
    tokio::time::timeout(PATIENCE, asking.join_all())
        .await
        .expect("everybody is answered");
    let answered = began.elapsed();
    assert_eq!(wrong.load(Ordering::Relaxed), 0, "wrong answers of {asked}");
    api.until_count(RequestKind::Watch(APPS), 3).await;
    assert_eq!(
        api.count(RequestKind::Page(APPS)),
        pages - 1,
        "the list went to its end"
    );
    eprintln!(
        "{asked} requests in {sent:?}, all answered after {answered:?}; {pages} pages were listed meanwhile"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_forgotten_is_told_in_two_ways_and_nothing_is_lost_in_either() {
    for as_status in [true, false] {
        let api = KubernetesApi::start().await;
        api.app("stays", "public", json!({}));
        api.app("goes", "public", json!({}));
        api.app("flip", "public", json!({}));
        let world: World = api.world("").await;
        let (lists, watches) = (
            api.count(RequestKind::List(APPS)),
            api.count(RequestKind::Watch(APPS)),
        );
        api.away().await;
        api.delete(APPS, "hub", "goes");
        api.app("flip", "group", json!({}));
        api.app("comes", "primehub", json!({}));
        api.compact();
        if as_status {
            api.script(RequestKind::Watch(APPS), 1, Fault::Status(410));
        }
        api.back().await;
        api.until_count(RequestKind::Watch(APPS), watches + 2).await;
        world
            .until(|snapshot| snapshot.find("comes").is_some())
            .await;
        let told = [
            ("stays", "503 starting"),
            ("goes", "404 unknown_app"),
            ("flip", "401 anonymous"),
            ("comes", "401 anonymous"),
        ];
        for (app, expected) in told {
            assert_eq!(
                decision(&world, app).await,
                expected,
                "{app}, as a status: {as_status}"
            );
        }
        assert_eq!(api.count(RequestKind::List(APPS)), lists + 1, "listed once");
    }
}
