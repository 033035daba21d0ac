//! What connections to clients and connections to apps share.

pub mod joined_write;
pub mod read_filter;
pub mod tcp;
pub mod timer;
