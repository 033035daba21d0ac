//! The state of one client connection, and of one request and its answer on it.

use std::{cell::RefCell, net::SocketAddr, rc::Rc, sync::Arc};

use http::{HeaderMap, HeaderValue, Response, StatusCode, header, response};

use crate::{
    caller::session_memo::SessionMemo,
    decide::head::Ingress,
    forward::cached_headers::CachedHeaders,
    incoming::host::without_port,
    listener::connection::{
        ActiveRequest, ConnectionActivity, ConnectionPermit, Exchange, Exchanges, NewConnection,
        ServedCertificate,
    },
    model::client::Client,
    ops::drain::DrainWatcher,
    peer::{self, Peer},
    respond::body::ReplyBody,
    stream_policy::LastStream,
};

/// One client connection.
pub struct ClientConnection {
    /// The peer.
    pub peer: Peer,
    /// The headers that the last request had for its app.
    pub cached_headers: CachedHeaders,
    /// The session of the last request.
    pub session_memo: SessionMemo,
    /// The stream policy of the last request.
    pub last_stream: LastStream,
    /// Its permit of the connection limit.
    pub permit: Rc<ConnectionPermit>,
    /// Notifies when the process stops.
    pub drain: DrainWatcher,
    /// Whether everything on it is redirected to https.
    pub redirects: bool,
    /// Maximum number of header fields of a request.
    pub head_fields: usize,
    /// The client's port.
    port: u16,
    certificate: Option<ServedCertificate>,
    /// The host for which the certificate was last found valid.
    valid_host: RefCell<Option<HeaderValue>>,
    activity: Arc<ConnectionActivity>,
    exchanges: Exchanges,
}

impl ClientConnection {
    /// A connection that the listener accepted.
    pub fn new(
        accepted: NewConnection,
        peers: &peer::PeerSettings,
        redirects: bool,
    ) -> ClientConnection {
        ClientConnection {
            peer: Peer::new(accepted.address, peers),
            cached_headers: CachedHeaders::default(),
            session_memo: SessionMemo::default(),
            last_stream: LastStream::default(),
            permit: Rc::new(accepted.permit),
            drain: accepted.drain,
            redirects,
            head_fields: accepted.head_fields,
            port: accepted.address.port(),
            certificate: accepted.certificate,
            valid_host: RefCell::default(),
            activity: accepted.activity,
            exchanges: accepted.exchanges,
        }
    }

    /// The facts about the connection that a request is checked against.
    pub fn ingress(&self, headers: &HeaderMap) -> Ingress {
        Ingress {
            redirects: self.redirects,
            certificate_fits: self.certificate_fits(headers),
        }
    }

    /// Whether requests for this host may come on this connection: a browser that has a connection
    /// for one name may use it for another name that the certificate is valid for (RFC 9110 section
    /// 7.4). A trusted proxy may mix hosts.
    fn certificate_fits(&self, headers: &HeaderMap) -> bool {
        let (Some(certificate), false) = (&self.certificate, self.peer.trusted) else {
            return true;
        };
        let Some(host) = headers.get(header::HOST) else {
            return false;
        };
        if self.valid_host.borrow().as_ref() == Some(host) {
            return true;
        }
        let name = std::str::from_utf8(without_port(host.as_bytes())).unwrap_or_default();
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let fits = certificate.is_for(name);
        if fits {
            self.valid_host.replace(Some(host.clone()));
        }
        fits
    }

    /// The client, with the port of its connection; 0 behind a proxy, which names none.
    pub fn client_address(&self, client: Client) -> SocketAddr {
        let is_peer = self.peer.address == client.address;
        SocketAddr::new(client.address, if is_peer { self.port } else { 0 })
    }

    /// Notes that an HTTP/1 connection carries no further requests.
    pub fn switch_to_tunnel(&self) {
        if !self.exchanges.are_streams() {
            self.activity.switch_to_tunnel();
        }
    }
}

/// One request and its answer on a connection.
pub struct HttpExchange {
    /// The connection.
    pub connection: Rc<ClientConnection>,
    /// Ends the exchange before its time, and knows since when the client has left bytes unread.
    pub exchange: Rc<Exchange>,
    /// CONNECT, as for a WebSocket over HTTP/2 (RFC 8441): any success status accepts it.
    is_connect: bool,
    /// Keeps the connection from counting as idle.
    busy: ActiveRequest,
}

impl HttpExchange {
    /// The next exchange on a connection. `is_connect`: whether its method, before HTTP/2 is
    /// normalized, is CONNECT.
    pub fn new(connection: Rc<ClientConnection>, is_connect: bool) -> HttpExchange {
        HttpExchange {
            exchange: connection.exchanges.next(),
            busy: connection.activity.request(),
            is_connect,
            connection,
        }
    }

    /// Whether it shares its connection with others (HTTP/2).
    fn is_stream(&self) -> bool {
        self.connection.exchanges.are_streams()
    }

    /// Accepts the client's WebSocket.
    pub fn accept_websocket(&self, head: &mut response::Parts) {
        if self.is_stream() {
            // RFC 8441 section 5: a 200, without the fields of the handshake.
            head.status = StatusCode::OK;
            head.headers.remove(header::SEC_WEBSOCKET_ACCEPT);
        } else {
            let headers = &mut head.headers;
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        }
    }

    /// The answer, as the connection needs it.
    pub fn finish(self, mut response: Response<ReplyBody>) -> Response<ReplyBody> {
        let is_stream = self.is_stream();
        if is_stream {
            // HTTP/2 has no such field (RFC 9113 section 8.2.2): streams end by themselves.
            response.headers_mut().remove(header::CONNECTION);
            self.exchange.offered();
            // Any success would accept a WebSocket that the app has not accepted.
            if self.is_connect && response.status().is_success() {
                *response.status_mut() = StatusCode::BAD_GATEWAY;
            }
        } else if self.connection.activity.is_leaving() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        let exchange = is_stream.then_some(self.exchange);
        response.body_mut().set_connection(exchange, self.busy);
        response
    }

    /// The guard that keeps the connection from counting as idle, for a tunnel.
    pub fn into_busy(self) -> ActiveRequest {
        self.busy
    }
}
