//! TLS towards clients: rustls, with certificates from files that may be replaced while it runs.
//!
//! Which of several certificates a client is shown its server name decides (SNI, RFC 6066 section
//! 3); who asks for none that is here gets the first, and an answer that fits no certificate is the
//! client's to refuse.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use aws_lc_rs::digest;
use rustls::{
    RootCertStore, ServerConfig,
    client::verify_server_name,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::{
        ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier,
        danger::ClientCertVerifier,
    },
    sign::CertifiedKey,
};

/// Plain HTTP or TLS.
#[derive(Clone)]
pub enum TlsSettings {
    /// Plain HTTP: loopback, or a TLS proxy in front.
    Off,
    /// TLS 1.2 and 1.3 with these certificates.
    On {
        /// The server's side.
        config: Arc<ServerConfig>,
        /// What it shows.
        certificates: Arc<Certificates>,
    },
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsSettings::Off => "Off",
            TlsSettings::On { .. } => "On",
        })
    }
}

/// What is wrong with a certificate or key file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{file}: {error}")]
    Unreadable {
        /// Which.
        file: String,
        /// Why.
        error: io::Error,
    },
    /// The certificate file holds none.
    #[error("{0}: no PEM certificate in the file")]
    NoCertificate(String),
    /// The key file holds none.
    #[error("{0}: no PEM private key in the file")]
    NoKey(String),
    /// They cannot be used together.
    #[error("{file}: the certificate and its key cannot be used: {error}")]
    Unusable {
        /// The certificate's.
        file: String,
        /// Why.
        error: rustls::Error,
    },
}

/// The name of HTTP/2 in a TLS handshake (ALPN, RFC 7301).
pub const HTTP2: &[u8] = b"h2";

/// The files of one certificate.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The chain, our own certificate first; PEM.
    pub certificate: PathBuf,
    /// Its key; PEM.
    pub key: PathBuf,
}

/// The certificates of a listener.
pub struct Certificates {
    files: Vec<CertificateFiles>,
    current: ArcSwap<Vec<Arc<CertifiedKey>>>,
    /// What the files held when they were last looked at, so that nothing is read into what did not
    /// change. Locked by the one task that looks.
    seen: Mutex<Digest>,
}

type Digest = [u8; 32];

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl TlsSettings {
    /// The server's side with the certificates of these files; the first is for whoever names none
    /// of the others. Clients must show a certificate of the authorities in the file `clients`, if
    /// there is one.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn from_files(
        files: Vec<CertificateFiles>,
        clients: Option<&Path>,
    ) -> Result<TlsSettings, TlsError> {
        let (seen, read) = read_files(&files);
        let certificates = read.into_iter().collect::<Result<Vec<_>, _>>()?;
        let certificates = Arc::new(Certificates {
            files,
            current: ArcSwap::from_pointee(certificates),
            seen: Mutex::new(seen),
        });
        let builder = match clients {
            None => ServerConfig::builder().with_no_client_auth(),
            Some(file) => ServerConfig::builder().with_client_cert_verifier(authorities(file)?),
        };
        let mut config = builder.with_cert_resolver(certificates.clone());
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        // Sealed by a key of this process that changes every six hours; a ticket is good for the
        // name it was made for.
        if let Ok(ticketer) = rustls::crypto::aws_lc_rs::Ticketer::new() {
            config.ticketer = ticketer;
        }
        Ok(TlsSettings::On {
            config: Arc::new(config),
            certificates,
        })
    }
}

impl Certificates {
    /// Looks at the files again: changed ones are shown from the next handshake on. Gives back
    /// whether they changed.
    ///
    /// # Errors
    /// When what is there now for a certificate cannot be used, half-written files among it: then
    /// the old one is shown, and the others are renewed all the same. Said once for each content.
    pub fn renew(&self) -> Result<bool, TlsError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, read) = read_files(&self.files);
        if now == *seen {
            return Ok(false);
        }
        *seen = now;
        let (before, mut wrong) = (self.current.load_full(), None);
        let next = before.iter().zip(read).map(|(old, new)| {
            new.unwrap_or_else(|error| {
                wrong.get_or_insert(error);
                old.clone()
            })
        });
        self.current.store(Arc::new(next.collect()));
        wrong.map_or(Ok(true), Err)
    }

    /// What a client that asked for this name was shown, a moment ago.
    pub fn served_for(&self, name: Option<&str>) -> Option<ServedCertificate> {
        let certificate = self.pick(name)?;
        Some(ServedCertificate {
            certificate,
            name: name.map(str::to_owned),
        })
    }

    fn pick(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.load();
        let fits =
            |certificate: &&Arc<CertifiedKey>| name.is_some_and(|name| covers(certificate, name));
        // One certificate needs no choice.
        let chosen = if current.len() > 1 {
            current.iter().find(fits)
        } else {
            None
        };
        chosen.or_else(|| current.first()).cloned()
    }
}

/// The certificate of one connection.
#[derive(Debug)]
pub struct ServedCertificate {
    certificate: Arc<CertifiedKey>,
    /// The name that the client asked for.
    name: Option<String>,
}

impl ServedCertificate {
    /// Whether a request for this host may come on the connection: it was made for that name, or
    /// the certificate speaks for it as well (RFC 9113 section 9.1.1). An address in numbers is
    /// asked for by no name.
    pub fn is_for(&self, host: &str) -> bool {
        self.name
            .as_deref()
            .is_some_and(|name| name.eq_ignore_ascii_case(host))
            || (self.name.is_none() && host.parse::<std::net::IpAddr>().is_ok())
            || covers(&self.certificate, host)
    }
}

fn covers(certificate: &CertifiedKey, name: &str) -> bool {
    let parsed = certificate
        .end_entity_cert()
        .ok()
        .and_then(|der| ParsedCertificate::try_from(der).ok());
    match (ServerName::try_from(name), parsed) {
        (Ok(name), Some(parsed)) => verify_server_name(&parsed, &name).is_ok(),
        (_, _) => false,
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.pick(hello.server_name())
    }
}

/// Who signs the certificates of clients.
fn authorities(file: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let name = || file.display().to_string();
    let content = fs::read(file).map_err(|error| TlsError::Unreadable {
        file: name(),
        error,
    })?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(
        CertificateDer::pem_slice_iter(&content)
            .collect::<Result<Vec<_>, _>>()
            .unwrap_or_default(),
    );
    if added == 0 {
        return Err(TlsError::NoCertificate(name()));
    }
    let unusable = |_| TlsError::NoCertificate(name());
    WebPkiClientVerifier::builder(Arc::new(roots))
        .build()
        .map_err(unusable)
}

/// What the files hold, and what can be made of it: one result for each certificate.
fn read_files(files: &[CertificateFiles]) -> (Digest, Vec<Result<Arc<CertifiedKey>, TlsError>>) {
    let mut all = digest::Context::new(&digest::SHA256);
    let mut content = |file: &PathBuf| {
        let content = fs::read(file);
        // That one cannot be read is a state like any other.
        all.update(content.as_ref().map_or(&b"unreadable"[..], Vec::as_slice));
        let name = file.display().to_string();
        content.map_err(|error| TlsError::Unreadable { file: name, error })
    };
    let read: Vec<_> = files
        .iter()
        .map(|files| (content(&files.certificate), content(&files.key)))
        .collect();
    let made = files
        .iter()
        .zip(read)
        .map(|(files, (chain, key))| certified(files, &chain?, &key?))
        .collect();
    let mut seen = [0; 32];
    seen.copy_from_slice(all.finish().as_ref());
    (seen, made)
}

fn certified(
    files: &CertificateFiles,
    chain: &[u8],
    key: &[u8],
) -> Result<Arc<CertifiedKey>, TlsError> {
    let name = || files.certificate.display().to_string();
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .unwrap_or_default();
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(name()));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| TlsError::NoKey(files.key.display().to_string()))?;
    // That they belong together is checked: of files that are being replaced one may be the old
    // one.
    let made = CertifiedKey::from_der(chain, key, &rustls::crypto::aws_lc_rs::default_provider());
    made.map(Arc::new).map_err(|error| TlsError::Unusable {
        file: name(),
        error,
    })
}
