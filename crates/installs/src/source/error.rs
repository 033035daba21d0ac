//! Why a chart cannot be downloaded.

use std::fmt;

/// Whether another attempt can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceErrorClass {
    /// The network, a server or this machine failed. The next attempt may succeed.
    Transient,
    /// The source, its content or its credentials must change first.
    Permanent,
    /// The caller cancelled the download.
    Cancelled,
}

/// Why a chart cannot be downloaded. The message fits into a condition: it has no secret of the
/// source's credentials and at most 1 KiB.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    class: SourceErrorClass,
    message: String,
}

impl SourceError {
    /// Whether another attempt can help.
    pub fn class(&self) -> SourceErrorClass {
        self.class
    }

    /// The text for a condition.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn permanent(message: impl Into<String>) -> SourceError {
        SourceError {
            class: SourceErrorClass::Permanent,
            message: message.into(),
        }
    }

    pub(crate) fn transient(message: impl Into<String>) -> SourceError {
        SourceError {
            class: SourceErrorClass::Transient,
            message: message.into(),
        }
    }

    pub(crate) fn cancelled() -> SourceError {
        SourceError {
            class: SourceErrorClass::Cancelled,
            message: "the download was cancelled".to_owned(),
        }
    }

    /// A failure of this machine, not of the source.
    pub(crate) fn local(what: &str, error: impl fmt::Display) -> SourceError {
        SourceError::transient(format!("{what}: {error}"))
    }

    /// The same error of a part of the work.
    pub(crate) fn within(self, part: impl fmt::Display) -> SourceError {
        SourceError {
            message: format!("{part}: {}", self.message),
            ..self
        }
    }

    pub(crate) fn with_message(self, message: String) -> SourceError {
        SourceError { message, ..self }
    }
}
