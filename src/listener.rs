//! Sockets: one SO_REUSEPORT listener per data thread, TLS if configured, one hyper connection
//! each.
//!
//! Nothing here interprets a request; a [`Service`](hyper::service::Service) answers it.

pub mod accept;
mod activity_filter;
mod bind;
pub mod certificate_check;
pub mod connection;
mod connection_events;
pub mod connection_limit;
mod exchange;
pub mod fd_limit;
mod http;
mod http1;
mod http2;
pub mod metrics;
mod preface;
mod service;
mod settings;
pub mod socket_activation;
mod strict_head;
mod timeouts;
pub mod tls;
pub mod write_stall;

pub use bind::{ListenError, Sockets, bind};
pub use settings::ListenerSettings;
pub use timeouts::Timeouts;
