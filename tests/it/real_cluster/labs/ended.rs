//! Labs whose program ends at once.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use ludgate::{demo::provider::DemoProvider, model::clock::Clock};
use serde_json::{Value, json};

use super::site::{LabChoices, LabSite};
use crate::support::{
    changes::{Changes, POD_PATIENCE},
    message::Message,
    until::holds_within,
    world::client,
};

/// Longest time from the end of the pod until the service knows of it. Without a watch it would be
/// the interval of checks, five minutes.
const KNOWN: Duration = Duration::from_secs(10);

fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase == Some("Succeeded")
}

/// Starts a lab without a hub. A controller that has just started does not lead yet.
async fn create(site: &LabSite, person: &str) -> Message {
    let body = json!({
        "options": { "image_tag": "w_2077_43", "size": "small" },
        "env": { "JUPYTERHUB_SERVICE_PREFIX": format!("/nb/user/{person}/") },
    });
    let start = format!("POST labs/{person}/create");
    let mut answer = Message::default();
    let is_answered = holds_within(POD_PATIENCE, async || {
        let token = site.token(person);
        answer = site.labs.call(&start, &token, &body).await;
        answer.status() != 503
    });
    assert!(is_answered.await, "{}", answer.text());
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_whose_program_ends_is_terminated_and_can_be_deleted() {
    let provider = DemoProvider::start(client("127.0.0.1"), Clock::system()).await;
    let choices = LabChoices {
        command: "[\"true\"]",
        ..LabChoices::plain("nublado")
    };
    let site = LabSite::start(provider.expect("started"), choices).await;
    let created = create(&site, "alice").await;
    assert_eq!(created.status(), 201, "{}", created.text());

    let name = site.object("alice");
    let mut pods = Changes::named(site.pods("alice"), &name);
    let token = site.token("alice");
    let listening = async {
        let call = site
            .labs
            .call("GET labs/alice/events", &token, &Value::Null);
        call.await.text()
    };
    let hub = site.hub_token();
    let ending = async {
        pods.until(has_ended).await;
        let ended = Instant::now();
        let mut state = Value::Null;
        let is_known = holds_within(POD_PATIENCE, async || {
            state = site
                .labs
                .call("GET labs/alice", &hub, &Value::Null)
                .await
                .json();
            state["status"] == "terminated"
        });
        assert!(is_known.await, "{state:#}");
        ended.elapsed()
    };
    let (events, late) = tokio::join!(listening, ending);
    assert!(late <= KNOWN, "known {late:?} after the end");
    // The kubelet may have shown the pod as running for a moment.
    let has_failed = events.contains("event: failed\r\n");
    let has_run = events.contains("event: complete\r\n");
    assert!(has_failed != has_run, "{events}");

    let deleted = site.labs.call("DELETE labs/alice", &hub, &Value::Null);
    assert_eq!(deleted.await.status(), 204);
    let gone = site.labs.call("GET labs/alice", &hub, &Value::Null).await;
    assert_eq!(gone.status(), 404, "{}", gone.text());
    site.until_gone("alice").await;
}
