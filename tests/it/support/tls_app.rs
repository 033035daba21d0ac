//! A recording app behind TLS, its certificates, and private certificate authorities.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    PublicKeyData, date_time_ymd,
};
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{backend::Backend, message::Reader};

/// Signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Each has a key of its own and the name of all others, as impostors would.
    pub fn new() -> Authority {
        Authority::named("an authority")
    }

    pub fn named(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    pub fn sign(&self, names: &[&str]) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let signed = params(names)
            .signed_by(&key, &self.0)
            .expect("a certificate");
        Certificate {
            der: signed.der().clone(),
            pem: signed.pem(),
            key,
        }
    }

    /// One that was good until the end of 2020.
    pub fn sign_expired(&self, names: &[&str]) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let mut params = params(names);
        (params.not_before, params.not_after) =
            (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 12, 31));
        let signed = params.signed_by(&key, &self.0).expect("a certificate");
        Certificate {
            der: signed.der().clone(),
            pem: signed.pem(),
            key,
        }
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params
        .distinguished_name
        .push(DnType::CommonName, "an app or its client");
    params
}

/// A certificate and its key.
pub struct Certificate {
    der: CertificateDer<'static>,
    pub pem: String,
    key: KeyPair,
}

impl Certificate {
    pub fn self_signed(names: &[&str]) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let signed = params(names).self_signed(&key).expect("a certificate");
        Certificate {
            der: signed.der().clone(),
            pem: signed.pem(),
            key,
        }
    }

    pub fn der(&self) -> CertificateDer<'static> {
        self.der.clone()
    }

    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// As `certificate_pin` has it.
    pub fn pin(&self) -> String {
        let public = self.key.subject_public_key_info();
        format!(
            "sha256:{}",
            STANDARD.encode(digest::digest(&digest::SHA256, &public))
        )
    }

    /// The app's side; with an authority it wants a certificate of that one from its clients.
    pub fn server(
        &self,
        clients: Option<&Authority>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).expect("a private key");
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .expect("versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.0.der().clone()).expect("an authority");
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let config = builder.with_single_cert(vec![self.der.clone()], key);
        Arc::new(config.expect("key and certificate belong together"))
    }

    /// An app that shows this certificate to everybody.
    pub async fn app(&self, name: &'static str) -> TlsApp {
        TlsApp::start(name, self.server(None, rustls::ALL_VERSIONS)).await
    }
}

/// A recording app behind TLS.
pub struct TlsApp {
    pub backend: Backend,
    asked_for: Arc<Mutex<Vec<Option<String>>>>,
}

impl TlsApp {
    pub async fn start(name: &'static str, config: Arc<ServerConfig>) -> TlsApp {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let backend = Backend::nowhere(name, listener.local_addr().expect("an address"));
        let app = TlsApp {
            backend: backend.clone(),
            asked_for: Arc::default(),
        };
        let asked_for = app.asked_for.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, backend) = (TlsAcceptor::from(config.clone()), backend.clone());
                let asked_for = asked_for.clone();
                tokio::spawn(async move {
                    match acceptor.accept(tcp).into_fallible().await {
                        Ok(stream) => {
                            let name = stream.get_ref().1.server_name().map(str::to_owned);
                            asked_for.lock().expect("no panic").push(name);
                            backend.serve(stream).await;
                        }
                        // Closing with unread bytes resets the connection, and the alert is lost.
                        Err((_, tcp)) => drop(Reader::new(tcp).rest().await),
                    }
                });
            }
        });
        app
    }

    pub fn address(&self) -> SocketAddr {
        self.backend.address()
    }

    /// What each connection asked for (SNI).
    pub fn asked_for(&self) -> Vec<Option<String>> {
        self.asked_for.lock().expect("no panic").clone()
    }
}
