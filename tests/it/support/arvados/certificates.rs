//! Certificates of the stand-in: one authority for the API, and self-signed ones for container
//! gateways.

use std::sync::{Arc, OnceLock};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_RSA_SHA256, RsaKeySize, SerialNumber,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};

use super::records::random_text;

/// The API's side of TLS, and the CA that its clients must trust.
pub struct Authority {
    pub pem: String,
    pub server: Arc<ServerConfig>,
}

impl Authority {
    /// A fresh authority that signed one certificate for this machine.
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("two names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        let server = server(certificate.der().clone(), &key);
        Authority {
            pem: issuer.pem(),
            server,
        }
    }
}

/// The self-signed certificate of a container gateway.
pub struct SelfSigned {
    pub certificate: CertificateDer<'static>,
    pub server: Arc<ServerConfig>,
}

impl SelfSigned {
    /// A certificate of its own each time. Only the serial number makes it another one: the key is
    /// shared, and such a signature is the same every time.
    pub fn new() -> SelfSigned {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.serial_number = Some(SerialNumber::from_slice(random_text(16).as_bytes()));
        let key = rsa_key();
        let certificate = params
            .self_signed(key)
            .expect("a certificate")
            .der()
            .clone();
        SelfSigned {
            server: server(certificate.clone(), key),
            certificate,
        }
    }
}

/// One key for all gateways of this process: RSA as crunch-run has it, and slow to make.
fn rsa_key() -> &'static KeyPair {
    static KEY: OnceLock<KeyPair> = OnceLock::new();
    KEY.get_or_init(|| {
        KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("an RSA key")
    })
}

fn server(certificate: CertificateDer<'static>, key: &KeyPair) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a private key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("key and certificate belong together");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}
