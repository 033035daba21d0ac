//! Publishes Kubernetes Events of the objects that a controller reconciles.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use ludgate_cluster::deadline::with_deadline;
use tokio::sync::mpsc::{self, error::TrySendError};

/// Names the controllers in Events.
const REPORTER: &str = "ludgate-controller";
/// Deadline of one write. An Event may be lost, since the object's status says the same.
const DEADLINE: Duration = Duration::from_secs(5);
/// Events that wait to be written.
const QUEUE: usize = 256;
/// Objects whose repeated Events are counted; beyond that counting begins again.
const MAX_COUNTING: usize = 4096;
/// Limit of the API for `note`, in bytes.
const MAX_NOTE: usize = 1024;
/// The API requires an action.
const ACTION: &str = "Reconcile";

/// Publishes Events as one controller, from a task of its own: a reconcile does not wait for it.
#[derive(Clone)]
pub struct EventPublisher {
    queue: mpsc::Sender<KubernetesEvent>,
}

/// An Event of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct KubernetesEvent {
    /// The object.
    pub object: ObjectReference,
    /// Something is wrong.
    pub is_warning: bool,
    /// One word in PascalCase.
    pub reason: String,
    /// A sentence for people.
    pub note: String,
    /// The version of the object's spec that this is about. Repeated Events with one reason about
    /// one version raise the count of the first one, which keeps its note. So a pod that crashes
    /// repeatedly has one Event per reason. `None`: not counted.
    pub generation: Option<i64>,
}

impl EventPublisher {
    /// The task ends with the last clone of the publisher.
    pub fn start(client: Client) -> EventPublisher {
        let (queue, received) = mpsc::channel(QUEUE);
        tokio::spawn(publish_all(client, REPORTER.into(), received));
        EventPublisher { queue }
    }

    /// Queues an Event. It is dropped, with a log line, if too many wait.
    pub fn publish(&self, event: KubernetesEvent) {
        match self.queue.try_send(event) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                tracing::warn!("an event is dropped: too many wait for the API server");
            }
            Err(TrySendError::Closed(_)) => tracing::error!("the task of events has ended"),
        }
    }
}

async fn publish_all(
    client: Client,
    reporter: Reporter,
    mut received: mpsc::Receiver<KubernetesEvent>,
) {
    let new_recorder = || Recorder::new(client.clone(), reporter.clone());
    // By uid, with the generation that is counted. A recorder forgets an Event after six minutes.
    let mut counting: HashMap<String, (i64, Recorder)> = HashMap::new();
    while let Some(event) = received.recv().await {
        let uid = event.object.uid.clone().unwrap_or_default();
        let recorder = match event.generation {
            None => new_recorder(),
            Some(generation) => {
                if counting.len() >= MAX_COUNTING {
                    counting.clear();
                }
                counting.retain(|known, (of, _)| *known != uid || *of == generation);
                let entry = counting.entry(uid);
                let (_, recorder) = entry.or_insert_with(|| (generation, new_recorder()));
                recorder.clone()
            }
        };
        let mut object = event.object.clone();
        // The recorder would count Events of each version of the object separately.
        object.resource_version = None;
        if let Err(error) = with_deadline(DEADLINE, recorder.publish(&event.into(), &object)).await
        {
            let name = object.name.as_deref().unwrap_or_default();
            tracing::warn!(object = name, %error, "cannot publish an event");
        }
    }
}

impl From<KubernetesEvent> for Event {
    fn from(event: KubernetesEvent) -> Event {
        Event {
            type_: match event.is_warning {
                true => EventType::Warning,
                false => EventType::Normal,
            },
            reason: event.reason,
            note: Some(truncated(&event.note).to_owned()),
            action: ACTION.to_owned(),
            secondary: None,
        }
    }
}

fn truncated(note: &str) -> &str {
    &note[..note.floor_char_boundary(MAX_NOTE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_between_characters() {
        assert_eq!(truncated("short"), "short");
        let long = format!("{}ß", "x".repeat(MAX_NOTE - 1));
        assert_eq!(truncated(&long), "x".repeat(MAX_NOTE - 1));
    }
}
