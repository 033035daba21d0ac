//! Disables core dumps, which would hold keys, tokens and session ids.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Disables core dumps, and access by other processes of the same user (ptrace,
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
