//! Whether this process leads: of several, the one with the Lease begins operations.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::error::LabError;

/// The time for which this process leads. Clones share it.
#[derive(Clone)]
pub(super) struct Leadership(Arc<Mutex<CancellationToken>>);

impl Default for Leadership {
    /// Another process leads.
    fn default() -> Leadership {
        let over = CancellationToken::new();
        over.cancel();
        Leadership(Arc::new(Mutex::new(over)))
    }
}

impl Leadership {
    /// This process leads until the token is cancelled.
    pub(super) fn begin(&self, leading: CancellationToken) {
        *self.current() = leading;
    }

    /// Cancelled when this process no longer leads.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] if it does not lead.
    pub(super) fn token(&self) -> Result<CancellationToken, LabError> {
        let leading = self.current();
        match leading.is_cancelled() {
            true => Err(LabError::Unavailable(
                "this instance of the lab controller does not lead".to_owned(),
            )),
            false => Ok(leading.clone()),
        }
    }

    fn current(&self) -> MutexGuard<'_, CancellationToken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
