//! Use of a session beyond the request that began it: bytes of an upload, progress of a download, frames of a person.

use std::sync::Arc;

use super::store::{Live, Sessions};
use crate::model::clock::Clock;

/// Says that a session is in use. Cheap to clone and to call: it writes at most once a second.
#[derive(Clone, Debug)]
pub struct Usage {
    sessions: Arc<Sessions>,
    live: Live,
    clock: Clock,
}

impl Usage {
    /// The use of one live session.
    pub fn new(sessions: Arc<Sessions>, live: Live, clock: Clock) -> Usage {
        Usage { sessions, live, clock }
    }

    /// It was used now.
    pub fn touch(&self) {
        self.sessions.touch(&self.live, self.clock.now());
    }

    /// Whether it still counts.
    pub fn is_live(&self) -> bool {
        self.live.is_live(self.clock.now())
    }

    /// The session.
    pub fn live(&self) -> &Live {
        &self.live
    }
}
