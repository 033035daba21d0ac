//! `ludgate apps` on a cluster with our controller: what `--watch` and `logs` print.

use tokio::io::{AsyncBufReadExt, BufReader};

use super::{
    controller::{Controlled, POD_PATIENCE},
    python_client::{PLATFORM, template},
};
use crate::support::{api::Api, command_line::Terminal, message::PATIENCE, world::free_port};

/// The last column of each row of a table that was watched.
fn statuses(table: &str) -> Vec<&str> {
    let rows = table.lines().skip(1);
    rows.filter_map(|row| row.split_whitespace().last())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_watches_an_app_from_its_start_to_its_end() {
    let controlled = Controlled::with(PLATFORM).await;
    let namespace = &controlled.namespace;
    namespace
        .kubectl(&["apply", "-f", "-"], &template().to_string())
        .await;
    namespace.grant("api.yaml").await;
    let kubeconfig = namespace.kubeconfig_of("ludgate-api").await;
    let site = format!("http://127.0.0.1:{}", free_port());
    let api = Api::with(&namespace.name, &kubeconfig, &site, PLATFORM).await;
    let alice = Terminal::with_token(&site, &api.provider.access_token("alice"));

    let mut all = alice.spawn("list --watch --json");
    let rows = all.stdout.take().expect("an output");
    let mut rows = BufReader::new(rows).lines();

    let create =
        "create web --template web --group phusers --instance-type cpu-1 --scope public --watch";
    let created = alice.run(create).await.ok();
    let seen = statuses(&created);
    assert_eq!(
        (seen.first(), seen.last()),
        (Some(&"Starting"), Some(&"Ready"))
    );

    let mut follow = alice.spawn("logs web --follow --tail 1000");
    let lines = follow.stdout.take().expect("an output");
    let mut lines = BufReader::new(lines).lines();
    let last = async {
        while let Some(line) = lines.next_line().await.expect("readable") {
            if line == "line 9" {
                return;
            }
        }
        panic!("the log ended");
    };
    let seen = tokio::time::timeout(PATIENCE, last).await;
    seen.expect("a line that was logged later");
    follow.kill().await.expect("it ends");
    assert_eq!(alice.run("logs web --tail 1").await.ok(), "line 9\n");

    let stopped = alice.run("stop web --watch").await.ok();
    let seen = statuses(&stopped);
    assert_eq!(seen.last(), Some(&"Stopped"), "{stopped}");
    assert!(controlled.pods("web").await.is_empty());

    // More than the group may have.
    let large = alice
        .run("update web --instance-type gpu-1 --json")
        .await
        .json();
    assert_eq!(large["instanceType"], "gpu-1");
    alice.run("delete web").await.ok();
    let deleted = async {
        let mut seen = Vec::new();
        while let Some(row) = rows.next_line().await.expect("readable") {
            let app: serde_json::Value = serde_json::from_str(&row).expect("JSON");
            seen.push(app["status"].as_str().expect("a status").to_owned());
            if app["status"] == "Deleted" {
                return seen;
            }
        }
        panic!("the list ended: {seen:?}");
    };
    let seen = tokio::time::timeout(POD_PATIENCE, deleted).await;
    let seen = seen.expect("the deletion is seen");
    assert!(seen.contains(&"Ready".to_owned()), "{seen:?}");
}
