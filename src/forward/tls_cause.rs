//! Failed TLS handshakes with apps in words, for logs and `ludgate explain`: what is wrong, and
//! which key or certificate to change.

use std::{error::Error as StdError, fmt};

use rustls::{CertificateError, Error};

use super::app_tls::UpstreamTlsFailure;
use crate::model::error_cause::{chain_text, find_cause};

/// The cause of a failed handshake.
#[derive(Debug)]
pub(super) struct TlsCause<'e> {
    pub(super) failure: UpstreamTlsFailure,
    /// The error of the TLS library.
    pub(super) error: &'e (dyn StdError + 'static),
}

impl fmt::Display for TlsCause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = date(self.error);
        match (self.failure, date) {
            (UpstreamTlsFailure::Expired, Some(date)) => write!(
                f,
                "the app's certificate expired on {date}; renew it, or check this machine's clock"
            ),
            (UpstreamTlsFailure::NotYetValid, Some(date)) => write!(
                f,
                "the app's certificate is not valid before {date}; check the clocks of both machines"
            ),
            (failure, _) => match advice(failure) {
                Some(advice) => write!(f, "{advice} ({})", chain_text(self.error)),
                None => f.write_str(&chain_text(self.error)),
            },
        }
    }
}

impl StdError for TlsCause<'_> {}

/// `None`: the error of the library says it best.
fn advice(failure: UpstreamTlsFailure) -> Option<&'static str> {
    Some(match failure {
        UpstreamTlsFailure::Issuer => {
            "the issuer of the app's certificate is not trusted; set ca of the app to it"
        }
        UpstreamTlsFailure::Name => {
            "the app's certificate is for another name; set server_name of the app"
        }
        UpstreamTlsFailure::Key => {
            "the app's certificate has another key; set certificate_pin if that is intended"
        }
        UpstreamTlsFailure::OurCertificate => {
            "the app wants a client certificate, or another one; set client_certificate of the app"
        }
        UpstreamTlsFailure::Expired => "the app's certificate has expired; renew it",
        UpstreamTlsFailure::NotYetValid => {
            "the app's certificate is not valid yet; check the clocks of both machines"
        }
        UpstreamTlsFailure::NotTls => {
            "the app answers without TLS; write http:// into upstream, or the app's TLS port"
        }
        UpstreamTlsFailure::Handshake => return None,
    })
}

/// The date in an error about the validity of a certificate.
fn date(error: &(dyn StdError + 'static)) -> Option<String> {
    let Error::InvalidCertificate(
        CertificateError::ExpiredContext {
            not_after: time, ..
        }
        | CertificateError::NotValidYetContext {
            not_before: time, ..
        },
    ) = find_cause::<Error>(error)?
    else {
        return None;
    };
    let seconds = i64::try_from(time.as_secs()).ok()?;
    let time = chrono::DateTime::from_timestamp(seconds, 0)?;
    Some(time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use rustls::{AlertDescription, pki_types::UnixTime};

    use super::*;

    fn said(error: Error) -> String {
        let error = io::Error::other(error);
        let failure = UpstreamTlsFailure::from_error(&error);
        let error = &error;
        TlsCause { failure, error }.to_string()
    }

    #[test]
    fn a_failed_handshake_names_the_remedy() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let day = 24 * 60 * 60;
        for (error, wanted) in [
            (
                Error::from(CertificateError::ExpiredContext {
                    time: at(2 * day),
                    not_after: at(day),
                }),
                "the app's certificate expired on 1970-01-02T00:00:00Z; renew it, or check this \
                 machine's clock",
            ),
            (
                Error::from(CertificateError::NotValidYetContext {
                    time: at(0),
                    not_before: at(day),
                }),
                "the app's certificate is not valid before 1970-01-02T00:00:00Z; check the clocks \
                 of both machines",
            ),
            (
                Error::from(CertificateError::Expired),
                "the app's certificate has expired; renew it (invalid peer certificate: Expired)",
            ),
            (
                Error::from(CertificateError::UnknownIssuer),
                "the issuer of the app's certificate is not trusted; set ca of the app to it \
                 (invalid peer certificate: UnknownIssuer)",
            ),
            (
                Error::AlertReceived(AlertDescription::CertificateRequired),
                "the app wants a client certificate, or another one; set client_certificate of \
                 the app (received fatal alert: CertificateRequired)",
            ),
            (Error::HandshakeNotComplete, "handshake not complete"),
        ] {
            assert_eq!(said(error), wanted);
        }
    }
}
