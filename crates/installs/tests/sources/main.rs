//! Downloads of charts from servers on loopback: good ones, and some that lie.
//!
//! The tests need `git`, `ssh`, `sshd`, `ssh-keygen` and `prlimit`; `tests/install.sh` installs
//! them.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

mod dependencies;
mod downloads;
mod git_processes;
mod git_refusals;
mod git_scenarios;
mod hostile_archives;
mod hostile_servers;
mod ssh;
mod support;
mod token_servers;
