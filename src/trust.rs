//! Whom we believe when we are the TLS client: a CA file, or the system's authorities.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

/// The CA file holds no usable certificate.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no PEM certificate in the CA file")]
pub struct NoCertificate;

/// The client's side of TLS.
///
/// # Errors
/// [`NoCertificate`] when a CA file is given and holds none; it is never silently replaced by the system's.
pub fn client(ca: Option<&[u8]>) -> Result<Arc<ClientConfig>, NoCertificate> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate.map_err(|_| NoCertificate)?).map_err(|_| NoCertificate)?;
            }
            if roots.is_empty() {
                return Err(NoCertificate);
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}
