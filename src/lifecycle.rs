//! Beginning and end: when the process is ready, when it drains, which streams must be cut.

pub mod core_dumps;
pub mod drain;
pub mod ready;
pub mod streams;
