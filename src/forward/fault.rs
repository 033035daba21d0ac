//! Failures between us and an app, by their origin. They alone decide the status of the response.

use std::io;

use http::StatusCode;

use super::app_tls::UpstreamTlsFailure;

/// The request got no response from the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The name of the app's host does not resolve.
    #[error("the name of the app's server cannot be resolved")]
    Unresolved,
    /// The app's address refuses connections.
    #[error("the app does not accept connections")]
    Refused,
    /// There is no route to the app's address.
    #[error("the network of the app cannot be reached")]
    Unreachable,
    /// No connection within the deadline.
    #[error("the app could not be reached in time")]
    ConnectTimeout,
    /// The TLS handshake with the app failed.
    #[error("the TLS connection to the app failed")]
    Tls(UpstreamTlsFailure),
    /// The server at a container's address is not its gateway.
    #[error("the server at the app's address is not the container's gateway")]
    WrongProof,
    /// The connection ended before a whole response head.
    #[error("the app closed the connection without an answer")]
    Died,
    /// The same on a used connection, before any byte: a bodyless safe request may be repeated.
    #[error("the app closed a used connection without an answer")]
    DiedUnanswered,
    /// No response head within the app's deadline.
    #[error("the app sent no response head within apps.timeout or limits.response_head")]
    HeadTimeout,
    /// The response is not valid HTTP, or cannot be relayed.
    #[error("the app's answer is not valid HTTP")]
    BadAnswer,
    /// The client's body is malformed or incomplete.
    #[error("the request body is incomplete or malformed")]
    ClientBody,
    /// The client's body stalled for as long as the app may take to answer.
    #[error("the request body did not arrive in time")]
    UploadStalled,
    /// The client's body is over the app's limit.
    #[error("the request body is too large")]
    TooLarge,
    /// The app, or this client at the app, is at its limit of requests or connections.
    #[error("the app is busy")]
    Busy,
    /// The app is configured for HTTP/2 and does not speak it.
    #[error("the app does not speak HTTP/2")]
    NoHttp2,
    /// The app speaks HTTP/2 and accepts no WebSockets.
    #[error("the app does not accept WebSockets")]
    NoWebSockets,
    /// The target is not valid for the app's protocol.
    #[error("this address cannot be sent to the app")]
    Unsendable,
}

/// The side of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOrigin {
    /// The app cannot be reached, or gives no valid response.
    App,
    /// The app works, but cannot take this request: it is busy, or accepts no WebSockets.
    AppLimit,
    /// The client's request.
    Client,
}

impl Fault {
    /// The fault of a connection that could not be opened. The system's own timeout may come before
    /// ours.
    pub fn from_connect_error(error: &io::Error) -> Fault {
        let kind = error.kind();
        if kind == io::ErrorKind::TimedOut {
            Fault::ConnectTimeout
        } else if matches!(
            kind,
            io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::NetworkDown
        ) {
            Fault::Unreachable
        } else {
            Fault::Refused
        }
    }

    /// Which side it is on.
    pub fn origin(self) -> FaultOrigin {
        match self {
            Fault::Unresolved
            | Fault::Refused
            | Fault::Unreachable
            | Fault::ConnectTimeout
            | Fault::Tls(_)
            | Fault::WrongProof
            | Fault::Died
            | Fault::DiedUnanswered
            | Fault::HeadTimeout
            | Fault::BadAnswer
            | Fault::NoHttp2 => FaultOrigin::App,
            Fault::Busy | Fault::NoWebSockets => FaultOrigin::AppLimit,
            Fault::ClientBody | Fault::UploadStalled | Fault::TooLarge | Fault::Unsendable => {
                FaultOrigin::Client
            }
        }
    }

    /// The status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            Fault::Unresolved
            | Fault::Refused
            | Fault::Unreachable
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

    /// The stable reason in logs and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Fault::Unresolved => "upstream_unresolved",
            Fault::Refused => "upstream_refused",
            Fault::Unreachable => "upstream_unreachable",
            Fault::ConnectTimeout => "upstream_connect_timeout",
            Fault::Tls(UpstreamTlsFailure::Issuer) => "upstream_tls_ca",
            Fault::Tls(UpstreamTlsFailure::Name) => "upstream_tls_name",
            Fault::Tls(UpstreamTlsFailure::Key) => "upstream_tls_pin",
            Fault::Tls(UpstreamTlsFailure::OurCertificate) => "upstream_tls_client_certificate",
            Fault::Tls(UpstreamTlsFailure::Expired) => "upstream_tls_expired",
            Fault::Tls(UpstreamTlsFailure::NotYetValid) => "upstream_tls_not_yet_valid",
            Fault::Tls(UpstreamTlsFailure::NotTls) => "upstream_not_tls",
            Fault::Tls(UpstreamTlsFailure::Handshake) => "upstream_tls",
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
            Fault::Unresolved
            | Fault::Refused
            | Fault::Unreachable
            | Fault::ConnectTimeout
            | Fault::Busy
            | Fault::NoHttp2 => true,
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

    /// Whether no connection was opened, so that another upstream may be tried.
    pub(super) fn is_no_connection(self) -> bool {
        match self {
            Fault::Unresolved | Fault::Refused | Fault::Unreachable | Fault::ConnectTimeout => true,
            Fault::Tls(_)
            | Fault::WrongProof
            | Fault::Died
            | Fault::DiedUnanswered
            | Fault::HeadTimeout
            | Fault::BadAnswer
            | Fault::ClientBody
            | Fault::UploadStalled
            | Fault::TooLarge
            | Fault::Busy
            | Fault::NoHttp2
            | Fault::NoWebSockets
            | Fault::Unsendable => false,
        }
    }

    /// Whether the client's connection must close: the rest of its body is still on it.
    pub fn must_close(self) -> bool {
        match self {
            Fault::ClientBody | Fault::UploadStalled | Fault::TooLarge => true,
            Fault::Unresolved
            | Fault::Refused
            | Fault::Unreachable
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_of_failed_connections_are_told_apart() {
        for (kind, reason) in [
            (io::ErrorKind::ConnectionRefused, "upstream_refused"),
            (io::ErrorKind::NotFound, "upstream_refused"),
            (io::ErrorKind::PermissionDenied, "upstream_refused"),
            (io::ErrorKind::HostUnreachable, "upstream_unreachable"),
            (io::ErrorKind::NetworkUnreachable, "upstream_unreachable"),
            (io::ErrorKind::NetworkDown, "upstream_unreachable"),
            (io::ErrorKind::TimedOut, "upstream_connect_timeout"),
        ] {
            let fault = Fault::from_connect_error(&kind.into());
            assert_eq!(fault.reason(), reason, "{kind}");
            assert_eq!(fault.origin(), FaultOrigin::App, "{kind}");
            assert!(fault.is_unsent(), "{kind}");
        }
    }
}
