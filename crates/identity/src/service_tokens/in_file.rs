//! The service tokens of a file, in the memory of a gateway.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;

use super::{
    file::{TokenFile, TokenFileError, parse},
    record::{ServiceToken, StoredToken},
};
use crate::session::cookie::RecordKey;

type TokensByHash = HashMap<RecordKey, Arc<ServiceToken>>;

/// All tokens of a file.
#[derive(Debug)]
pub struct FileTokens {
    file: TokenFile,
    /// The text that was read last, valid or not; `None`: it was unreadable.
    seen: Mutex<Option<String>>,
    tokens: ArcSwap<TokensByHash>,
}

impl FileTokens {
    /// Reads the file for the first time.
    pub(super) fn open(path: PathBuf) -> Result<FileTokens, TokenFileError> {
        let file = TokenFile::new(path);
        let text = file.read()?;
        let tokens = by_hash(parse(&text)?);
        Ok(FileTokens {
            file,
            seen: Mutex::new(Some(text)),
            tokens: ArcSwap::from_pointee(tokens),
        })
    }

    /// The token with this hash.
    pub(super) fn find(&self, key: &RecordKey) -> Option<Arc<ServiceToken>> {
        self.tokens.load().get(key).cloned()
    }

    /// Loads the file again if it has changed. An invalid file changes nothing; without a file no
    /// token is valid. Returns whether the tokens were replaced.
    pub(super) fn reload(&self) -> bool {
        match self.try_reload() {
            Ok(is_changed) => is_changed,
            Err(error) => {
                let file = self.file.path().display();
                tracing::warn!(
                    %error,
                    %file,
                    "cannot load the changed service tokens; the old ones stay in use"
                );
                false
            }
        }
    }

    fn try_reload(&self) -> Result<bool, TokenFileError> {
        let text = self.file.read();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if text.as_ref().ok() == seen.as_ref() {
            return Ok(false);
        }
        // Also if it is not valid: a mistake is reported once.
        *seen = text.as_ref().ok().cloned();
        let tokens = by_hash(parse(&text?)?);
        log_changes(&self.tokens.load(), &tokens);
        self.tokens.store(Arc::new(tokens));
        Ok(true)
    }
}

fn by_hash(stored: Vec<StoredToken>) -> TokensByHash {
    let token = |stored: StoredToken| {
        let token = ServiceToken::new(stored.record)?;
        Some((stored.key, Arc::new(token)))
    };
    stored.into_iter().filter_map(token).collect()
}

fn log_changes(before: &TokensByHash, after: &TokensByHash) {
    for (_, token) in before.iter().filter(|(key, _)| !after.contains_key(key)) {
        tracing::info!(target: "audit", event = "service_token_removed", name = token.name());
    }
    for (_, token) in after.iter().filter(|(key, _)| !before.contains_key(key)) {
        tracing::info!(target: "audit", event = "service_token_added", name = token.name());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::service_tokens::samples::token;

    #[test]
    fn a_changed_file_counts_if_it_is_valid() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens.json");
        let file = TokenFile::new(path.clone());
        let tokens = FileTokens::open(path.clone()).expect("no file");
        let is_known = |name: &str| tokens.find(&RecordKey::from_name(name)).is_some();
        assert!(!tokens.reload());
        file.update(|tokens| tokens.extend([token("one"), token("two"), token("A b")]))
            .expect("written");
        assert!(!is_known("one"), "not before the next look");
        assert!(tokens.reload() && !tokens.reload());
        assert!(is_known("one") && is_known("two") && !is_known("A b"));
        let valid = fs::read_to_string(&path).expect("readable");
        fs::write(&path, "{").expect("written");
        assert!(!tokens.reload() && is_known("one"));
        fs::write(&path, valid).expect("written");
        assert!(tokens.reload());
        file.update(|tokens| tokens.retain(|token| token.record.name != "one"))
            .expect("written");
        assert!(tokens.reload() && !is_known("one") && is_known("two"));
        fs::remove_file(&path).expect("removed");
        assert!(tokens.reload() && !is_known("two"));
    }
}
