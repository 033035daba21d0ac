//! What file servers and the pod for administrators share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ludgate_cluster::writer::Writer;
use ludgate_controllers::watched::FirstLists;
use tokio::sync::{Semaphore, watch};

use crate::{error::LabError, service::leadership::Leadership};

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
    pub(super) permits: Arc<Semaphore>,
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
