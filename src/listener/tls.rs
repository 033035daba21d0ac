//! TLS towards clients: rustls, with certificate files that may be replaced at run time.
//!
//! The server name selects the certificate (SNI, RFC 6066 section 3). Unknown names get the first
//! one; the client refuses it.

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

use super::certificate_check::CertificateDates;

/// Plain HTTP or TLS.
#[derive(Clone)]
pub enum TlsSettings {
    /// Plain HTTP: loopback, or a TLS proxy in front.
    Off,
    /// TLS 1.2 and 1.3 with these certificates.
    On {
        /// The configuration of rustls.
        config: Arc<ServerConfig>,
        /// The certificates of the configuration.
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

/// A certificate or key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{file}: {error}")]
    Unreadable {
        /// Path of the file.
        file: String,
        /// The cause.
        error: io::Error,
    },
    /// The file contains no certificate.
    #[error("{0}: no PEM certificate in the file")]
    NoCertificate(String),
    /// The file contains no private key.
    #[error("{0}: no PEM private key in the file")]
    NoKey(String),
    /// rustls refuses the pair.
    #[error("{file}: the certificate and its key cannot be used: {error}")]
    Unusable {
        /// Path of the certificate file.
        file: String,
        /// The cause.
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
    /// Digest of the files at the last read, so that only changes are parsed. Only one task locks
    /// it.
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
    /// TLS with the certificates of these files. The first serves clients without a matching server
    /// name. With `clients`, client certificates of the authorities in that file are required.
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
        // Session tickets: the key stays in this process and changes every six hours. A ticket is
        // valid for its server name only.
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
    /// Reads the files again. Changed certificates are served from the next handshake on. `true`:
    /// they changed.
    ///
    /// # Errors
    /// When a changed certificate cannot be used, for example a half-written file. Then the old one
    /// stays, and the others are renewed. Returned once for each content.
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

    /// The certificate for this server name, directly after the handshake.
    pub fn served_for(&self, name: Option<&str>) -> Option<ServedCertificate> {
        let certificate = self.pick(name)?;
        Some(ServedCertificate {
            certificate,
            name: name.map(str::to_owned),
        })
    }

    /// The validity of each certificate. One that cannot be parsed is left out.
    pub fn dates(&self) -> Vec<CertificateDates> {
        let current = self.current.load();
        let dates = self.files.iter().zip(current.iter());
        let dates = dates.filter_map(|(files, certificate)| {
            let file = files.certificate.display().to_string();
            CertificateDates::parse(file, certificate.end_entity_cert().ok()?)
        });
        dates.collect()
    }

    /// Whether one of the certificates covers this host.
    pub fn covers(&self, host: &str) -> bool {
        let current = self.current.load();
        current.iter().any(|certificate| covers(certificate, host))
    }

    fn pick(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.load();
        let fits =
            |certificate: &&Arc<CertifiedKey>| name.is_some_and(|name| covers(certificate, name));
        // A single certificate needs no comparison.
        let chosen = if current.len() > 1 {
            current.iter().find(fits)
        } else {
            None
        };
        chosen.or_else(|| current.first()).cloned()
    }
}

/// The certificate that the client of a connection got.
#[derive(Debug)]
pub struct ServedCertificate {
    certificate: Arc<CertifiedKey>,
    /// The server name of the handshake.
    name: Option<String>,
}

impl ServedCertificate {
    /// Whether requests for this host are allowed on the connection: the host is the server name,
    /// or the certificate covers it too (RFC 9113 section 9.1.1). Clients send no server name for
    /// an IP address.
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

/// Verifies client certificates against the authorities in this file.
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

/// Reads and parses the files: their digest, and one result for each certificate.
fn read_files(files: &[CertificateFiles]) -> (Digest, Vec<Result<Arc<CertifiedKey>, TlsError>>) {
    let mut all = digest::Context::new(&digest::SHA256);
    let mut content = |file: &PathBuf| {
        let content = fs::read(file);
        // An unreadable file is a state like any other.
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
        .map(|(files, (chain, key))| parse_certificate(files, &chain?, &key?))
        .collect();
    let mut seen = [0; 32];
    seen.copy_from_slice(all.finish().as_ref());
    (seen, made)
}

fn parse_certificate(
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
    // Also checks that key and certificate match: while files are replaced, one may be old.
    let made = CertifiedKey::from_der(chain, key, &rustls::crypto::aws_lc_rs::default_provider());
    made.map(Arc::new).map_err(|error| TlsError::Unusable {
        file: name(),
        error,
    })
}
