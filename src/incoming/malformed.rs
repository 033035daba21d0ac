//! Why a request head is refused before it is routed.

use http::StatusCode;

/// Why a request head is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The Host header is missing, doubled, or no authority.
    #[error("the Host header is missing, doubled or malformed")]
    Host,
    /// The request line names another host than the Host header.
    #[error("the request line and the Host header disagree")]
    HostMismatch,
    /// The host is well-formed but not ours.
    #[error("this host is not served here")]
    UnknownHost,
    /// The request target is not a path.
    #[error("the request target is not a path")]
    Target,
    /// The path holds bytes that two readers could read differently.
    #[error("the path contains characters that are not allowed")]
    Path,
    /// The path climbs above the app it names.
    #[error("the path climbs above the app")]
    Climbs,
    /// The request target is too long.
    #[error("the address is too long")]
    TooLong,
    /// CONNECT, TRACE, or a method that is too long.
    #[error("this method is not allowed")]
    Method,
    /// The body's framing is not exactly one length or exactly `chunked`.
    #[error("the framing of the body is ambiguous")]
    Framing,
    /// `Expect` with anything but `100-continue`.
    #[error("this expectation cannot be met")]
    Expectation,
    /// Several Authorization headers.
    #[error("more than one Authorization header")]
    Authorization,
    /// Too many cookies, or one of ours far too long.
    #[error("too many cookies")]
    Cookies,
    /// A WebSocket handshake that is not one.
    #[error("the WebSocket handshake is malformed")]
    Handshake,
    /// A header field of HTTP/2 that HTTP/1.1 cannot carry.
    #[error("a header field is malformed")]
    Field,
    /// More header fields than may be.
    #[error("too many header fields")]
    Fields,
    /// The certificate of this connection does not speak for the host.
    #[error("this connection is for another host")]
    Misdirected,
    /// The request passed through this gateway before.
    #[error("the request is going in circles")]
    Loop,
}

impl Malformed {
    /// The status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Malformed::Host
            | Malformed::HostMismatch
            | Malformed::Target
            | Malformed::Path
            | Malformed::Climbs
            | Malformed::Framing
            | Malformed::Authorization
            | Malformed::Field
            | Malformed::Handshake => StatusCode::BAD_REQUEST,
            Malformed::UnknownHost | Malformed::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Malformed::TooLong => StatusCode::URI_TOO_LONG,
            Malformed::Method => StatusCode::METHOD_NOT_ALLOWED,
            Malformed::Expectation => StatusCode::EXPECTATION_FAILED,
            Malformed::Cookies | Malformed::Fields => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Malformed::Loop => StatusCode::LOOP_DETECTED,
        }
    }

    /// One word for logs and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Malformed::Host => "bad_host",
            Malformed::HostMismatch => "host_mismatch",
            Malformed::UnknownHost => "unknown_host",
            Malformed::Target => "bad_target",
            Malformed::Path => "bad_path",
            Malformed::Climbs => "path_climbs",
            Malformed::TooLong => "target_too_long",
            Malformed::Method => "bad_method",
            Malformed::Framing => "bad_framing",
            Malformed::Expectation => "bad_expectation",
            Malformed::Authorization => "two_authorizations",
            Malformed::Cookies => "too_many_cookies",
            Malformed::Handshake => "bad_handshake",
            Malformed::Field => "bad_field",
            Malformed::Fields => "too_many_fields",
            Malformed::Misdirected => "misdirected",
            Malformed::Loop => "loop",
        }
    }
}
