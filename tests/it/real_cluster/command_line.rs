//! `ludgate apps` on a cluster with our controller: what `--watch` and `logs` print.

use tokio::io::{AsyncBufReadExt, BufReader};

use super::python_client::{PLATFORM, until_line};
use crate::support::{changes::POD_PATIENCE, command_line::Terminal, controller::Controlled};

/// The last column of each row of a table that was watched.
fn statuses(table: &str) -> Vec<&str> {
    let rows = table.lines().skip(1);
    rows.filter_map(|row| row.split_whitespace().last())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_watches_an_app_from_its_start_to_its_end() {
    let controlled = Controlled::with(PLATFORM).await;
    let (api, site) = controlled.api().await;
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
    until_line(&mut follow, "line 9").await;
    follow.kill().await.expect("it ends");
    assert_eq!(alice.run("logs web --tail 1").await.ok(), "line 9\n");

    let stopped = alice.run("stop web --watch").await.ok();
    let seen = statuses(&stopped);
    assert_eq!(seen.last(), Some(&"Stopped"), "{stopped}");
    assert!(controlled.pods("web").await.is_empty());

    // More than the group may have.
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
