//! The types between a listener and the code that answers requests.

use std::{net::SocketAddr, sync::Arc};

use hyper::{body::Incoming, service::Service};

use super::{
    connection_limit::ConnectionPermit, exchange::Exchanges, timeouts::ConnectionActivity,
    tls::ServedCertificate,
};
use crate::ops::drain::DrainWatcher;

/// Makes the service of each connection.
pub trait MakeService: 'static {
    /// The service of one connection.
    type Service: Service<
            http::Request<Incoming>,
            Response = http::Response<Self::Body>,
            Error = Self::Error,
            Future: 'static,
        > + 'static;
    /// The body of its responses.
    type Body: hyper::body::Body<
            Data = bytes::Bytes,
            Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        > + 'static;
    /// An error closes the connection.
    type Error: Into<Box<dyn std::error::Error + Send + Sync>>;

    /// Called once for each connection, before its first request.
    fn connected(&self, connection: NewConnection) -> Self::Service;
}

/// A connection that is ready for requests.
#[derive(Debug)]
pub struct NewConnection {
    /// The peer, or the client that a balancer named.
    pub address: SocketAddr,
    /// Held for as long as anything of the connection lives, including a tunnel.
    pub permit: ConnectionPermit,
    /// The certificate that the client got; `None` without TLS.
    pub certificate: Option<ServedCertificate>,
    /// Resolves when the process stops.
    pub drain: DrainWatcher,
    /// Maximum number of header fields of a request.
    pub head_fields: usize,
    /// Counts the active requests.
    pub activity: Arc<ConnectionActivity>,
    /// Gives each request its [`super::exchange::Exchange`].
    pub exchanges: Exchanges,
}

/// A stream that was just accepted, before its first request.
pub(super) struct AcceptedStream<S> {
    pub(super) stream: S,
    pub(super) address: SocketAddr,
    pub(super) permit: ConnectionPermit,
}

impl<S> AcceptedStream<S> {
    /// The same connection with its stream wrapped.
    pub(super) fn map<T>(self, wrap: impl FnOnce(S) -> T) -> AcceptedStream<T> {
        AcceptedStream {
            stream: wrap(self.stream),
            address: self.address,
            permit: self.permit,
        }
    }
}
