//! The PROXY protocol, in both directions: balancers name the client to us, and we name it to apps.
//! The header comes before the first byte of TLS or HTTP.
//!
//! [`parse`] knows both formats, [`read`] takes a header from a socket, [`write`] makes one.

mod parse;
pub mod read;
pub mod write;

pub use parse::ProxyHeaderError;
