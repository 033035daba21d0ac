//! A request as the gateway understands it: parsed once by `incoming`, judged and forwarded as
//! parsed.

use http::{Method, uri::PathAndQuery};

use super::{grpc::Grpc, secret::Secret, vhost::VirtualHost};

/// A longer upload is judged again while it runs, in bytes.
const LONG_UPLOAD: u64 = 64 * 1024;

/// One validated request head. Only `incoming` makes one from the wire.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Any token of at most 32 bytes but CONNECT and TRACE.
    pub method: Method,
    /// Which of our origins it arrived at.
    pub vhost: VirtualHost,
    /// Path and query as they came; the path follows the path policy and begins with `/`.
    pub target: PathAndQuery,
    /// What kind of client is asking.
    pub class: RequestClass,
    /// Whether cookies on this request speak for the person (behaviour row 22).
    pub provenance: Provenance,
    /// What the `Origin` header says.
    pub origin: Origin,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether a refusal is answered with a page rather than problem+json.
    pub wants_html: bool,
    /// A person sends a form of a page of the same origin, and the answer will be the next page.
    pub sends_form: bool,
    /// The address was marked by our page that sends a saved form again; the mark is removed.
    pub resends_form: bool,
    /// A call of gRPC, whose refusals are said in its own way.
    pub grpc: Option<Grpc>,
    /// A credential that was removed from the query of the address.
    pub address_token: Option<AddressToken>,
}

/// A credential in the query of an address.
#[derive(Clone, Debug)]
pub enum AddressToken {
    /// One token, perhaps repeated.
    One(Secret),
    /// Two tokens that differ: neither counts.
    Conflicting,
}

impl Arrival {
    /// A person opening an address that `incoming` has checked: what the site judges before it
    /// hands somebody over to another of our origins.
    pub fn of_navigation(vhost: VirtualHost, target: PathAndQuery) -> Arrival {
        Arrival {
            method: Method::GET,
            vhost,
            target,
            class: RequestClass::Navigation,
            provenance: Provenance::Own,
            origin: Origin::Absent,
            framing: Framing::None,
            wants_html: true,
            sends_form: false,
            resends_form: false,
            grpc: None,
            address_token: None,
        }
    }

    /// Whether the request may change nothing by itself.
    pub fn is_safe_to_repeat(&self) -> bool {
        self.framing == Framing::None
            && matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    /// Whether a browser shows a page under the address of this request: its scripts see that
    /// address, and all it loads tells it, so that a token must not stay there. A frame of a
    /// foreign page would have no session afterwards: it is answered as it is.
    pub fn shows_address(&self) -> bool {
        match self.class {
            RequestClass::Navigation => true,
            RequestClass::Frame => self.provenance == Provenance::Own,
            RequestClass::WebSocket | RequestClass::Program => false,
        }
    }

    /// Whether the token of the address must be removed by a redirect before the app answers.
    pub fn sheds_token(&self) -> bool {
        self.address_token.is_some() && self.shows_address()
    }

    /// Whether the body may take long enough to outlive the session.
    pub fn is_long_upload(&self) -> bool {
        match self.framing {
            Framing::None => false,
            Framing::Length(length) => length > LONG_UPLOAD,
            Framing::Chunked => true,
        }
    }
}

/// What kind of client is asking; it decides whether a sign-in can be offered by redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestClass {
    /// A person opens a page in a tab: may be sent to sign in.
    Navigation,
    /// A page is loaded into a frame: gets a small page, never a redirect.
    Frame,
    /// A WebSocket handshake.
    WebSocket,
    /// Everything else: fetch, form post, preflight, EventSource, curl.
    Program,
}

impl RequestClass {
    /// The label in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            RequestClass::Navigation => "navigation",
            RequestClass::Frame => "frame",
            RequestClass::WebSocket => "websocket",
            RequestClass::Program => "program",
        }
    }
}

/// Where the request was started, as far as cookies are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The app's own origin, the person, or a client that is no browser.
    Own,
    /// Another site or a sibling: cookies on it count for nothing.
    Foreign,
}

/// The `Origin` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Not sent.
    Absent,
    /// Exactly the origin the request arrived at.
    Own,
    /// Anything else, `null` included.
    Foreign,
}

/// How the request's body is framed; the forwarder writes exactly this, whatever the client wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body and no framing header.
    None,
    /// `Content-Length`, in bytes; zero when the client said zero.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}
