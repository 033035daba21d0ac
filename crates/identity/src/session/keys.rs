//! Keys for state that browsers, Redis and the handoff file hold for us: AEAD, and HMAC for form
//! tokens. One derived key per purpose, and the purpose is authenticated too.
//!
//! A ring seals with its first key and opens with all of them. [`KeyRing::renew`] loads a changed
//! key file, so keys rotate without a restart.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use arc_swap::ArcSwap;
use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey},
    digest, hkdf, hmac, rand,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

/// Shortest secret a key file may hold, in bytes.
pub const MIN_SECRET: usize = 32;

/// The purpose of a sealed text. A text sealed for one purpose cannot be opened for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The `state` of a pending sign-in.
    State,
    /// The token of the sign-out form.
    SignOutForm,
    /// Session records and tickets in Redis, and the handoff file.
    Sessions,
    /// A form that was submitted without a live session.
    SavedForm,
    /// The `state` of a person who gets an API token.
    TokenState,
    /// The code that this person copies.
    TokenCode,
    /// The code with which a terminal waits for an API token.
    DeviceCode,
    /// Operations on labs in Redis.
    LabOperations,
    /// Service tokens in Redis: hashes, and what the tokens are for.
    ServiceTokens,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Purpose::State => b"ludgate state v1",
            Purpose::SignOutForm => b"ludgate sign-out form v1",
            Purpose::Sessions => b"ludgate sessions v1",
            Purpose::SavedForm => b"ludgate saved form v1",
            Purpose::TokenState => b"ludgate token state v1",
            Purpose::TokenCode => b"ludgate token code v1",
            Purpose::DeviceCode => b"ludgate device code v1",
            Purpose::LabOperations => b"ludgate lab operations v1",
            Purpose::ServiceTokens => b"ludgate service tokens v1",
        }
    }
}

/// Why keys were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No key at all.
    #[error("the key file holds no key")]
    Empty,
    /// Not base64.
    #[error("a key is not base64")]
    NotBase64,
    /// Too short.
    #[error("a key is shorter than 32 bytes")]
    TooShort,
    /// Few different bytes, or ASCII text such as the sample in the documentation.
    #[error("a key is a sample or is guessable")]
    Guessable,
    /// No random bytes, or an error of the cryptographic library.
    #[error("no key could be made")]
    System,
}

/// A sealed text could not be opened: it is forged, for another purpose, or sealed with a key that
/// was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what was sealed cannot be opened")]
pub struct UnsealError;

/// Why a changed file is not used.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// It cannot be read.
    #[error("the file cannot be read: {0}")]
    File(#[from] io::Error),
    /// It cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyError),
}

/// One or more keys; the first seals.
pub struct KeyRing {
    /// A random key is made at first use, because gathering randomness takes longer than the rest
    /// of the start of the process.
    keys: OnceLock<ArcSwap<Vec<DerivedKeys>>>,
    file: Option<KeyFile>,
}

struct KeyFile {
    path: PathBuf,
    /// Digest of the content that was read last.
    seen: Mutex<Vec<u8>>,
}

struct DerivedKeys {
    /// Identifies the key that sealed a text. It is derived, so it reveals nothing about the key.
    id: u8,
    state: RandomizedNonceKey,
    sessions: RandomizedNonceKey,
    saved_form: RandomizedNonceKey,
    lab_operations: RandomizedNonceKey,
    form: hmac::Key,
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "KeyRing({} keys)",
            self.keys.get().map_or(0, |keys| keys.load().len())
        )
    }
}

impl KeyRing {
    /// A random key that exists only in this process; a restart invalidates pending sign-ins.
    /// Without randomness there is no key, and nothing can be sealed.
    pub fn random() -> KeyRing {
        KeyRing {
            keys: OnceLock::new(),
            file: None,
        }
    }

    fn from_keys(keys: Vec<DerivedKeys>) -> KeyRing {
        KeyRing {
            keys: OnceLock::from(ArcSwap::from_pointee(keys)),
            file: None,
        }
    }

    /// Gathers randomness and makes the random key, so that no request waits for either later.
    /// Blocks for some dozens of milliseconds.
    pub fn prepare(&self) {
        // A failure is reported where random bytes are needed.
        let _ = rand::fill(&mut [0; 1]);
        self.ring();
    }

    fn ring(&self) -> &ArcSwap<Vec<DerivedKeys>> {
        let random = || {
            DerivedKeys::random()
                .inspect_err(
                    |error| tracing::error!(%error, "cannot encrypt: no random bytes, or no key"),
                )
                .ok()
        };
        self.keys
            .get_or_init(|| ArcSwap::from_pointee(random().into_iter().collect()))
    }

    /// Reads a key file, which may change later; see [`KeyRing::renew`].
    ///
    /// # Errors
    /// See [`RenewError`].
    pub fn from_file(path: &Path) -> Result<KeyRing, RenewError> {
        let content = fs::read_to_string(path)?;
        let ring = KeyRing::from_file_content(&content)?;
        let file = KeyFile {
            path: path.to_owned(),
            seen: Mutex::new(digest_of(&content)),
        };
        Ok(KeyRing {
            file: Some(file),
            ..ring
        })
    }

    /// Whether the keys come from a file, which may change.
    pub fn may_change(&self) -> bool {
        self.file.is_some()
    }

    /// Loads the keys of the file if it has changed. Returns whether they were replaced. Removed
    /// keys no longer open anything.
    ///
    /// # Errors
    /// When the file cannot be used; the keys stay as they are. Reported once for the same content.
    pub fn renew(&self) -> Result<bool, RenewError> {
        let Some(file) = &self.file else {
            return Ok(false);
        };
        let content = fs::read_to_string(&file.path);
        let now = content.as_deref().map_or_else(|_| Vec::new(), digest_of);
        let mut seen = file.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return Ok(false);
        }
        *seen = now;
        let next = KeyRing::from_file_content(&content?)?;
        self.ring().store(next.ring().load_full());
        Ok(true)
    }

    /// Reads a key file: one base64 key of at least 32 bytes a line, `#` comments; the first seals.
    pub fn from_file_content(content: &str) -> Result<KeyRing, KeyError> {
        let keys = content
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| {
                let text = Zeroizing::new(
                    line.trim_end_matches('=')
                        .replace('+', "-")
                        .replace('/', "_"),
                );
                let secret = URL_SAFE_NO_PAD
                    .decode(&*text)
                    .map_err(|_| KeyError::NotBase64)?;
                let secret = Zeroizing::new(secret);
                if secret.len() < MIN_SECRET {
                    return Err(KeyError::TooShort);
                }
                // Few different bytes, or only ASCII, are a typed text and not random bytes.
                let mut distinct = secret.clone();
                distinct.sort_unstable();
                distinct.dedup();
                if distinct.len() < 8 || secret.is_ascii() {
                    return Err(KeyError::Guessable);
                }
                DerivedKeys::from_secret(&secret)
            })
            .collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            Err(KeyError::Empty)
        } else {
            Ok(KeyRing::from_keys(keys))
        }
    }

    /// Seals the bytes for the browser to carry: key id, nonce, ciphertext, tag; base64url.
    pub fn seal(&self, purpose: Purpose, plain: &[u8]) -> Result<String, KeyError> {
        let keys: Arc<Vec<DerivedKeys>> = self.ring().load_full();
        let key = keys.first().ok_or(KeyError::Empty)?;
        let mut sealed = plain.to_vec();
        let nonce = key
            .for_purpose(purpose)
            .seal_in_place_append_tag(Aad::from(purpose.label()), &mut sealed)
            .map_err(|_| KeyError::System)?;
        let mut out = Vec::with_capacity(1 + NONCE_LEN + sealed.len());
        out.push(key.id);
        out.extend_from_slice(nonce.as_ref());
        out.extend_from_slice(&sealed);
        Ok(URL_SAFE_NO_PAD.encode(out))
    }

    /// Opens what [`KeyRing::seal`] made for the same purpose.
    pub fn open(&self, purpose: Purpose, text: &str) -> Result<Vec<u8>, UnsealError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| UnsealError)?;
        let (id, rest) = bytes.split_first().ok_or(UnsealError)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN).ok_or(UnsealError)?;
        for key in self.ring().load().iter().filter(|key| key.id == *id) {
            let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| UnsealError)?;
            let mut sealed = sealed.to_vec();
            if let Ok(plain) = key.for_purpose(purpose).open_in_place(
                nonce,
                Aad::from(purpose.label()),
                &mut sealed,
            ) {
                return Ok(plain.to_vec());
            }
        }
        Err(UnsealError)
    }

    /// An HMAC of this message, for forms that change something.
    pub fn form_token(&self, message: &[u8]) -> String {
        let keys = self.ring().load();
        let Some(key) = keys.first() else {
            return String::new();
        };
        URL_SAFE_NO_PAD.encode(hmac::sign(&key.form, message))
    }

    /// Whether the token was made by [`KeyRing::form_token`] for the message; constant time.
    pub fn is_form_token(&self, message: &[u8], token: &str) -> bool {
        let Ok(tag) = URL_SAFE_NO_PAD.decode(token) else {
            return false;
        };
        self.ring()
            .load()
            .iter()
            .any(|key| hmac::verify(&key.form, message, &tag).is_ok())
    }
}

impl DerivedKeys {
    /// The key that seals for a purpose. `SignOutForm` is used for HMACs and not for sealing; the
    /// purpose is authenticated, so its texts could not be mistaken for a `State`.
    fn for_purpose(&self, purpose: Purpose) -> &RandomizedNonceKey {
        match purpose {
            Purpose::State
            | Purpose::SignOutForm
            | Purpose::TokenState
            | Purpose::TokenCode
            | Purpose::DeviceCode => &self.state,
            Purpose::Sessions | Purpose::ServiceTokens => &self.sessions,
            Purpose::SavedForm => &self.saved_form,
            Purpose::LabOperations => &self.lab_operations,
        }
    }

    fn random() -> Result<DerivedKeys, KeyError> {
        let mut secret = Zeroizing::new([0; MIN_SECRET]);
        rand::fill(&mut *secret).map_err(|_| KeyError::System)?;
        DerivedKeys::from_secret(&*secret)
    }

    fn from_secret(secret: &[u8]) -> Result<DerivedKeys, KeyError> {
        let base = hkdf::Salt::new(hkdf::HKDF_SHA256, b"ludgate").extract(secret);
        let derive = |label: &[u8]| -> Result<[u8; 32], KeyError> {
            let mut key = [0; 32];
            base.expand(&[label], hkdf::HKDF_SHA256)
                .and_then(|material| material.fill(&mut key))
                .map_err(|_| KeyError::System)?;
            Ok(key)
        };
        Ok(DerivedKeys {
            id: derive(b"key id")?[0],
            state: RandomizedNonceKey::new(&AES_256_GCM, &derive(Purpose::State.label())?)
                .map_err(|_| KeyError::System)?,
            sessions: RandomizedNonceKey::new(&AES_256_GCM, &derive(Purpose::Sessions.label())?)
                .map_err(|_| KeyError::System)?,
            saved_form: RandomizedNonceKey::new(&AES_256_GCM, &derive(Purpose::SavedForm.label())?)
                .map_err(|_| KeyError::System)?,
            lab_operations: RandomizedNonceKey::new(
                &AES_256_GCM,
                &derive(Purpose::LabOperations.label())?,
            )
            .map_err(|_| KeyError::System)?,
            form: hmac::Key::new(hmac::HMAC_SHA256, &derive(Purpose::SignOutForm.label())?),
        })
    }
}

fn digest_of(content: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, content.as_bytes())
        .as_ref()
        .to_vec()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    fn file_of(seed: u8) -> String {
        let secret: Vec<u8> = (0..32u8)
            .map(|n| n.wrapping_mul(37).wrapping_add(seed))
            .collect();
        STANDARD.encode(secret)
    }

    #[test]
    fn guessable_short_and_missing_keys_are_refused() {
        for (content, expected) in [
            ("", KeyError::Empty),
            ("# only a comment", KeyError::Empty),
            ("c2hvcnQ=", KeyError::TooShort),
            ("!!!", KeyError::NotBase64),
            (
                "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                KeyError::Guessable,
            ),
            (
                "Y2hhbmdlLW1lLWNoYW5nZS1tZS1jaGFuZ2UtbWUtbm93",
                KeyError::Guessable,
            ),
        ] {
            assert_eq!(
                KeyRing::from_file_content(content).err(),
                Some(expected),
                "{content:?}"
            );
        }
    }

    #[test]
    fn two_keys_are_active_and_the_first_seals() {
        let old = KeyRing::from_file_content(&file_of(1)).expect("a key");
        let both = KeyRing::from_file_content(&format!("{}\n{}", file_of(2), file_of(1)))
            .expect("two keys");
        let sealed = old.seal(Purpose::State, b"text").expect("sealed");
        assert_eq!(
            both.open(Purpose::State, &sealed).as_deref(),
            Ok(&b"text"[..])
        );
        let newer = both.seal(Purpose::State, b"text").expect("sealed");
        assert_eq!(old.open(Purpose::State, &newer), Err(UnsealError));
    }

    #[test]
    fn a_file_that_changes_is_taken_when_it_can_be_used_and_said_once_when_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("keys");
        fs::write(&file, file_of(1)).expect("written");
        let ring = KeyRing::from_file(&file).expect("a key");
        let old = ring.seal(Purpose::State, b"text").expect("sealed");
        assert!(matches!(ring.renew(), Ok(false)), "as it was");
        fs::write(&file, format!("{}\n{}", file_of(2), file_of(1))).expect("written");
        assert!(matches!(ring.renew(), Ok(true)));
        let new = ring.seal(Purpose::State, b"text").expect("sealed");
        assert!(ring.open(Purpose::State, &old).is_ok() && ring.open(Purpose::State, &new).is_ok());
        for bad in ["", "c2hvcnQ="] {
            fs::write(&file, bad).expect("written");
            assert!(matches!(ring.renew(), Err(RenewError::Keys(_))), "{bad}");
            assert!(matches!(ring.renew(), Ok(false)), "said once");
        }
        fs::remove_file(&file).expect("removed");
        assert!(matches!(ring.renew(), Err(RenewError::File(_))));
        assert!(
            ring.open(Purpose::State, &new).is_ok(),
            "the last that could be used"
        );
        fs::write(&file, file_of(2)).expect("written");
        assert!(matches!(ring.renew(), Ok(true)));
        assert_eq!(
            ring.open(Purpose::State, &old),
            Err(UnsealError),
            "taken out"
        );
        assert!(ring.open(Purpose::State, &new).is_ok());
    }

    #[test]
    fn what_is_sealed_for_one_purpose_opens_for_no_other() {
        let ring = KeyRing::random();
        let sealed = ring.seal(Purpose::State, b"text").expect("sealed");
        assert_eq!(ring.open(Purpose::SignOutForm, &sealed), Err(UnsealError));
    }

    proptest! {
        #[test]
        fn no_flipped_bit_goes_unnoticed(at in 0usize..200, bit in 0u8..8) {
            let ring = KeyRing::random();
            let sealed = ring.seal(Purpose::State, b"some text to protect").expect("sealed");
            let mut bytes = URL_SAFE_NO_PAD.decode(&sealed).expect("base64");
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(ring.open(Purpose::State, &URL_SAFE_NO_PAD.encode(bytes)), Err(UnsealError));
        }
    }
}
