//! TLS towards one app: its CA, server name and key pin, our client certificate, and the cause of a
//! failed handshake.
//!
//! All configured conditions must hold. rustls verifies signatures, chains and names; this file
//! only decides which of them apply.

use std::{error::Error as StdError, sync::Arc};

use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, InvalidMessage, OtherError,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier, verify_server_name},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::ParsedCertificate,
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::{
    model::{
        app::{AppSpec, Protocol},
        error_cause::find_cause,
        upstream_tls::{ClientCertificate, KeyPin, UpstreamTls},
    },
    ops::tls_client::{CertificateCheck, NoCertificate, PresentedCertificate, roots, verifier},
};

/// The TLS configuration of an app cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamTlsError {
    /// The CA file contains no usable certificate.
    #[error(transparent)]
    Ca(#[from] NoCertificate),
    /// The client certificate's file contains no certificate.
    #[error("no PEM certificate in the file")]
    NoClientCertificate,
    /// The client certificate's key file contains no key.
    #[error("no PEM private key in the file")]
    NoClientKey,
    /// rustls refuses the pair of certificate and key.
    #[error("the certificate and key cannot be used: {0}")]
    ClientCertificate(#[source] Error),
}

/// The configuration of rustls for connections to this app. HTTP/2 is negotiated by ALPN.
///
/// # Errors
/// See [`UpstreamTlsError`].
pub fn app_client(app: &AppSpec) -> Result<Arc<ClientConfig>, UpstreamTlsError> {
    let config = client(&app.tls)?;
    Ok(match app.protocol {
        Protocol::Http1 => config,
        Protocol::Http2 => {
            let mut with_alpn = ClientConfig::clone(&config);
            with_alpn.alpn_protocols = vec![b"h2".to_vec()];
            Arc::new(with_alpn)
        }
    })
}

fn client(tls: &UpstreamTls) -> Result<Arc<ClientConfig>, UpstreamTlsError> {
    let builder = ClientConfig::builder();
    let builder = match tls.pin {
        None => builder.with_root_certificates(roots(tls.ca.as_deref())?),
        Some(pin) => builder
            .dangerous()
            .with_custom_certificate_verifier(verifier(PinnedCertificate::new(pin, tls)?)),
    };
    Ok(Arc::new(match &tls.client_certificate {
        None => builder.with_no_client_auth(),
        Some(ours) => {
            let ours = SingleCertAndKey::from(certified_key(ours)?);
            builder.with_client_cert_resolver(Arc::new(ours))
        }
    }))
}

/// Our client certificate with its key; they must match.
///
/// # Errors
/// See [`UpstreamTlsError`].
pub fn certified_key(ours: &ClientCertificate) -> Result<CertifiedKey, UpstreamTlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&ours.chain).collect();
    let chain = chain.unwrap_or_default();
    if chain.is_empty() {
        return Err(UpstreamTlsError::NoClientCertificate);
    }
    let key = ours.key.expose().as_bytes();
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| UpstreamTlsError::NoClientKey)?;
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
        .map_err(UpstreamTlsError::ClientCertificate)
}

/// Verifies the pinned key, and also CA and server name where they are configured.
#[derive(Debug)]
struct PinnedCertificate {
    pin: KeyPin,
    /// With a CA the pin is an additional condition to the usual verification.
    authority: Option<Arc<WebPkiServerVerifier>>,
    /// Without a CA only a configured name is verified: self-signed certificates often hold none.
    must_hold_name: bool,
}

impl PinnedCertificate {
    fn new(pin: KeyPin, tls: &UpstreamTls) -> Result<PinnedCertificate, NoCertificate> {
        let authority = match &tls.ca {
            None => None,
            Some(ca) => {
                let roots = Arc::new(roots(Some(ca))?);
                let provider = Arc::new(aws_lc_rs::default_provider());
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
                Some(verifier.map_err(|_| NoCertificate)?)
            }
        };
        Ok(PinnedCertificate {
            pin,
            authority,
            must_hold_name: tls.server_name.is_some(),
        })
    }
}

impl CertificateCheck for PinnedCertificate {
    fn check(&self, presented: PresentedCertificate<'_>) -> Result<(), Error> {
        let parsed = ParsedCertificate::try_from(presented.certificate)?;
        if !self.pin.matches(&parsed.subject_public_key_info()) {
            return Err(CertificateError::Other(OtherError(Arc::new(WrongKey))).into());
        }
        match &self.authority {
            Some(authority) => {
                let PresentedCertificate {
                    certificate,
                    intermediates,
                    name,
                    ocsp,
                    now,
                } = presented;
                authority.verify_server_cert(certificate, intermediates, name, ocsp, now)?;
            }
            None if self.must_hold_name => verify_server_name(&parsed, presented.name)?,
            None => {}
        }
        Ok(())
    }
}

/// Carries a wrong pin through rustls, which has no error for it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the certificate's key is not the pinned one")]
struct WrongKey;

/// The cause of a failed TLS handshake with an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamTlsFailure {
    /// The certificate's issuer is not trusted.
    Issuer,
    /// The certificate is for another name.
    Name,
    /// The certificate's key is not the pinned one.
    Key,
    /// The app requires a client certificate, or another one than ours.
    OurCertificate,
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    NotYetValid,
    /// The app answers with other bytes than TLS, such as plain HTTP.
    NotTls,
    /// Anything else, such as no common version.
    Handshake,
}

impl UpstreamTlsFailure {
    /// The cause in an error of rustls, at any depth of this error.
    pub fn from_error(error: &(dyn StdError + 'static)) -> UpstreamTlsFailure {
        find_cause::<Error>(error)
            .map_or(UpstreamTlsFailure::Handshake, UpstreamTlsFailure::classify)
    }

    /// Whether an error on an open connection means that the app refuses our certificate: in TLS
    /// 1.3 an app verifies it only after the handshake is complete for us (RFC 8446 section
    /// 4.4.2.4).
    pub fn is_of_our_certificate(error: &(dyn StdError + 'static)) -> bool {
        find_cause::<Error>(error).is_some_and(|error| {
            UpstreamTlsFailure::classify(error) == UpstreamTlsFailure::OurCertificate
        })
    }

    fn classify(error: &Error) -> UpstreamTlsFailure {
        if let Error::AlertReceived(alert) = error {
            return if is_about_a_certificate(*alert) {
                UpstreamTlsFailure::OurCertificate
            } else {
                UpstreamTlsFailure::Handshake
            };
        }
        // The first byte of a record that is none of TLS (RFC 8446 section 5.1).
        if matches!(
            error,
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion
            )
        ) {
            return UpstreamTlsFailure::NotTls;
        }
        let Error::InvalidCertificate(why) = error else {
            return UpstreamTlsFailure::Handshake;
        };
        if matches!(
            why,
            CertificateError::Expired | CertificateError::ExpiredContext { .. }
        ) {
            return UpstreamTlsFailure::Expired;
        }
        if matches!(
            why,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }
        ) {
            return UpstreamTlsFailure::NotYetValid;
        }
        // An authority with the right name and another key shows in the signature.
        if matches!(
            why,
            CertificateError::UnknownIssuer | CertificateError::BadSignature
        ) {
            return UpstreamTlsFailure::Issuer;
        }
        if matches!(
            why,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        ) {
            return UpstreamTlsFailure::Name;
        }
        let is_wrong_key =
            matches!(why, CertificateError::Other(OtherError(other)) if other.is::<WrongKey>());
        if is_wrong_key {
            UpstreamTlsFailure::Key
        } else {
            UpstreamTlsFailure::Handshake
        }
    }
}

/// The alerts of RFC 8446 section 6.2 with which a server refuses the client's certificate, or its
/// absence (the first).
fn is_about_a_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}
