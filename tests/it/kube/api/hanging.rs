//! A cluster that accepts connections and answers nothing.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use super::{CREATE, GET, LIST, UPDATE, mutation, named, new_app};
use crate::support::{
    api::{Api, PLATFORM},
    until::assert_soon,
};

#[tokio::test(flavor = "multi_thread")]
async fn while_the_cluster_hangs_every_call_ends_within_ten_seconds() {
    // The kernel accepts connections, and no server answers.
    let hung = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("https://{}", hung.local_addr().expect("an address"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "c", "cluster": { "server": server, "insecure-skip-tls-verify": true } }],
        "users": [{ "name": "u", "user": { "token": "t" } }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    std::fs::write(&file, config.to_string()).expect("written");
    let api = Api::with("hub", &file, "https://hub.example.com", PLATFORM).await;
    let change = json!({ "where": { "id": "lab" }, "data": { "env": [] } });
    let groups = "{ me { effectiveGroups { instanceTypes { name } } } }";
    // An error for each field without a value: alice is in two groups.
    let calls = [
        (LIST.to_owned(), json!({}), 1),
        (GET.to_owned(), named("lab"), 1),
        (CREATE.to_owned(), new_app("lab", "phusers"), 1),
        (UPDATE.to_owned(), change, 1),
        (mutation("stop"), named("lab"), 1),
        (mutation("start"), named("lab"), 1),
        (mutation("delete"), named("lab"), 1),
        ("{ phAppTemplates { id } }".to_owned(), json!({}), 1),
        (groups.to_owned(), json!({}), 2),
    ];
    let token = api.provider.access_token("alice");
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let started = Instant::now();
    let answers = calls
        .iter()
        .map(|(query, variables, _)| api.call("alice", query, variables.clone()));
    let (answers, log) = tokio::join!(
        join_all(answers),
        api.send("GET /api/logs/phapplications/app-lab-1", &bearer, ""),
    );
    let waited = started.elapsed();
    assert_soon(Duration::from_secs(10), waited);
    for ((query, _, count), answer) in calls.iter().zip(answers) {
        let errors = answer["errors"].as_array().map(Vec::as_slice);
        let errors = errors.unwrap_or_default();
        assert_eq!(errors.len(), *count, "{query}: {answer}");
        for error in errors {
            let code = &error["extensions"]["code"];
            assert_eq!(code, "API_UNAVAILABLE", "{query}: {answer}");
        }
    }
    assert!([503, 504].contains(&log.status()), "{}", log.text());
    let line = "the log cannot be read now; please try again\n";
    assert_eq!(log.text(), line);
    let me = api.data("alice", "{ me { username } }", json!({})).await;
    assert_eq!(
        me["me"]["username"], "alice",
        "what needs no cluster is there"
    );
}
