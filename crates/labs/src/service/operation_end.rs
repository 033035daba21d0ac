//! How an operation ended, for the lab and for all who wait.

use serde::{Deserialize, Serialize};

use crate::{error::LabError, events::LabEvent, state::LabStatus};

/// How an operation ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct OperationEnd {
    /// Its last events. Other replicas read them where they read all events.
    #[serde(skip)]
    pub(super) events: Vec<LabEvent>,
    /// Why a deletion failed.
    pub(super) failure: Option<String>,
    /// What became of the lab.
    pub(super) lab: LabEnd,
}

/// What became of a lab.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) enum LabEnd {
    /// It runs.
    Running,
    /// It does not run, and a part of it is there.
    Stopped {
        /// How it is.
        status: LabStatus,
        /// Whether its pod is in the cluster.
        has_pod: bool,
    },
    /// It is gone.
    Deleted,
    /// A deletion decides what becomes of it.
    Cancelled,
}

impl OperationEnd {
    /// The end of an operation whose waiters get no error.
    pub(super) fn new(lab: LabEnd, events: impl IntoIterator<Item = LabEvent>) -> OperationEnd {
        OperationEnd {
            events: events.into_iter().collect(),
            failure: None,
            lab,
        }
    }

    /// What waiters get.
    pub(super) fn result(&self) -> Result<(), LabError> {
        match &self.failure {
            Some(reason) => Err(LabError::DeleteFailed(reason.clone())),
            None => Ok(()),
        }
    }
}
