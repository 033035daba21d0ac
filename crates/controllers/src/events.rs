//! Events: the past of an object, as `kubectl describe` shows it.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use ludgate_cluster::deadline::with_deadline;

/// An event is worth no long wait: the status says the same.
const DEADLINE: Duration = Duration::from_secs(5);
/// Limit of the API for `note`, in bytes.
const MAX_NOTE: usize = 1024;
/// The action that led to the event, as the API wants one.
const ACTION: &str = "Reconcile";

/// Publishes events as one controller.
#[derive(Clone)]
pub struct EventPublisher {
    client: Client,
    reporter: Reporter,
}

impl EventPublisher {
    /// `controller` names the reporter.
    pub fn new(client: Client, controller: &str) -> EventPublisher {
        EventPublisher {
            client,
            reporter: controller.into(),
        }
    }

    /// Publishes an event of an object. A failure is logged only.
    pub async fn publish(&self, object: &ObjectReference, event: EventContent<'_>) {
        let event = Event {
            type_: match event.is_warning {
                true => EventType::Warning,
                false => EventType::Normal,
            },
            reason: event.reason.to_owned(),
            note: Some(truncated(event.note).to_owned()),
            action: ACTION.to_owned(),
            secondary: None,
        };
        // A recorder that is kept counts a repeated reason as one event, with its first note.
        let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        if let Err(error) = with_deadline(DEADLINE, recorder.publish(&event, object)).await {
            let name = object.name.as_deref().unwrap_or_default();
            tracing::warn!(object = name, %error, "cannot publish an event");
        }
    }
}

/// What happened to an object.
pub struct EventContent<'a> {
    /// Something is wrong.
    pub is_warning: bool,
    /// One word in PascalCase.
    pub reason: &'a str,
    /// A sentence for people.
    pub note: &'a str,
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
