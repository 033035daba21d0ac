//! Service tokens in a file, as JSON: hashes, and what the tokens are for.
//!
//! Only `ludgate tokens` writes it, and replaces it as a whole; gateways only read it. A lock
//! makes writers take turns, so that no token is lost.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::record::{ServiceTokenRecord, StoredToken};
use crate::{ops::private_file, session::cookie::RecordKey};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read or written.
    #[error("the file of service tokens cannot be used: {0}")]
    File(#[from] io::Error),
    /// It is not the JSON that `ludgate tokens` writes.
    #[error("the file of service tokens is not valid: {0}")]
    Json(#[from] serde_json::Error),
    /// A hash is not valid.
    #[error("the file of service tokens is not valid: the hash of {0:?} is not a SHA-256 in hex")]
    Hash(String),
}

#[derive(Serialize, Deserialize)]
struct Content {
    tokens: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    sha256: String,
    #[serde(flatten)]
    record: ServiceTokenRecord,
}

/// The file.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// A file that need not exist yet.
    pub fn new(path: PathBuf) -> TokenFile {
        TokenFile { path }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text; empty if there is no file.
    pub(super) fn read(&self) -> io::Result<String> {
        match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read,
        }
    }

    /// The tokens, those that have expired among them.
    ///
    /// # Errors
    /// See [`TokenFileError`].
    pub fn load(&self) -> Result<Vec<StoredToken>, TokenFileError> {
        parse(&self.read()?)
    }

    /// Changes the tokens. Only the owner of the file can read it afterwards.
    ///
    /// # Errors
    /// See [`TokenFileError`]; the file stays as it was.
    pub fn update<R>(
        &self,
        change: impl FnOnce(&mut Vec<StoredToken>) -> R,
    ) -> Result<R, TokenFileError> {
        let _lock = self.lock()?;
        let mut tokens = self.load()?;
        let before = tokens.clone();
        let result = change(&mut tokens);
        if tokens != before {
            private_file::replace(&self.path, render(tokens)?.as_bytes())?;
        }
        Ok(result)
    }

    /// A lock that other writers wait for, until it is dropped. The file itself is replaced, so a
    /// lock on it would lock nothing.
    fn lock(&self) -> io::Result<File> {
        let mut path = self.path.clone().into_os_string();
        path.push(".lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        file.lock()?;
        Ok(file)
    }
}

/// Reads the text of a file. An empty one has no tokens.
pub(super) fn parse(text: &str) -> Result<Vec<StoredToken>, TokenFileError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let content: Content = serde_json::from_str(text)?;
    let token = |Entry { sha256, record }: Entry| match RecordKey::from_hex(&sha256) {
        Some(key) => Ok(StoredToken { key, record }),
        None => Err(TokenFileError::Hash(record.name)),
    };
    content.tokens.into_iter().map(token).collect()
}

fn render(tokens: Vec<StoredToken>) -> Result<String, serde_json::Error> {
    let entry = |token: StoredToken| Entry {
        sha256: token.key.hex(),
        record: token.record,
    };
    let tokens = tokens.into_iter().map(entry).collect();
    let mut text = serde_json::to_string_pretty(&Content { tokens })?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::service_tokens::samples::token;

    fn names(file: &TokenFile) -> Vec<String> {
        let mut names: Vec<String> = file
            .load()
            .expect("readable")
            .into_iter()
            .map(|token| token.record.name)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn tokens_are_read_as_they_were_written_by_their_owner_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = TokenFile::new(folder.path().join("tokens.json"));
        assert!(file.load().expect("no file").is_empty());
        let push = |tokens: &mut Vec<StoredToken>| tokens.push(token("one"));
        file.update(push).expect("written");
        assert_eq!(file.load().expect("readable"), [token("one")]);
        let mode = fs::metadata(file.path()).expect("a file").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        let before = fs::metadata(file.path()).expect("a file").modified();
        file.update(|_| ()).expect("nothing to write");
        let after = fs::metadata(file.path()).expect("a file").modified();
        assert_eq!(before.expect("a time"), after.expect("a time"));
    }

    #[test]
    fn writers_at_the_same_time_lose_no_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = TokenFile::new(folder.path().join("tokens.json"));
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    for number in 0..8 {
                        let new = token(&format!("{writer}-{number}"));
                        let push = |tokens: &mut Vec<StoredToken>| tokens.push(new);
                        file.update(push).expect("written");
                    }
                });
            }
        });
        assert_eq!(names(&file).len(), 64);
    }

    #[test]
    fn a_file_of_another_form_is_refused_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = TokenFile::new(folder.path().join("tokens.json"));
        for (text, wanted) in [
            ("{", "is not valid"),
            ("[]", "is not valid"),
            ("{\"tokens\":[{\"sha256\":\"ab\"}]}", "is not valid"),
        ] {
            fs::write(file.path(), text).expect("written");
            let error = file.update(|_| ()).expect_err(text).to_string();
            assert!(error.contains(wanted), "{error}");
            let now = fs::read_to_string(file.path()).expect("readable");
            assert_eq!(now, text);
        }
        let text = render(vec![token("one")]).expect("JSON");
        let text = text.replace(&token("one").key.hex(), "zz");
        let error = parse(&text).expect_err("no hash").to_string();
        assert!(error.contains("the hash of \"one\""), "{error}");
    }
}
