//! The listener's view of a data thread: a service for each connection.

use std::{convert::Infallible, pin::Pin, rc::Rc};

use http::{Request, Response};
use hyper::body::Incoming;

use super::{
    Handler,
    connection::{ClientConnection, HttpExchange},
};
use crate::{
    listener::connection::{Newcomer, Serve},
    peer,
    respond::body::ReplyBody,
};

/// What a listener serves: connections of one data thread.
pub struct Service {
    /// The thread's handler.
    pub handler: Rc<Handler>,
    /// The trusted proxies of this listener.
    pub peers: peer::PeerSettings,
    /// Whether everything is redirected to https.
    pub redirects: bool,
}

impl Serve for Service {
    type Service = ConnectionService;
    type Body = ReplyBody;
    type Error = Infallible;

    fn connected(&self, newcomer: Newcomer) -> ConnectionService {
        let connection = ClientConnection::new(newcomer, &self.peers, self.redirects);
        ConnectionService {
            handler: self.handler.clone(),
            connection: Rc::new(connection),
        }
    }
}

/// The service of one connection.
pub struct ConnectionService {
    handler: Rc<Handler>,
    connection: Rc<ClientConnection>,
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ReplyBody>, Infallible>>>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let exchange = HttpExchange::new(self.connection.clone());
        let handler = self.handler.clone();
        Box::pin(async move { Ok(handler.serve(request, exchange).await) })
    }
}
