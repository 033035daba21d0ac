//! The time that a record has left, relative to the moment it was read, because the clocks of two
//! processes do not agree.

use serde::{Deserialize, Serialize};

/// Milliseconds until a record expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remaining {
    /// If it is not used.
    pub idle: u64,
    /// However much it is used.
    pub absolute: u64,
}

impl Remaining {
    /// Without use, whichever comes first.
    pub fn shortest(self) -> u64 {
        self.idle.min(self.absolute)
    }

    /// After so many more milliseconds; `None` when it has expired by then.
    pub fn after(self, passed: u64) -> Option<Remaining> {
        let remaining = Remaining {
            idle: self.idle.checked_sub(passed)?,
            absolute: self.absolute.checked_sub(passed)?,
        };
        (remaining.idle > 0 && remaining.absolute > 0).then_some(remaining)
    }
}
