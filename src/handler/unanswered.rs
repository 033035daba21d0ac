//! A request until its answer. hyper drops its future when the client closes the connection: then
//! the request is logged all the same, because an app may have received it.

use std::rc::Rc;

use http::{HeaderValue, StatusCode};

use super::progress::{Concluded, Context, Progress};
use crate::{
    access_log::{AccessLog, Entry, RequestStart, TRACEPARENT, Transfer},
    authorize::Grounds,
    decide::labels::{DecisionLabel, LogReason, Outcome},
};

/// A request without an answer. Dropped, it is logged as closed by the client.
pub(super) struct Unanswered<'h> {
    log: Rc<AccessLog>,
    /// Taken when the entry is made.
    start: Option<RequestStart>,
    /// The Host header as it was received.
    host: Option<HeaderValue>,
    pub(super) context: Context<'h>,
    pub(super) progress: Progress<'h>,
}

/// The fields of an entry that the answer decides.
struct Conclusion {
    status: StatusCode,
    decision: DecisionLabel,
    reason: LogReason,
    outcome: Option<Outcome>,
}

impl<'h> Unanswered<'h> {
    /// Nothing is known of the request but its head.
    pub(super) fn new(
        log: Rc<AccessLog>,
        start: RequestStart,
        host: Option<HeaderValue>,
        context: Context<'h>,
    ) -> Unanswered<'h> {
        Unanswered {
            log,
            start: Some(start),
            host,
            context,
            progress: Progress::default(),
        }
    }

    /// The log entry of the request with this answer.
    pub(super) fn answered(&mut self, concluded: &Concluded) -> Option<Box<Entry>> {
        self.entry(Conclusion {
            status: concluded.status(),
            decision: concluded.decision,
            reason: concluded.reason,
            outcome: concluded.outcome,
        })
    }

    fn entry(&mut self, conclusion: Conclusion) -> Option<Box<Entry>> {
        let start = self.start.take()?;
        let Context {
            parts, client, id, ..
        } = &self.context;
        let Progress {
            class, app, answer, ..
        } = &mut self.progress;
        Some(Box::new(Entry {
            log: self.log.clone(),
            start,
            class: *class,
            method: parts.method.clone(),
            target: parts.uri.path_and_query().cloned(),
            host: self.host.take(),
            traceparent: parts.headers.get(TRACEPARENT).cloned(),
            client: *client,
            id: id.clone(),
            status: conclusion.status,
            app: app.take(),
            person: answer.person.take(),
            decision: conclusion.decision,
            reason: conclusion.reason,
            upstream: answer.upstream,
            outcome: conclusion.outcome,
            transfer: Transfer::default(),
        }))
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let (decision, reason) = labels(self.progress.answer.grounds);
        // Dropping the entry writes it.
        self.entry(Conclusion {
            status: client_closed_request(),
            decision,
            reason,
            outcome: Some(Outcome::ClientClosed),
        });
    }
}

fn labels(grounds: Option<Grounds>) -> (DecisionLabel, LogReason) {
    match grounds {
        Some(grounds) => (DecisionLabel::Allow, LogReason::Grounds(grounds)),
        None => (DecisionLabel::Undecided, LogReason::ClientClosed),
    }
}

/// 499, as nginx logs it. No client ever receives it.
fn client_closed_request() -> StatusCode {
    StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST)
}
