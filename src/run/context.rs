//! The handles that every part of a process starts with.

use tokio::runtime::Handle;

use crate::{
    model::{clock::Clock, policy_changes::PolicyChanges},
    ops::process::Process,
};

/// Shared by all parts of one process while it starts.
pub(super) struct Context {
    pub(super) process: Process,
    pub(super) clock: Clock,
    pub(super) policy_changes: PolicyChanges,
    /// The runtime for all work other than requests.
    pub(super) control: Handle,
}

impl Context {
    /// A context on the current runtime.
    pub(super) fn new(clock: Clock) -> Context {
        Context {
            process: Process::new(),
            clock,
            policy_changes: PolicyChanges::new(),
            control: Handle::current(),
        }
    }
}
