//! The events of an operation, and who waits for more.
//!
//! Where replicas share operations, listeners get an event only when the shared store has it. Else
//! the next owner could give another event the same place, and a listener that comes back would
//! miss it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::events::{EventHistory, EventId, LabEvent, LabEventKind};

/// Maximum number of events of an operation that are kept, with room for the last ones.
pub(super) const MAX_EVENTS: usize = 1000;
/// Longest message of an event, in bytes.
pub(super) const MAX_MESSAGE: usize = 4096;

/// The events of an operation.
#[derive(Debug)]
pub(super) struct OperationLog {
    state: Mutex<LogState>,
    /// Whether listeners get events at once.
    commits_at_once: bool,
    changed: watch::Sender<LogPosition>,
    /// Events that are to be stored.
    pushed: watch::Sender<()>,
}

#[derive(Debug)]
struct LogState {
    history: EventHistory,
    /// How many of the events listeners get.
    committed: usize,
    /// How many events come from an earlier owner.
    inherited: usize,
}

/// How far a log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogPosition {
    /// How many events listeners get.
    pub(super) count: usize,
    /// Whether no more come.
    pub(super) is_closed: bool,
}

impl LogState {
    /// Whether an earlier owner has pushed this step before. Its successor goes through the same
    /// ones.
    fn is_inherited(&self, event: &LabEvent) -> bool {
        let mut inherited = self.history.events().iter().take(self.inherited);
        event.kind == LabEventKind::Info && inherited.any(|other| other.message == event.message)
    }

    fn len(&self) -> usize {
        self.history.events().len()
    }
}

impl OperationLog {
    /// An empty log. Without `commits_at_once`, events must be committed.
    pub(super) fn new(number: u64, commits_at_once: bool) -> OperationLog {
        OperationLog {
            state: Mutex::new(LogState {
                history: EventHistory::new(number),
                committed: 0,
                inherited: 0,
            }),
            commits_at_once,
            changed: watch::Sender::default(),
            pushed: watch::Sender::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. A pod with more events than are kept loses the later ones, but never the last
    /// of the operation.
    pub(super) fn push(&self, mut event: LabEvent) {
        let end = event.message.floor_char_boundary(MAX_MESSAGE);
        event.message.truncate(end);
        let mut state = self.state();
        let room = MAX_EVENTS - usize::from(!event.kind.is_last());
        if state.is_inherited(&event) || state.len() >= room || state.history.push(event).is_none()
        {
            return;
        }
        match self.commits_at_once {
            true => {
                state.committed = state.len();
                self.publish(&state);
            }
            false => {
                self.pushed.send_replace(());
            }
        }
    }

    fn publish(&self, state: &LogState) {
        let is_closed = state.history.is_over() && state.committed == state.len();
        self.changed.send_modify(|position| {
            position.count = state.committed;
            position.is_closed |= is_closed;
        });
    }

    /// No more events come, although the operation may not be complete.
    pub(super) fn close(&self) {
        self.changed
            .send_modify(|position| position.is_closed = true);
    }

    /// Whether the last event is there.
    pub(super) fn is_over(&self) -> bool {
        self.state().history.is_over()
    }

    /// How many events listeners get.
    pub(super) fn committed(&self) -> usize {
        self.state().committed
    }

    /// All events that listeners get.
    pub(super) fn events(&self) -> Vec<LabEvent> {
        let state = self.state();
        let events = state.history.events().iter();
        events.take(state.committed).cloned().collect()
    }

    /// The events after one that a listener has.
    pub(super) fn after(&self, last: Option<EventId>) -> Vec<(EventId, LabEvent)> {
        let state = self.state();
        let events = state.history.after(last);
        let committed = events.filter(|(id, _)| id.place < state.committed);
        committed.map(|(id, event)| (id, event.clone())).collect()
    }

    /// The events that are not committed yet, after the place of the first one.
    pub(super) fn uncommitted(&self) -> (usize, Vec<LabEvent>) {
        let state = self.state();
        let events = state.history.events().iter();
        let waiting = events.skip(state.committed).cloned().collect();
        (state.committed, waiting)
    }

    /// So many events are stored.
    pub(super) fn commit(&self, count: usize) {
        let mut state = self.state();
        state.committed = count.min(state.len()).max(state.committed);
        self.publish(&state);
    }

    /// Forgets events that were not stored. Another replica goes on.
    pub(super) fn discard_uncommitted(&self) {
        let mut state = self.state();
        let committed = state.committed;
        state.history.truncate(committed);
    }

    /// Adds stored events, of which the first has this place. Those that are there are skipped.
    pub(super) fn extend(&self, from: usize, events: Vec<LabEvent>) {
        let mut state = self.state();
        for (at, event) in events.into_iter().enumerate() {
            if from + at == state.len() {
                let _ = state.history.push(event);
            }
        }
        state.committed = state.len();
        self.publish(&state);
    }

    /// The events so far are those of an earlier owner.
    pub(super) fn inherit(&self) {
        let mut state = self.state();
        state.inherited = state.len();
    }

    /// How far it is, and when that changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<LogPosition> {
        self.changed.subscribe()
    }

    /// Wakes when events wait to be stored.
    pub(super) fn pushed(&self) -> watch::Receiver<()> {
        self.pushed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(log: &OperationLog) -> Vec<String> {
        log.events().into_iter().map(|it| it.message).collect()
    }

    #[test]
    fn a_chatty_pod_does_not_fill_the_memory_and_the_end_is_kept() {
        let log = OperationLog::new(1, true);
        for _ in 0..3000 {
            log.push(LabEvent::info("ß".repeat(MAX_MESSAGE), 40));
        }
        log.push(LabEvent::spawn_failed());
        let events = log.events();
        assert_eq!(events.len(), MAX_EVENTS);
        assert!(
            events
                .iter()
                .all(|event| event.message.len() <= MAX_MESSAGE)
        );
        let last = events.last().map(|event| event.kind);
        assert_eq!(last, Some(LabEventKind::Failed));
    }

    #[test]
    fn listeners_get_a_shared_event_when_it_is_stored() {
        let log = OperationLog::new(1, false);
        let position = log.subscribe();
        log.push(LabEvent::info("one", 1));
        log.push(LabEvent::spawn_failed());
        assert_eq!((log.events().len(), log.after(None).len()), (0, 0));
        let (from, waiting) = log.uncommitted();
        assert_eq!((from, waiting.len()), (0, 2));
        log.commit(1);
        assert_eq!(messages(&log), ["one"]);
        assert!(!position.borrow().is_closed);
        log.commit(2);
        assert_eq!(log.after(None).len(), 2);
        assert!(position.borrow().is_closed);
    }

    #[test]
    fn the_next_owner_repeats_no_step_and_loses_what_was_not_stored() {
        let log = OperationLog::new(1, false);
        log.push(LabEvent::info("one", 1));
        log.commit(1);
        log.push(LabEvent::info("lost", 2));
        log.discard_uncommitted();
        log.extend(1, vec![LabEvent::info("two", 3)]);
        // A second reader has read from an earlier place.
        log.extend(0, vec![LabEvent::info("one", 1), LabEvent::info("two", 3)]);
        assert_eq!(messages(&log), ["one", "two"]);
        log.inherit();
        for message in ["one", "three", "two", "three"] {
            log.push(LabEvent::info(message, 4));
        }
        log.commit(10);
        assert_eq!(messages(&log), ["one", "two", "three", "three"]);
    }
}
