//! Events of an operation on a lab, and the stream in which listeners get them.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{dialect::Dialect, python_json};

/// Media type of the stream.
pub const EVENT_STREAM: &str = "text/event-stream";
/// Headers of the stream: no cache keeps it, and no proxy holds it back.
pub const EVENT_STREAM_HEADERS: [(&str, &str); 2] =
    [("Cache-Control", "no-store"), ("X-Accel-Buffering", "no")];
/// Seconds after which a comment is sent, so that the connection is not taken for dead.
pub const PING_SECONDS: u64 = 15;

/// Progress when all objects were created.
pub const OBJECTS_CREATED: u8 = 30;
/// Progress at the first event of the pod.
const FIRST_POD_EVENT: u8 = 35;
/// Progress that events of the pod approach.
const LAST_POD_EVENT: u8 = 75;

/// What kind of event it is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum LabEventKind {
    /// The operation succeeded.
    Complete,
    /// Something went wrong.
    Error,
    /// The operation failed.
    Failed,
    /// A step.
    Info,
}

impl LabEventKind {
    /// The word in the stream.
    pub fn as_str(self) -> &'static str {
        match self {
            LabEventKind::Complete => "complete",
            LabEventKind::Error => "error",
            LabEventKind::Failed => "failed",
            LabEventKind::Info => "info",
        }
    }

    /// Whether the stream ends with it.
    pub fn is_last(self) -> bool {
        matches!(self, LabEventKind::Complete | LabEventKind::Failed)
    }
}

/// An event of an operation.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct LabEvent {
    /// Its kind.
    pub kind: LabEventKind,
    /// What happened, for people.
    pub message: String,
    /// How much is done, in per cent.
    pub progress: Option<u8>,
}

impl LabEvent {
    fn new(kind: LabEventKind, message: String, progress: Option<u8>) -> LabEvent {
        LabEvent {
            kind,
            message,
            progress,
        }
    }

    /// A step.
    pub fn info(message: impl Into<String>, progress: u8) -> LabEvent {
        LabEvent::new(LabEventKind::Info, message.into(), Some(progress))
    }

    /// Something went wrong. The operation goes on, or fails with a later event.
    pub fn error(message: impl Into<String>) -> LabEvent {
        LabEvent::new(LabEventKind::Error, message.into(), None)
    }

    /// The lab of a person is being started.
    pub fn spawn_started(username: &str, dialect: Dialect) -> LabEvent {
        match dialect {
            Dialect::Sqr066 => LabEvent::info(format!("lab creation initiated for {username}"), 2),
            Dialect::Nublado => LabEvent::info(format!("Starting lab creation for {username}"), 1),
        }
    }

    /// All objects were created.
    pub fn objects_created() -> LabEvent {
        LabEvent::info("Created Kubernetes objects for user lab", OBJECTS_CREATED)
    }

    /// The lab runs.
    pub fn spawn_complete(username: &str, dialect: Dialect) -> LabEvent {
        let message = match dialect {
            Dialect::Sqr066 => format!("Operation complete for {username}"),
            Dialect::Nublado => format!("Lab Kubernetes pod started for {username}"),
        };
        LabEvent::new(LabEventKind::Complete, message, None)
    }

    /// The lab does not start.
    pub fn spawn_failed() -> LabEvent {
        LabEvent::new(LabEventKind::Failed, "Lab spawn failed".to_owned(), None)
    }

    /// The lab was deleted while it started.
    pub fn cancelled() -> LabEvent {
        LabEvent::new(LabEventKind::Failed, "Operation cancelled".to_owned(), None)
    }

    /// The steps of deleting a dead lab before a new one is started.
    pub fn replacement_steps(username: &str) -> [LabEvent; 4] {
        [
            LabEvent::info(format!("Deleting existing failed lab for {username}"), 2),
            LabEvent::info("Shutting down Kubernetes pod", 5),
            LabEvent::info("Deleting user namespace", 12),
            LabEvent::info(format!("Lab for {username} deleted"), 20),
        ]
    }

    /// The steps of deleting a lab.
    pub fn delete_steps(username: &str) -> [LabEvent; 4] {
        [
            LabEvent::info(format!("Deleting lab for {username}"), 1),
            LabEvent::info("Shutting down Kubernetes pod", 25),
            LabEvent::info("Deleting user namespace", 50),
            LabEvent::new(
                LabEventKind::Complete,
                format!("Lab for {username} deleted"),
                None,
            ),
        ]
    }

    /// The lab cannot be deleted.
    pub fn delete_failed() -> LabEvent {
        LabEvent::new(LabEventKind::Failed, "Lab deletion failed".to_owned(), None)
    }

    /// A request to the API server failed for good. `action` is such as `creating object`.
    pub fn cluster_error(action: &str, object: &str, status: u16, reason: &str) -> LabEvent {
        LabEvent::error(format!(
            "Error {action} ({object}, status {status}): {reason}"
        ))
    }

    /// The text of the event's data.
    fn data(&self) -> String {
        let message = python_json::pair("message", &json!(self.message));
        match self.progress {
            Some(progress) if progress > 0 => {
                let progress = python_json::pair("progress", &json!(progress));
                format!("{{{message}, {progress}}}")
            }
            _ => format!("{{{message}}}"),
        }
    }

    /// The event in the stream: one frame, or in the dialect of SQR-066 another one for the
    /// progress. The id makes a listener able to go on after it.
    pub fn to_frames(&self, id: Option<EventId>, dialect: Dialect) -> String {
        let id = id.map(|id| format!("id: {id}\r\n")).unwrap_or_default();
        let kind = self.kind.as_str();
        match dialect {
            Dialect::Nublado => {
                let data = self.data();
                format!("{id}event: {kind}\r\ndata: {data}\r\n\r\n")
            }
            Dialect::Sqr066 => {
                let data = data_lines(&self.message);
                let progress = self
                    .progress
                    .map(|progress| format!("event: progress\r\ndata: {progress}\r\n\r\n"));
                let progress = progress.unwrap_or_default();
                // With the id on the last frame, a listener that lost it gets both again.
                match progress.is_empty() {
                    true => format!("{id}event: {kind}\r\n{data}\r\n"),
                    false => format!("event: {kind}\r\n{data}\r\n{id}{progress}"),
                }
            }
        }
    }

    /// The events of the status in the dialect of SQR-066.
    pub fn to_status(&self) -> Vec<Value> {
        let event = json!({ "event": self.kind.as_str(), "data": self.message });
        let progress = self
            .progress
            .map(|progress| json!({ "event": "progress", "data": progress.to_string() }));
        std::iter::once(event).chain(progress).collect()
    }
}

/// Each line of a text, since a line break ends a field.
fn data_lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.split('\n')
        .map(|line| format!("data: {line}\r\n"))
        .collect()
}

/// A comment of the stream.
pub fn ping_frame(now: DateTime<Utc>) -> String {
    format!(
        ": ping - {}\r\n\r\n",
        now.format("%Y-%m-%d %H:%M:%S%.6f+00:00")
    )
}

/// The progress of events of a pod: each goes a third of the way that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodProgress(u8);

impl Default for PodProgress {
    fn default() -> PodProgress {
        PodProgress(FIRST_POD_EVENT)
    }
}

impl PodProgress {
    /// The progress of the next event.
    pub fn advance(&mut self) -> u8 {
        let progress = self.0;
        self.0 += LAST_POD_EVENT.saturating_sub(progress) / 3;
        progress
    }
}

/// Where an event stands: in which operation, and at which place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    /// Number of the operation. It differs between two operations on one lab.
    pub operation: u64,
    /// Place in the operation, from 0.
    pub place: usize,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.operation, self.place)
    }
}

impl EventId {
    /// Reads the header `Last-Event-ID`.
    pub fn parse(text: &str) -> Option<EventId> {
        let (operation, place) = text.split_once('-')?;
        Some(EventId {
            operation: operation.parse().ok()?,
            place: place.parse().ok()?,
        })
    }
}

/// All events of one operation, for listeners that come later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventHistory {
    operation: u64,
    events: Vec<LabEvent>,
}

impl EventHistory {
    /// Of a new operation.
    pub fn new(operation: u64) -> EventHistory {
        EventHistory {
            operation,
            events: Vec::new(),
        }
    }

    /// Adds an event. After the last one, none are added.
    pub fn push(&mut self, event: LabEvent) -> Option<EventId> {
        if self.is_over() {
            return None;
        }
        self.events.push(event);
        Some(self.id(self.events.len() - 1))
    }

    /// Forgets the events from this place on.
    pub fn truncate(&mut self, count: usize) {
        self.events.truncate(count);
    }

    /// Whether the operation has ended.
    pub fn is_over(&self) -> bool {
        self.events.last().is_some_and(|event| event.kind.is_last())
    }

    /// All events.
    pub fn events(&self) -> &[LabEvent] {
        &self.events
    }

    /// The events after one that a listener has. All, if that was of another operation.
    pub fn after(&self, last: Option<EventId>) -> impl Iterator<Item = (EventId, &LabEvent)> {
        let known = last.filter(|last| last.operation == self.operation);
        let skipped = known.map_or(0, |last| last.place.saturating_add(1));
        let events = self.events.iter().enumerate().skip(skipped);
        events.map(|(place, event)| (self.id(place), event))
    }

    fn id(&self, place: usize) -> EventId {
        EventId {
            operation: self.operation,
            place,
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone;

    use super::*;

    #[test]
    fn a_frame_has_the_kind_and_json() {
        let event = LabEvent::spawn_started("rachel", Dialect::Nublado);
        assert_eq!(
            event.to_frames(None, Dialect::Nublado),
            "event: info\r\ndata: {\"message\": \"Starting lab creation for rachel\", \
             \"progress\": 1}\r\n\r\n"
        );
        let id = EventId {
            operation: 7,
            place: 3,
        };
        assert_eq!(
            LabEvent::spawn_failed().to_frames(Some(id), Dialect::Nublado),
            "id: 7-3\r\nevent: failed\r\ndata: {\"message\": \"Lab spawn failed\"}\r\n\r\n"
        );
        assert_eq!(EventId::parse("7-3"), Some(id));
    }

    #[test]
    fn the_document_has_progress_in_frames_of_its_own() {
        let event = LabEvent::spawn_started("rra", Dialect::Sqr066);
        assert_eq!(
            event.to_frames(None, Dialect::Sqr066),
            "event: info\r\ndata: lab creation initiated for rra\r\n\r\n\
             event: progress\r\ndata: 2\r\n\r\n"
        );
        let error = LabEvent::error("one\ntwo");
        assert_eq!(
            error.to_frames(None, Dialect::Sqr066),
            "event: error\r\ndata: one\r\ndata: two\r\n\r\n"
        );
    }

    #[test]
    fn events_of_a_pod_approach_three_quarters() {
        let mut progress = PodProgress::default();
        let first: Vec<u8> = (0..6).map(|_| progress.advance()).collect();
        assert_eq!(first, [35, 48, 57, 63, 67, 69]);
        assert!((0..100).all(|_| progress.advance() < 75));
    }

    #[test]
    fn a_listener_goes_on_after_its_last_event() {
        let mut history = EventHistory::new(5);
        history.push(LabEvent::info("one", 1));
        let second = history.push(LabEvent::info("two", 2));
        history.push(LabEvent::spawn_failed());
        assert!(history.is_over());
        assert_eq!(history.push(LabEvent::info("late", 3)), None);
        let after = |last| history.after(last).count();
        assert_eq!((after(None), after(second)), (3, 1));
        let of_another = EventId {
            operation: 4,
            place: 1,
        };
        assert_eq!(after(Some(of_another)), 3);
        let too_far = EventId {
            operation: 5,
            place: usize::MAX,
        };
        assert_eq!(after(Some(too_far)), 0);
    }

    #[test]
    fn a_ping_is_a_comment() {
        let now = Utc.with_ymd_and_hms(2026, 1, 2, 3, 4, 5).unwrap();
        assert_eq!(
            ping_frame(now),
            ": ping - 2026-01-02 03:04:05.000000+00:00\r\n\r\n"
        );
    }
}
