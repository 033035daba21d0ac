//! The listener's view of a data thread: a service for each connection.

use std::{convert::Infallible, pin::Pin, rc::Rc};

use http::{Method, Request, Response};
use hyper::body::Incoming;

use super::{
    Handler,
    connection::{ClientConnection, HttpExchange},
};
use crate::{
    listener::connection::{MakeService, NewConnection},
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

impl MakeService for Service {
    type Service = ConnectionService;
    type Body = ReplyBody;
    type Error = Infallible;

    fn connected(&self, accepted: NewConnection) -> ConnectionService {
        let connection = ClientConnection::new(accepted, &self.peers, self.redirects);
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
        let is_connect = request.method() == Method::CONNECT;
        let exchange = HttpExchange::new(self.connection.clone(), is_connect);
        Box::pin(self.handler.clone().serve(request, exchange))
    }
}
