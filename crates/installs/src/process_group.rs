//! The group of processes that a child leads. However its owner ends, nothing of the group is left.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// The process group of a child. On drop it is killed.
#[derive(Debug)]
pub(crate) struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// The group of a child that was started with `process_group(0)`: it has the child's number.
    pub(crate) fn of_child(child: &Child) -> ProcessGroup {
        let number = child.id().and_then(|id| i32::try_from(id).ok());
        ProcessGroup(number.and_then(Pid::from_raw))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0 {
            // An empty group is no error: all its processes have ended.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
