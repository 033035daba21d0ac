//! The keys that sign assertions, from PEM files that may be replaced while the process runs.

use std::{
    fmt, fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use aws_lc_rs::digest;
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{key::AssertionKey, published::PublishedKeys};
use crate::model::clock::Moment;

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AssertionKeyError {
    /// A file cannot be read.
    #[error("{file} cannot be read: {error}")]
    Unreadable {
        /// Path of the file.
        file: String,
        /// The cause.
        error: io::Error,
    },
    /// A file has no private key, or is damaged.
    #[error("{0}: no unencrypted PEM private key in the file")]
    NoKey(String),
    /// Another kind of key.
    #[error("{0}: the private key is not of the curve P-256")]
    NotP256(String),
}

/// The keys of some files: the first signs, all are published.
pub struct AssertionKeys {
    files: Vec<PathBuf>,
    current: ArcSwap<PublishedKeys>,
    /// Digest of the files at the last read, so that only changes are parsed. Only one task locks
    /// it.
    seen: Mutex<[u8; 32]>,
}

impl fmt::Debug for AssertionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssertionKeys")
            .field("files", &self.files)
            .field("published", &self.current.load())
            .finish_non_exhaustive()
    }
}

impl AssertionKeys {
    /// Reads the files. Each may have several keys.
    ///
    /// # Errors
    /// See [`AssertionKeyError`].
    pub fn from_files(files: Vec<PathBuf>) -> Result<AssertionKeys, AssertionKeyError> {
        let (seen, contents) = read_files(&files);
        let keys = parse_files(&files, contents)?;
        Ok(AssertionKeys {
            current: ArcSwap::from_pointee(PublishedKeys::at_start(keys)),
            files,
            seen: Mutex::new(seen),
        })
    }

    /// Reads the files again, and ends the publication of removed keys. `true`: the files changed.
    /// A new key signs after five minutes.
    ///
    /// # Errors
    /// When changed files cannot be used; the keys stay as they are. Returned once for each
    /// content.
    pub fn renew(&self, now: Moment) -> Result<bool, AssertionKeyError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = self.current.load().without_expired(now) {
            self.current.store(Arc::new(next));
        }
        let (digest, contents) = read_files(&self.files);
        if digest == *seen {
            return Ok(false);
        }
        *seen = digest;
        let keys = parse_files(&self.files, contents)?;
        let next = self.current.load().changed_to(keys, now);
        self.current.store(Arc::new(next));
        Ok(true)
    }

    /// A token with this payload, signed by the key of this time; `None` if the library cannot
    /// sign.
    pub(super) fn sign(&self, payload: &[u8], now: Moment) -> Option<String> {
        self.current.load().signing(now)?.sign(payload)
    }

    /// The public keys as a JWK set.
    pub(super) fn key_set(&self) -> Value {
        let current = self.current.load();
        let keys: Vec<Value> = current.keys().map(AssertionKey::public_jwk).collect();
        json!({ "keys": keys })
    }
}

/// The content of a file, which holds private keys.
type Content = io::Result<Zeroizing<Vec<u8>>>;

/// The digest of all files, and their contents.
fn read_files(files: &[PathBuf]) -> ([u8; 32], Vec<Content>) {
    let mut all = digest::Context::new(&digest::SHA256);
    let read = |file: &PathBuf| {
        let content = fs::read(file).map(Zeroizing::new);
        // An unreadable file is a state like any other.
        all.update(
            content
                .as_ref()
                .map_or(&b"unreadable"[..], |bytes| bytes.as_slice()),
        );
        all.update(b"\0");
        content
    };
    let contents = files.iter().map(read).collect();
    let mut seen = [0; 32];
    seen.copy_from_slice(all.finish().as_ref());
    (seen, contents)
}

fn parse_files(
    files: &[PathBuf],
    contents: Vec<Content>,
) -> Result<Vec<Arc<AssertionKey>>, AssertionKeyError> {
    let mut keys = Vec::new();
    for (file, content) in files.iter().zip(contents) {
        let file = file.display().to_string();
        let content = content.map_err(|error| AssertionKeyError::Unreadable {
            file: file.clone(),
            error,
        })?;
        keys.extend(parse_file(&file, &content)?);
    }
    Ok(keys)
}

/// The keys of one file, at least one.
fn parse_file(file: &str, pem: &[u8]) -> Result<Vec<Arc<AssertionKey>>, AssertionKeyError> {
    let mut keys = Vec::new();
    for key in PrivateKeyDer::pem_slice_iter(pem) {
        let key = key.map_err(|_| AssertionKeyError::NoKey(file.to_owned()))?;
        let key = Zeroizing::new(key);
        let key = AssertionKey::from_der(key.secret_der())
            .map_err(|_| AssertionKeyError::NotP256(file.to_owned()))?;
        keys.push(Arc::new(key));
    }
    if keys.is_empty() {
        return Err(AssertionKeyError::NoKey(file.to_owned()));
    }
    Ok(keys)
}
