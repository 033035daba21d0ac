//! Use of a session after its request began: bytes of an upload or a download, and WebSocket frames
//! of the client.

use std::{rc::Rc, sync::Arc};

use super::{live::Live, store::SessionStore};
use crate::model::clock::Clock;

/// Records the use of one session. Cheap to clone and to call: it writes at most once a second.
#[derive(Clone, Debug)]
pub struct Usage(Rc<Used>);

#[derive(Debug)]
struct Used {
    store: Arc<SessionStore>,
    live: Live,
    clock: Clock,
}

/// Clones of one are equal.
impl PartialEq for Usage {
    fn eq(&self, other: &Usage) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Usage {
    /// Records the use of this session.
    pub fn new(store: Arc<SessionStore>, live: Live, clock: Clock) -> Usage {
        Usage(Rc::new(Used { store, live, clock }))
    }

    /// Records use now.
    pub fn touch(&self) {
        let Used { store, live, clock } = &*self.0;
        store.touch(live, clock.now());
    }

    /// Whether the session is still neither revoked nor expired.
    pub fn is_live(&self) -> bool {
        self.0.live.is_live(self.0.clock.now())
    }

    /// The session.
    pub fn live(&self) -> &Live {
        &self.0.live
    }
}
