//! What people and programs get of an app in each of its states (docs/behaviour.md#app-states).

use serde_json::json;

use super::namespace::Namespace;
use crate::support::world::World;

/// What is expected: forwarded, or which reason for 503.
const FORWARDED: &str = "";
const PHASES: [(&str, &str, &str); 6] = [
    // phase, with a ready pod, without
    ("Starting", FORWARDED, "starting"),
    ("Ready", FORWARDED, "starting"),
    ("Updating", FORWARDED, "starting"),
    ("Error", FORWARDED, "failed"),
    ("Stopping", "stopping", "stopping"),
    ("Stopped", "stopped", "stopped"),
];
const KINDS: [(&str, &str); 3] = [
    (
        "navigation",
        "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html\r\n",
    ),
    ("program", "Accept: application/json\r\n"),
    (
        "WebSocket",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://HOST\r\n",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_of_six_phases_with_and_without_a_ready_pod_has_its_answer() {
    let namespace = Namespace::new().await;
    for (phase, _, _) in PHASES {
        for (pod, has_pod) in [(0, true), (1, false)] {
            let name = format!(
                "{}-{}",
                phase.to_lowercase(),
                if has_pod { "pod" } else { "none" }
            );
            namespace.app(&name, "public", json!({})).await;
            namespace
                .status(
                    &name,
                    json!({ "phase": phase, "message": format!("It is <{phase}>.") }),
                )
                .await;
            let backend =
                crate::support::backend::Backend::on("app", namespace.pods.listen(pod, 0));
            let ready = if has_pod {
                vec![backend.address()]
            } else {
                Vec::new()
            };
            namespace.endpoints(&name, &ready).await;
        }
    }
    let world = namespace.world().await;
    let mut wrong = Vec::new();
    for (phase, with, without) in PHASES {
        for (suffix, expected) in [("pod", with), ("none", without)] {
            for (kind, headers) in KINDS {
                let got = outcome(
                    &world,
                    &format!("{}-{suffix}", phase.to_lowercase()),
                    kind,
                    headers,
                    phase,
                )
                .await;
                if got != expected {
                    wrong.push(format!(
                        "{phase}, {suffix}, {kind}: {got:?} instead of {expected:?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The reason for a 503, or [`FORWARDED`]; everything else about the answer is checked on the way.
async fn outcome(world: &World, app: &str, kind: &str, headers: &str, phase: &str) -> String {
    let verb = if kind == "WebSocket" { "ws" } else { "x" };
    let mut raw = world.raw().await;
    raw.send(
        format!("GET /apps/{app}/{verb} HTTP/1.1\r\nHost: HOST\r\n{headers}\r\n")
            .replace("HOST", &world.host),
    )
    .await;
    if kind == "WebSocket" {
        let head = raw
            .reader
            .head()
            .await
            .expect("readable")
            .expect("an answer");
        if head.status() == 101 {
            return FORWARDED.to_owned();
        }
        assert_eq!(head.status(), 503);
        let line = world
            .log
            .line_with(&format!("\"path\":\"/apps/{app}/ws\""))
            .await;
        return line["reason"].as_str().expect("a reason").to_owned();
    }
    let answer = raw.answer().await.expect("an answer");
    if answer.status() == 200 {
        assert_eq!(answer.text(), format!("app /apps/{app}/x"));
        return FORWARDED.to_owned();
    }
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"));
    assert!(answer.header("retry-after").is_some());
    if kind == "program" {
        let problem = answer.json();
        assert_eq!(problem["message"], format!("It is <{phase}>."));
        return problem["reason"].as_str().expect("a reason").to_owned();
    }
    let page = answer.text();
    assert!(
        page.contains("http-equiv=\"refresh\""),
        "the page looks again by itself: {page}"
    );
    assert!(
        page.contains(&format!("It is &#60;{phase}&#62;.")),
        "the message is shown, as text: {page}"
    );
    let line = world
        .log
        .line_with(&format!("\"path\":\"/apps/{app}/x\""))
        .await;
    line["reason"].as_str().expect("a reason").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_waits_is_the_app_as_soon_as_a_pod_is_ready_whatever_the_phase_says() {
    let namespace = Namespace::new().await;
    namespace.app("slow", "primehub", json!({})).await;
    namespace
        .status(
            "slow",
            json!({ "phase": "Starting", "message": "secret progress" }),
        )
        .await;
    let world = namespace.world().await;
    // Who may not see the app learns nothing of its state.
    let anonymous = world
        .exchange("GET /apps/slow/ HTTP/1.1\r\nHost: HOST\r\nAccept: application/json\r\n\r\n")
        .await;
    assert_eq!(anonymous.status(), 401);
    assert!(
        !anonymous.text().contains("secret progress"),
        "{}",
        anonymous.text()
    );
    let mut alice = world.signed_in("alice").await;
    let waiting = alice.open("/apps/slow/").await;
    assert_eq!(waiting.status(), 503);
    assert!(waiting.text().contains("secret progress"));
    let app = namespace.running("slow", 0).await;
    world.until_running("slow").await;
    assert_eq!(alice.open("/apps/slow/").await.status(), 200);
    assert_eq!(app.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_to_stop_is_refused_and_one_that_starts_again_is_not() {
    let namespace = Namespace::new().await;
    namespace.running("halt", 0).await;
    namespace
        .app("halt", "public", json!({ "stop": true }))
        .await;
    let world = namespace.world().await;
    let get = "GET /apps/halt/ HTTP/1.1\r\nHost: HOST\r\nAccept: application/json\r\n\r\n";
    assert_eq!(world.exchange(get).await.json()["reason"], "stopping");
    namespace.endpoints("halt", &[]).await;
    world
        .until(|snapshot| {
            snapshot
                .find("halt")
                .is_some_and(|app| app.spec.state.as_str() == "stopped")
        })
        .await;
    assert_eq!(world.exchange(get).await.json()["reason"], "stopped");
    namespace
        .app("halt", "public", json!({ "stop": false }))
        .await;
    namespace.running("halt", 1).await;
    world.until_running("halt").await;
    assert_eq!(world.exchange(get).await.status(), 200);
}
