//! What connections to clients and connections to apps share.

pub mod read_filter;
pub mod short_writes;
pub mod tcp;
pub mod timer;
