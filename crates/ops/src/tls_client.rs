//! TLS configurations for clients, with the CAs of a file or of the system.

use std::sync::Arc;

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
    let verifier = Arc::new(AnyCertificate(Arc::new(aws_lc_rs::default_provider())));
    Arc::new(
        ClientConfig::builder()
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth(),
    )
}

#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
