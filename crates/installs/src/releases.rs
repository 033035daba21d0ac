//! Releases as Helm stores them: one Secret per revision; and their workloads.

pub mod history;
pub mod secret;
pub mod watch;
pub mod workloads;
