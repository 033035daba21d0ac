//! Entries that a template has twice, and containers of which only the first runs.

use serde_json::{Value, json};

use crate::support::controller::{Controlled, pod, serving, until_page};

/// Server-side apply refuses lists with two entries of one key, which PrimeHub's controller could
/// write.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_with_repeated_entries_runs_with_the_last_value_and_the_first_container() {
    let controlled = Controlled::start().await;
    let mut first = serving("env");
    first["env"] = json!([
        { "name": "FOO", "value": "template" },
        { "name": "BAR", "value": "$(FOO)" },
        { "name": "FOO", "value": "user" },
    ]);
    first["ports"] = json!([
        { "containerPort": 5000 },
        { "containerPort": 5000, "protocol": "TCP" },
    ]);
    // It would never be ready.
    let second = json!({ "name": "second", "image": "localhost/missing:1" });
    controlled.app("lab", pod(json!([first, second]))).await;
    controlled.until_phase("lab", "Ready").await;
    let world = controlled.gateway("lab").await;
    until_page(&world, "lab", &["FOO=user", "BAR=user"]).await;
    let is_dropped = |status: &Value| {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut dropped = conditions.filter(|it| it["type"] == "ContainersDropped");
        dropped.any(|it| it["message"] == "not started: containers[second]")
    };
    controlled.until("lab", is_dropped).await;
    let wait = [
        "wait",
        "--for=condition=ContainersDropped",
        "phapplication/lab",
    ];
    controlled.namespace.kubectl(&wait, "").await;
    controlled.app("lab", json!({})).await;
    controlled.until_current("lab", "Ready").await;
    controlled.until("lab", |status| !is_dropped(status)).await;
}
