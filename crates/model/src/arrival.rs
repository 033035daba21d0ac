//! A validated request head: parsed once by `incoming`; authorized and forwarded as parsed.

use http::{Method, uri::PathAndQuery};

use super::{grpc::GrpcCall, secret::Secret, vhost::VirtualHost};

/// Longer uploads are authorized again while they run; in bytes.
const LONG_UPLOAD: u64 = 64 * 1024;

/// One validated request head. Only `incoming` makes one from the wire.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Any token of at most 32 bytes but CONNECT and TRACE.
    pub method: Method,
    /// The origin of ours that received it.
    pub vhost: VirtualHost,
    /// Path and query as they came; the path follows the path policy and begins with `/`.
    pub target: PathAndQuery,
    /// The kind of client.
    pub class: RequestClass,
    /// Whether cookies on this request authenticate the person (docs/behaviour.md#credentials).
    pub provenance: Provenance,
    /// The `Origin` header, compared with ours.
    pub origin: Origin,
    /// Framing of the body.
    pub framing: Framing,
    /// A form post from a page of the same origin, whose response will be the next page.
    pub sends_form: bool,
    /// The address was marked by our page that sends a saved form again; the mark is removed.
    pub resends_form: bool,
    /// A CORS preflight, by which a browser asks whether a page of another origin may send a
    /// request (Fetch Standard, section 4.8).
    pub is_preflight: bool,
    /// A gRPC call, whose errors are sent as gRPC status.
    pub grpc: Option<GrpcCall>,
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
    /// A navigation to an address that `incoming` has checked. The site authorizes it before it
    /// issues a ticket for another of our origins.
    pub fn navigation(vhost: VirtualHost, target: PathAndQuery) -> Arrival {
        Arrival {
            method: Method::GET,
            vhost,
            target,
            class: RequestClass::Navigation,
            provenance: Provenance::Own,
            origin: Origin::Absent,
            framing: Framing::None,
            sends_form: false,
            resends_form: false,
            is_preflight: false,
            grpc: None,
            address_token: None,
        }
    }

    /// Whether the request is safe and can be sent twice (RFC 9110 section 9.2.1).
    pub fn is_safe_to_repeat(&self) -> bool {
        self.framing == Framing::None
            && matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    /// Whether a browser shows a page under the address of this request. Scripts see that address
    /// and `Referer` repeats it, so a token must not stay in it. A frame of a foreign page would
    /// have no session after a redirect, so it is served as it is.
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

/// The kind of client, which decides whether sign-in can be offered by redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestClass {
    /// A page opened in a tab: may be redirected to sign-in.
    Navigation,
    /// A page loaded in a frame: gets a small page, never a redirect.
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

/// The site that started the request, for the trust in its cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The app's own origin, the address bar, or a client that is no browser.
    Own,
    /// Another site or a sibling: its cookies are ignored.
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

/// Framing of the request body. The forwarder writes exactly this, not the client's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body and no framing header.
    None,
    /// `Content-Length`, in bytes; zero when the client said zero.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}
