//! What file servers and the pod for administrators share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ludgate_cluster::writer::Writer;
use ludgate_controllers::watched::FirstLists;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::error::LabError;

/// The content of a mutex. A panic elsewhere does not make it unusable.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What both services share.
#[derive(Clone)]
pub(super) struct FileShared {
    pub(super) writer: Writer,
    /// Objects may have changed.
    pub(super) touched: Arc<watch::Sender<()>>,
    /// Permits of calls to the API server.
    pub(super) places: Arc<Semaphore>,
    pub(super) leadership: Leadership,
    pub(super) first_lists: FirstLists,
}

impl FileShared {
    /// What is not listed yet must not be taken for absent.
    pub(super) fn check_listed(&self) -> Result<(), LabError> {
        match self.first_lists.are_read() {
            true => Ok(()),
            false => Err(LabError::Unavailable(
                "the lab controller has not read the file servers of the cluster yet".to_owned(),
            )),
        }
    }
}

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
        *locked(&self.0) = leading;
    }

    /// Cancelled when this process no longer leads.
    pub(super) fn token(&self) -> Result<CancellationToken, LabError> {
        let leading = locked(&self.0);
        match leading.is_cancelled() {
            true => Err(LabError::Unavailable(
                "this instance of the lab controller does not lead".to_owned(),
            )),
            false => Ok(leading.clone()),
        }
    }
}
