//! What a data thread knows of one connection of a client, and of one request on the wire.

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    rc::Rc,
};

use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request, response,
};
use hyper::body::Incoming;

use super::{answer::Answer, recognised::Recognised, thread::DataThread};
use crate::{
    forward::standing_headers::StandingHeaders,
    incoming::Malformed,
    listener::connection::{
        ActiveRequest, ConnectionActivity, ConnectionPermit, Exchange, Exchanges, MakeService,
        NewConnection, ServedCertificate,
    },
    model::arrival::Arrival,
    ops::drain::DrainWatcher,
    peer::{self, Peer},
};

/// One client connection.
pub struct Connection {
    /// Who is connected.
    pub peer: Peer,
    /// What its requests say alike to an app.
    pub standing: StandingHeaders,
    /// Whom they brought last.
    pub recognised: Recognised,
    /// Its place among the connections that may be open.
    pub permit: Rc<ConnectionPermit>,
    /// Tells that the process stops.
    pub drain: DrainWatcher,
    /// Whether everything on it is sent on to https.
    pub redirects: bool,
    /// Most header fields of a request.
    pub head_fields: usize,
    /// The client's.
    port: u16,
    certificate: Option<ServedCertificate>,
    /// The host that the certificate was last found to speak for.
    spoken_for: RefCell<Option<HeaderValue>>,
    activity: std::sync::Arc<ConnectionActivity>,
    exchanges: Exchanges,
}

impl Connection {
    /// Whether requests for this host may come here at all: a browser that holds a connection for
    /// one name may use it for another, if the certificate speaks for both (RFC 9110 section 7.4).
    /// A proxy of ours may mix what it likes.
    pub fn is_for(&self, headers: &HeaderMap) -> bool {
        let (Some(certificate), false) = (&self.certificate, self.peer.trusted) else {
            return true;
        };
        let Some(host) = headers.get(header::HOST) else {
            return false;
        };
        if self.spoken_for.borrow().as_ref() == Some(host) {
            return true;
        }
        let fits = host
            .to_str()
            .is_ok_and(|host| certificate.is_for(without_port(host)));
        if fits {
            self.spoken_for.replace(Some(host.clone()));
        }
        fits
    }
}

impl Connection {
    /// The bytes that follow are no requests.
    pub fn switch_to_tunnel(&self) {
        if !self.exchanges.are_streams() {
            self.activity.switch_to_tunnel();
        }
    }
}

fn without_port(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, _)) if !host.ends_with(']') => name,
        Some(_) | None => host,
    };
    name.trim_start_matches('[').trim_end_matches(']')
}

/// One request on the wire: its connection, and how it is ended before its time.
pub struct Wire {
    /// The connection.
    pub connection: Rc<Connection>,
    /// The request and its answer.
    pub exchange: Rc<Exchange>,
    /// It asks for a WebSocket as HTTP/2 does; said yes by any success.
    is_connect: Cell<bool>,
    /// Until it is answered.
    busy: ActiveRequest,
}

impl Wire {
    /// Notes what the head is, before it is said in another form.
    pub fn note(&self, parts: &request::Parts) {
        self.is_connect.set(parts.method == Method::CONNECT);
    }

    /// The client, with the port of its connection; 0 behind a proxy, who tells none.
    pub fn client(&self, address: IpAddr) -> SocketAddr {
        let own = self.connection.peer.address == address;
        SocketAddr::new(address, if own { self.connection.port } else { 0 })
    }

    /// Whether it shares its connection with others (HTTP/2).
    pub fn is_stream(&self) -> bool {
        self.connection.exchanges.are_streams()
    }

    /// The request, if it may come on this connection.
    ///
    /// # Errors
    /// [`Malformed::Misdirected`] when it belongs on another one.
    pub fn admit(&self, headers: &HeaderMap, arrival: Arrival) -> Result<Arrival, Malformed> {
        if self.connection.is_for(headers) {
            Ok(arrival)
        } else {
            Err(Malformed::Misdirected)
        }
    }

    /// Says to the client that its WebSocket is accepted.
    pub fn agree(&self, head: &mut response::Parts) {
        if self.is_stream() {
            // RFC 8441 section 5: a 200, and none of the fields of the handshake.
            head.status = StatusCode::OK;
            head.headers.remove(header::SEC_WEBSOCKET_ACCEPT);
        } else {
            head.headers
                .insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            head.headers
                .insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        }
    }

    /// The finished answer, as the connection needs it.
    pub fn finish(self, mut response: Response<Answer>) -> Response<Answer> {
        if self.is_stream() {
            // HTTP/2 has no such field (RFC 9113 section 8.2.2): streams end by themselves.
            response.headers_mut().remove(header::CONNECTION);
            self.exchange.offered();
            // An answer that is none of a WebSocket, where it would be taken for the yes to one.
            if self.is_connect.get() && response.status().is_success() {
                *response.status_mut() = StatusCode::BAD_GATEWAY;
            }
        } else if self.connection.activity.is_leaving() {
            response
                .headers_mut()
                .insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let watched = self.is_stream().then_some(self.exchange);
        response.map(|body| body.on_wire(watched, self.busy))
    }

    /// What keeps the connection from counting as idle.
    pub fn into_busy(self) -> ActiveRequest {
        self.busy
    }
}

/// What the listener serves: connections of this thread.
pub struct Service {
    /// The thread.
    pub thread: Rc<DataThread>,
    /// Whose forwarded headers are believed at this listener.
    pub peers: peer::PeerSettings,
    /// Whether everything is sent on to https.
    pub redirects: bool,
}

impl MakeService for Service {
    type Service = ConnectionService;
    type Body = Answer;
    type Error = Infallible;

    fn connected(&self, newcomer: NewConnection) -> ConnectionService {
        let NewConnection {
            address,
            permit,
            certificate,
            drain,
            head_fields,
            activity,
            exchanges,
        } = newcomer;
        let connection = Connection {
            peer: Peer::new(address, &self.peers),
            redirects: self.redirects,
            head_fields,
            standing: StandingHeaders::default(),
            recognised: Recognised::default(),
            permit: Rc::new(permit),
            port: address.port(),
            drain,
            certificate,
            spoken_for: RefCell::default(),
            activity,
            exchanges,
        };
        ConnectionService {
            thread: self.thread.clone(),
            connection: Rc::new(connection),
        }
    }
}

/// The service of one connection.
pub struct ConnectionService {
    thread: Rc<DataThread>,
    connection: Rc<Connection>,
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>>>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (thread, connection) = (self.thread.clone(), self.connection.clone());
        let (exchange, busy) = (connection.exchanges.next(), connection.activity.request());
        let wire = Wire {
            connection,
            exchange,
            is_connect: Cell::new(false),
            busy,
        };
        Box::pin(thread.handle(request, wire))
    }
}
