//! Keeps what is in memory from getting out of it: keys, tokens and session ids would all be in a
//! core dump.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// No core dump of this process, and no other process of the same user may look into it (ptrace,
/// `/proc/<pid>/mem`).
pub fn disable() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    for refused in [
        setrlimit(Resource::Core, none),
        set_dumpable_behavior(DumpableBehavior::NotDumpable),
    ] {
        if let Err(error) = refused {
            tracing::warn!(%error, "cannot disable core dumps");
        }
    }
}
