//! Service tokens in the Redis that replicas share.
//!
//! Records are encrypted, and the encrypted text has the hash of the token in it: with write access
//! to Redis one can revoke a token, or restore a revoked one from a copy of its record, but not
//! make one or give it other rights. Redis must keep its data over a restart, else all tokens are
//! gone.

use std::sync::Arc;

use redis::cmd;

use super::record::{ServiceTokenRecord, StoredToken, TokenList};
use crate::{
    ops::redis::{Link, StoreError},
    session::{
        cookie::RecordKey,
        keys::{KeyRing, Purpose},
    },
};

/// The hashes of all tokens, for lists.
const INDEX: &str = "ludgate:tokens";

/// The records in Redis. Clones use the same connection.
#[derive(Clone)]
pub struct TokenStore {
    link: Arc<Link>,
    keys: Arc<KeyRing>,
}

impl std::fmt::Debug for TokenStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenStore")
    }
}

impl TokenStore {
    /// Records that are sealed with these keys.
    pub fn new(link: Arc<Link>, keys: Arc<KeyRing>) -> TokenStore {
        TokenStore { link, keys }
    }

    /// Writes a token, which Redis drops when it expires; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn insert(&self, token: &StoredToken, now: i64) -> Result<(), StoreError> {
        let sealed = self.seal(token)?;
        let seconds = token.record.expires.saturating_sub(now).max(1);
        let mut set = cmd("SET");
        set.arg(name(token.key)).arg(sealed).arg("EX").arg(seconds);
        self.link.command::<()>(&set).await?;
        let mut index = cmd("SADD");
        index.arg(INDEX).arg(token.key.hex());
        self.link.command::<i64>(&index).await.map(|_| ())
    }

    /// The token with this hash; `None`: there is none, or it cannot be opened.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn load(&self, key: RecordKey) -> Result<Option<ServiceTokenRecord>, StoreError> {
        let mut get = cmd("GET");
        get.arg(name(key));
        let sealed: Option<String> = match self.link.command(&get).await {
            // Another client wrote it; the link has counted it.
            Err(StoreError::WrongType) => return Ok(None),
            found => found?,
        };
        Ok(sealed.and_then(|sealed| self.open(key, &sealed)))
    }

    /// All tokens. Those without a record have expired, and are removed from the index; a record
    /// that cannot be opened may be valid for a gateway with other keys, and stays.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn list(&self) -> Result<TokenList, StoreError> {
        let mut list = TokenList::default();
        for hash in self.hashes().await? {
            let Some(key) = RecordKey::from_hex(&hash) else {
                // No record has such a name.
                self.unlist(&hash).await?;
                continue;
            };
            match self.load(key).await? {
                Some(record) => list.tokens.push(StoredToken { key, record }),
                None if self.has_record(key).await? => list.unreadable.push(key),
                None => self.unlist(&hash).await?,
            }
        }
        Ok(list)
    }

    /// The hashes of the index.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) async fn keys(&self) -> Result<Vec<RecordKey>, StoreError> {
        let hashes = self.hashes().await?;
        let keys = hashes.iter().filter_map(|hash| RecordKey::from_hex(hash));
        Ok(keys.collect())
    }

    /// Whether there is a record with this hash, readable or not.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) async fn has_record(&self, key: RecordKey) -> Result<bool, StoreError> {
        let mut exists = cmd("EXISTS");
        exists.arg(name(key));
        let count: i64 = self.link.command(&exists).await?;
        Ok(count > 0)
    }

    async fn hashes(&self) -> Result<Vec<String>, StoreError> {
        let mut members = cmd("SMEMBERS");
        members.arg(INDEX);
        self.link.command(&members).await
    }

    /// Removes a token.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn remove(&self, key: RecordKey) -> Result<(), StoreError> {
        let mut delete = cmd("DEL");
        delete.arg(name(key));
        self.link.command::<i64>(&delete).await?;
        self.unlist(&key.hex()).await
    }

    async fn unlist(&self, hash: &str) -> Result<(), StoreError> {
        let mut remove = cmd("SREM");
        remove.arg(INDEX).arg(hash);
        self.link.command::<i64>(&remove).await.map(|_| ())
    }

    fn seal(&self, token: &StoredToken) -> Result<String, StoreError> {
        let plain = serde_json::to_vec(&(token.key.0, &token.record));
        let plain = plain.map_err(|_| StoreError::WrongType)?;
        let sealed = self.keys.seal(Purpose::ServiceTokens, &plain);
        sealed.map_err(|_| StoreError::Unavailable)
    }

    fn open(&self, key: RecordKey, sealed: &str) -> Option<ServiceTokenRecord> {
        let plain = self.keys.open(Purpose::ServiceTokens, sealed).ok()?;
        let (sealed_key, record): ([u8; 32], ServiceTokenRecord) =
            serde_json::from_slice(&plain).ok()?;
        (sealed_key == key.0).then_some(record)
    }
}

fn name(key: RecordKey) -> String {
    format!("ludgate:k:{}", key.hex())
}
