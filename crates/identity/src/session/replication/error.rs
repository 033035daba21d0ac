//! Errors of replication.

use crate::ops::redis::StoreError;

/// Redis cannot be reached, so its content is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUnavailable;

impl From<StoreError> for StoreUnavailable {
    fn from(_: StoreError) -> StoreUnavailable {
        StoreUnavailable
    }
}

/// Why sessions were not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionLoadError {
    /// Redis cannot be reached.
    Unavailable,
    /// This client has presented too many unknown session ids.
    TooManyUnknown,
}

impl<E: Into<StoreUnavailable>> From<E> for SessionLoadError {
    fn from(error: E) -> SessionLoadError {
        let StoreUnavailable = error.into();
        SessionLoadError::Unavailable
    }
}
