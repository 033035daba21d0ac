//! TLS configurations for clients, with the CAs of a file or of the system.

use std::{fmt::Debug, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

/// The CA file holds no usable certificate.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no PEM certificate in the CA file")]
pub struct NoCertificate;

/// A client configuration that trusts a CA file, or the system's CAs.
///
/// # Errors
/// [`NoCertificate`] if a CA file has no certificate. It never falls back to the system's CAs.
pub fn client_config(ca: Option<&[u8]>) -> Result<Arc<ClientConfig>, NoCertificate> {
    Ok(Arc::new(
        ClientConfig::builder()
            .with_root_certificates(roots(ca)?)
            .with_no_client_auth(),
    ))
}

/// The root certificates of a CA file, or of the system.
///
/// # Errors
/// As [`client_config`].
pub fn roots(ca: Option<&[u8]>) -> Result<RootCertStore, NoCertificate> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots
                    .add(certificate.map_err(|_| NoCertificate)?)
                    .map_err(|_| NoCertificate)?;
            }
            if roots.is_empty() {
                return Err(NoCertificate);
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

/// A client configuration that accepts any certificate. The caller must authenticate the server by
/// other means before it uses a response. The handshake still proves possession of the key.
pub fn config_for_any_certificate() -> Arc<ClientConfig> {
    Arc::new(
        ClientConfig::builder()
            .dangerous()
            .with_custom_certificate_verifier(verifier(AnyCertificate))
            .with_no_client_auth(),
    )
}

/// Decides whether a server's certificate is accepted.
pub trait CertificateCheck: Debug + Send + Sync + 'static {
    /// Checks what the server presents; the handshake proves possession of its key.
    ///
    /// # Errors
    /// Why the certificate is refused.
    fn check(&self, presented: PresentedCertificate<'_>) -> Result<(), Error>;
}

/// What a server presents, and when.
#[derive(Clone, Copy)]
pub struct PresentedCertificate<'c> {
    /// The server's certificate.
    pub certificate: &'c CertificateDer<'c>,
    /// The other certificates of its chain.
    pub intermediates: &'c [CertificateDer<'c>],
    /// The name that the client connects to.
    pub name: &'c ServerName<'c>,
    /// A stapled OCSP response; may be empty.
    pub ocsp: &'c [u8],
    /// The time of the handshake.
    pub now: UnixTime,
}

/// A verifier of rustls that accepts the certificates that pass the check.
pub fn verifier(check: impl CertificateCheck) -> Arc<dyn ServerCertVerifier> {
    Arc::new(CheckedCertificate {
        check,
        provider: aws_lc_rs::default_provider(),
    })
}

#[derive(Debug)]
struct AnyCertificate;

impl CertificateCheck for AnyCertificate {
    fn check(&self, _presented: PresentedCertificate<'_>) -> Result<(), Error> {
        Ok(())
    }
}

#[derive(Debug)]
struct CheckedCertificate<C> {
    check: C,
    provider: CryptoProvider,
}

impl<C: CertificateCheck> ServerCertVerifier for CheckedCertificate<C> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check.check(PresentedCertificate {
            certificate,
            intermediates,
            name,
            ocsp,
            now,
        })?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
