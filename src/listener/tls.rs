//! TLS towards clients: rustls, with certificates from files that may be replaced while it runs.
//!
//! Which of several certificates a client is shown its server name decides (SNI, RFC 6066 section 3); who asks for none
//! that is here gets the first, and an answer that fits no certificate is the client's to refuse.

use std::{
    fmt, fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use aws_lc_rs::digest;
use rustls::{
    ServerConfig,
    client::verify_server_name,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::{ClientHello, ParsedCertificate, ResolvesServerCert},
    sign::CertifiedKey,
};

/// Plain HTTP or TLS.
#[derive(Clone)]
pub enum Settings {
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

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Settings::Off => "Off",
            Settings::On { .. } => "On",
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

/// The files of one certificate.
#[derive(Clone, Debug)]
pub struct Files {
    /// The chain, our own certificate first; PEM.
    pub certificate: PathBuf,
    /// Its key; PEM.
    pub key: PathBuf,
}

/// The certificates of a listener.
pub struct Certificates {
    files: Vec<Files>,
    current: ArcSwap<Vec<Arc<CertifiedKey>>>,
    /// What the files held when they were last looked at, so that nothing is read into what did not change. Locked by
    /// the one task that looks.
    seen: Mutex<Digest>,
}

type Digest = [u8; 32];

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Settings {
    /// The server's side with the certificates of these files; the first is for whoever names none of the others.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn from_files(files: Vec<Files>) -> Result<Settings, TlsError> {
        let (seen, read) = look(&files);
        let certificates = read.into_iter().collect::<Result<Vec<_>, _>>()?;
        let certificates = Arc::new(Certificates {
            files,
            current: ArcSwap::from_pointee(certificates),
            seen: Mutex::new(seen),
        });
        let mut config =
            ServerConfig::builder().with_no_client_auth().with_cert_resolver(certificates.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Settings::On { config: Arc::new(config), certificates })
    }
}

impl Certificates {
    /// Looks at the files again: changed ones are shown from the next handshake on. Gives back whether they changed.
    ///
    /// # Errors
    /// When what is there now for a certificate cannot be used, half-written files among it: then the old one is shown, and
    /// the others are renewed all the same. Said once for each content.
    pub fn renew(&self) -> Result<bool, TlsError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, read) = look(&self.files);
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

    fn pick(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.load();
        let fits = |certificate: &&Arc<CertifiedKey>| {
            let name = name.and_then(|name| ServerName::try_from(name).ok());
            let parsed =
                certificate.end_entity_cert().ok().and_then(|der| ParsedCertificate::try_from(der).ok());
            matches!((name, parsed), (Some(name), Some(parsed)) if verify_server_name(&parsed, &name).is_ok())
        };
        // One certificate needs no choice.
        let chosen = if current.len() > 1 { current.iter().find(fits) } else { None };
        chosen.or_else(|| current.first()).cloned()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.pick(hello.server_name())
    }
}

/// What the files hold, and what can be made of it: one result for each certificate.
fn look(files: &[Files]) -> (Digest, Vec<Result<Arc<CertifiedKey>, TlsError>>) {
    let mut all = digest::Context::new(&digest::SHA256);
    let mut content = |file: &PathBuf| {
        let content = fs::read(file);
        // That one cannot be read is a state like any other.
        all.update(content.as_ref().map_or(&b"unreadable"[..], Vec::as_slice));
        let name = file.display().to_string();
        content.map_err(|error| TlsError::Unreadable { file: name, error })
    };
    let read: Vec<_> = files.iter().map(|files| (content(&files.certificate), content(&files.key))).collect();
    let made = files.iter().zip(read).map(|(files, (chain, key))| certified(files, &chain?, &key?)).collect();
    let mut seen = [0; 32];
    seen.copy_from_slice(all.finish().as_ref());
    (seen, made)
}

fn certified(files: &Files, chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, TlsError> {
    let name = || files.certificate.display().to_string();
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().unwrap_or_default();
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(name()));
    }
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey(files.key.display().to_string()))?;
    // That they belong together is checked: of files that are being replaced one may be the old one.
    let made = CertifiedKey::from_der(chain, key, &rustls::crypto::aws_lc_rs::default_provider());
    made.map(Arc::new).map_err(|error| TlsError::Unusable { file: name(), error })
}
