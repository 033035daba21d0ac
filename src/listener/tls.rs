//! TLS towards clients: rustls with one certificate from files.

use std::sync::Arc;

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// Plain HTTP or TLS.
#[derive(Clone)]
pub enum Settings {
    /// Plain HTTP: loopback, or a TLS proxy in front.
    Off,
    /// TLS 1.2 and 1.3 with this certificate.
    On(Arc<ServerConfig>),
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Settings::Off => "Off",
            Settings::On(_) => "On",
        })
    }
}

/// What is wrong with a certificate or key file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate file holds none.
    #[error("no PEM certificate in the file")]
    NoCertificate,
    /// The key file holds none.
    #[error("no PEM private key in the file")]
    NoKey,
    /// They cannot be used together.
    #[error("the certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// Builds the server's side from PEM texts.
///
/// # Errors
/// See [`TlsError`].
pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Settings, TlsError> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().unwrap_or_default();
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Settings::On(Arc::new(config)))
}
