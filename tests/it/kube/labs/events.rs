//! The events that listeners of a start get.

use futures_util::StreamExt;
use ludgate_labs::{error::LabError, events::LabEvent};

use crate::support::labs::{Labs, USER};

/// Message and progress.
fn messages(events: &[LabEvent]) -> Vec<(&str, Option<u8>)> {
    let messages = events.iter();
    messages
        .map(|event| (event.message.as_str(), event.progress))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_gets_the_history_the_events_of_the_pod_and_the_end() {
    let labs = Labs::start().await;
    labs.create().await.expect("created");
    let listen = || {
        let events = labs.service.events(USER, None).expect("events");
        tokio::spawn(events.map(|(_, event)| event).collect::<Vec<LabEvent>>())
    };
    let early = listen();
    labs.until_pod().await;
    labs.pod_event("rachel-nb-1", "Autoscaling cluster for reasons")
        .await;
    let mut follower = labs.service.events(USER, None).expect("events");
    let mut last = None;
    while let Some((id, event)) = follower.next().await {
        last = Some(id);
        if event.message.starts_with("Autoscaling") {
            break;
        }
    }
    drop(follower);
    labs.pod_event("rachel-nb-2", "Mounting all the things")
        .await;
    let mut second = labs.service.events(USER, last).expect("events");
    let (_, event) = second.next().await.expect("an event");
    assert_eq!(event.message, "Mounting all the things");
    let late = listen();
    labs.set_phase("Running").await;

    let expected = [
        ("Starting lab creation for rachel", Some(1)),
        ("Created Kubernetes objects for user lab", Some(30)),
        ("Autoscaling cluster for reasons", Some(35)),
        ("Mounting all the things", Some(48)),
        ("Lab Kubernetes pod started for rachel", None),
    ];
    for listener in [early, late, listen()] {
        assert_eq!(messages(&listener.await.expect("no panic")), expected);
    }
    let rest: Vec<String> = second.map(|(_, event)| event.message).collect().await;
    assert_eq!(rest, ["Lab Kubernetes pod started for rachel"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_are_bounded_and_a_place_is_free_when_one_leaves() {
    let labs = Labs::start().await;
    labs.create().await.expect("created");
    let mut listeners = Vec::new();
    let refused = loop {
        assert!(listeners.len() <= 32, "no limit");
        match labs.service.events(USER, None) {
            Ok(events) => listeners.push(events),
            Err(error) => break error,
        }
    };
    assert_eq!(listeners.len(), 32);
    assert!(matches!(refused, LabError::Unavailable(_)), "{refused}");
    listeners.pop();
    assert!(labs.service.events(USER, None).is_ok());
}
