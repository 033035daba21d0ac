//! Helm as a program: one process per operation, with its own folder, environment and rights.
//!
//! Invariant: no secret is in the arguments or in the environment of a process.

pub mod command;
pub mod engine;
pub mod environment;
pub mod kubeconfig;
pub mod outcome;
pub mod process;
pub mod version;
