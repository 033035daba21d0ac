//! Use of a session beyond the request that began it: bytes of an upload, progress of a download,
//! frames of a person.

use std::{rc::Rc, sync::Arc};

use super::store::{Live, Sessions};
use crate::model::clock::Clock;

/// Says that a session is in use. Cheap to clone and to call: it writes at most once a second.
#[derive(Clone, Debug)]
pub struct Usage(Rc<Used>);

#[derive(Debug)]
struct Used {
    sessions: Arc<Sessions>,
    live: Live,
    clock: Clock,
}

impl Usage {
    /// The use of one live session.
    pub fn new(sessions: Arc<Sessions>, live: Live, clock: Clock) -> Usage {
        Usage(Rc::new(Used {
            sessions,
            live,
            clock,
        }))
    }

    /// It was used now.
    pub fn touch(&self) {
        let Used {
            sessions,
            live,
            clock,
        } = &*self.0;
        sessions.touch(live, clock.now());
    }

    /// Whether it still counts.
    pub fn is_live(&self) -> bool {
        self.0.live.is_live(self.0.clock.now())
    }

    /// The session.
    pub fn live(&self) -> &Live {
        &self.0.live
    }
}
