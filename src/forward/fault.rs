//! What can go wrong between us and an app, by whose fault it was; statuses come from here alone.

use http::StatusCode;

use super::app_tls::Distrust;

/// Why no answer of the app can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Nobody listens there, or the name does not resolve.
    #[error("the app does not accept connections")]
    Refused,
    /// No connection within the deadline.
    #[error("the app could not be reached in time")]
    ConnectTimeout,
    /// TLS towards the app failed: one side did not believe the other, or they do not speak the
    /// same.
    #[error("the TLS connection to the app failed")]
    Tls(Distrust),
    /// What answers for a container is not its gateway.
    #[error("the server at the app's address is not the container's gateway")]
    WrongProof,
    /// The connection died before a whole response head came.
    #[error("the app closed the connection without an answer")]
    Died,
    /// The same, on a used connection and without a single byte: a bodyless safe request may be
    /// repeated.
    #[error("the app closed a used connection without an answer")]
    DiedUnanswered,
    /// No response head within the app's deadline.
    #[error("the app took too long to answer")]
    HeadTimeout,
    /// An answer that no client could be given.
    #[error("the app's answer is not valid HTTP")]
    BadAnswer,
    /// The client's body was broken; the app's request was cut off.
    #[error("the request body is incomplete or malformed")]
    ClientBody,
    /// The client's body stood still for as long as the app may take to answer.
    #[error("the request body did not arrive in time")]
    UploadStalled,
    /// The client's body is larger than the app takes.
    #[error("the request body is too large")]
    TooLarge,
    /// The app has as much to do as it may have.
    #[error("the app is busy")]
    Busy,
    /// An app that is said to speak HTTP/2 does not.
    #[error("the app does not speak HTTP/2")]
    NoHttp2,
    /// An app of HTTP/2 that takes no WebSockets.
    #[error("the app does not accept WebSockets")]
    NoWebSockets,
    /// The target cannot be sent.
    #[error("this address cannot be sent to the app")]
    Unsendable,
}

impl Fault {
    /// The status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Fault::Refused
            | Fault::Tls(_)
            | Fault::WrongProof
            | Fault::Died
            | Fault::DiedUnanswered
            | Fault::NoHttp2
            | Fault::NoWebSockets
            | Fault::BadAnswer => StatusCode::BAD_GATEWAY,
            Fault::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Fault::ConnectTimeout | Fault::HeadTimeout => StatusCode::GATEWAY_TIMEOUT,
            Fault::ClientBody | Fault::Unsendable => StatusCode::BAD_REQUEST,
            Fault::UploadStalled => StatusCode::REQUEST_TIMEOUT,
            Fault::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    /// One word for logs and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Fault::Refused => "upstream_refused",
            Fault::ConnectTimeout => "upstream_connect_timeout",
            Fault::Tls(Distrust::Issuer) => "upstream_tls_ca",
            Fault::Tls(Distrust::Name) => "upstream_tls_name",
            Fault::Tls(Distrust::Key) => "upstream_tls_pin",
            Fault::Tls(Distrust::OurCertificate) => "upstream_tls_client_certificate",
            Fault::Tls(Distrust::Handshake) => "upstream_tls",
            Fault::WrongProof => "upstream_proof",
            Fault::Died | Fault::DiedUnanswered => "upstream_closed",
            Fault::HeadTimeout => "upstream_head_timeout",
            Fault::BadAnswer => "upstream_bad_answer",
            Fault::ClientBody => "client_body",
            Fault::UploadStalled => "upload_stalled",
            Fault::TooLarge => "body_too_large",
            Fault::Unsendable => "bad_path",
            Fault::Busy => "upstream_busy",
            Fault::NoHttp2 => "upstream_not_http2",
            Fault::NoWebSockets => "upstream_no_websockets",
        }
    }

    /// Whether the request never reached the app.
    pub fn is_unsent(self) -> bool {
        match self {
            Fault::Refused | Fault::ConnectTimeout | Fault::Busy | Fault::NoHttp2 => true,
            Fault::Tls(_)
            | Fault::WrongProof
            | Fault::Died
            | Fault::DiedUnanswered
            | Fault::HeadTimeout
            | Fault::BadAnswer
            | Fault::ClientBody
            | Fault::UploadStalled
            | Fault::TooLarge
            | Fault::NoWebSockets
            | Fault::Unsendable => false,
        }
    }

    /// Whether the client's connection is of no further use: the rest of its body is still on it.
    pub fn must_close(self) -> bool {
        match self {
            Fault::ClientBody | Fault::UploadStalled | Fault::TooLarge => true,
            Fault::Refused
            | Fault::ConnectTimeout
            | Fault::Tls(_)
            | Fault::WrongProof
            | Fault::Died
            | Fault::DiedUnanswered
            | Fault::HeadTimeout
            | Fault::BadAnswer
            | Fault::Busy
            | Fault::NoHttp2
            | Fault::NoWebSockets
            | Fault::Unsendable => false,
        }
    }
}
