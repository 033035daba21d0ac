//! What a failed process means, from its exit and its standard error.
//!
//! Helm has one exit code for all failures, so the class is read from its words. A text that no
//! rule knows is a failure of the chart or of its values.

use std::os::unix::process::ExitStatusExt;

use super::process::{ProcessEnd, ProcessOutput};
use crate::{
    conditions::MAX_MESSAGE,
    redaction::{Redactor, cap},
};

/// The class of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// Another operation of the release runs, or one was interrupted.
    AnotherOperation,
    /// The release has no revision that an upgrade could start from.
    NoDeployedReleases,
    /// The chart has objects that the account of the namespace may not write.
    Forbidden,
    /// The objects were not ready in time, or the process did not end.
    Timeout,
    /// The caller cancelled the operation.
    Cancelled,
    /// The API server cannot be reached, or did not do it now.
    Unavailable,
    /// Anything else, such as a template that cannot be rendered.
    Other,
}

/// Why an operation failed. The message has no secret and at most one KiB.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HelmError {
    /// The class.
    pub class: FailureClass,
    /// What Helm wrote, without its prefix.
    pub message: String,
}

impl HelmError {
    /// An error whose text comes from elsewhere.
    pub fn new(class: FailureClass, message: &str, redactor: &Redactor) -> HelmError {
        HelmError {
            class,
            message: cap(&redactor.redact(message), MAX_MESSAGE),
        }
    }

    /// The error of a process; `None`: it succeeded.
    pub fn from_process(output: &ProcessOutput, redactor: &Redactor) -> Option<HelmError> {
        if output.status.success() {
            return None;
        }
        let text = error_text(&output.stderr_text());
        let (class, message) = match output.end {
            ProcessEnd::Cancelled => (
                FailureClass::Cancelled,
                "the operation was cancelled".into(),
            ),
            ProcessEnd::TimedOut => (FailureClass::Timeout, "helm did not end in time".into()),
            // What it wrote before is about something else.
            ProcessEnd::Exited if output.status.signal().is_some() => {
                let message = format!("helm was ended by a {}", output.status);
                (FailureClass::Other, message)
            }
            ProcessEnd::Exited if text.is_empty() => {
                let message = format!("helm failed without a message: {}", output.status);
                (FailureClass::Other, message)
            }
            ProcessEnd::Exited => (classify(&text), text),
        };
        Some(HelmError::new(class, &message, redactor))
    }
}

/// What stands behind the last `Error:` at the beginning of a line. Warnings stand before it.
fn error_text(stderr: &str) -> String {
    const MARK: &str = "Error: ";
    let in_the_middle = stderr.rfind("\nError: ").map(|at| at + 1);
    let start = in_the_middle.or_else(|| stderr.starts_with(MARK).then_some(0));
    let text = match start {
        Some(start) => &stderr[start + MARK.len()..],
        None => stderr,
    };
    text.trim().to_owned()
}

/// The rules, in their order: the first one of which a text is found decides.
const RULES: [(FailureClass, &[&str]); 5] = [
    (
        FailureClass::AnotherOperation,
        &[
            "another operation (install/upgrade/rollback) is in progress",
            "cannot re-use a name that is still in use",
        ],
    ),
    (
        FailureClass::NoDeployedReleases,
        &["has no deployed releases"],
    ),
    (
        FailureClass::Forbidden,
        // Also where rights are granted that the account itself does not have. Quotas and other
        // admission checks answer with the same status, and without a user.
        &[" is forbidden: user \""],
    ),
    (
        FailureClass::Unavailable,
        &[
            "kubernetes cluster unreachable",
            "cluster reachability check failed",
            "connection refused",
            "connection reset by peer",
            "no such host",
            "no route to host",
            "i/o timeout",
            "tls handshake timeout",
            "client.timeout exceeded",
            "http2: client connection lost",
            "http2: server sent goaway",
            "unexpected eof",
            "too many requests",
            "etcdserver:",
            "the server is currently unable to handle the request",
            "the server was unable to return a response in the time allotted",
            "internal error occurred",
            "the object has been modified",
            "the server has asked for the client to provide credentials",
        ],
    ),
    (
        FailureClass::Timeout,
        &[
            "timed out waiting for the condition",
            "context deadline exceeded",
            "would exceed context deadline",
        ],
    ),
];

fn classify(text: &str) -> FailureClass {
    let text = text.to_lowercase();
    if is_revision_conflict(&text) {
        return FailureClass::AnotherOperation;
    }
    let is_of = |words: &[&str]| words.iter().any(|word| text.contains(*word));
    let found = RULES.iter().find(|(_, words)| is_of(words));
    found.map_or(FailureClass::Other, |(class, _)| *class)
}

/// Of two processes that make the same revision, one finds that its Secret exists.
fn is_revision_conflict(text: &str) -> bool {
    text.contains("secrets \"sh.helm.release.v1.") && text.contains("\" already exists")
}

#[cfg(test)]
mod tests;
