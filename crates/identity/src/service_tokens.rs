//! Service tokens: credentials of programs, made by `ludgate tokens` for some apps and for some
//! time (docs/programs.md).
//!
//! A token is random (`text`), so its SHA-256 is stored and nothing of it (`record`). The stored
//! tokens are in a file (`file`), which a gateway loads when it changes (`in_file`), or in the
//! Redis of sessions (`redis`), whose answers a gateway remembers for seconds (`in_redis`).
//! `registry` is for operators, who may name a token by its hash too (`hash_prefix`). A token is an
//! identity and never a permission: the app's rule still decides.

pub mod file;
pub mod hash_prefix;
pub mod in_file;
pub mod in_redis;
pub mod record;
pub mod redis;
pub mod registry;
#[cfg(test)]
mod samples;
pub mod text;

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use tokio::runtime::Handle;

use crate::{model::clock::Clock, session::cookie::RecordKey, stale_cache::Unavailable};
use file::TokenFileError;
use in_file::FileTokens;
use in_redis::RedisTokens;
use record::ServiceToken;
use redis::TokenStore;

/// A changed file is looked at this often, so that a revocation takes effect within a second.
pub const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Where service tokens are stored.
#[derive(Clone, Debug)]
pub enum ServiceTokenSettings {
    /// In a file.
    File(PathBuf),
    /// In the Redis of sessions.
    SessionStore,
}

/// The service tokens that a gateway knows. A known one costs no call.
#[derive(Debug)]
pub enum ServiceTokens {
    /// All of a file, in memory.
    File(Box<FileTokens>),
    /// Those of Redis, looked up when they are presented.
    Redis(Box<RedisTokens>),
}

impl ServiceTokens {
    /// The tokens of a file; a missing file has none.
    ///
    /// # Errors
    /// See [`TokenFileError`].
    pub fn in_file(path: PathBuf) -> Result<ServiceTokens, TokenFileError> {
        Ok(ServiceTokens::File(Box::new(FileTokens::open(path)?)))
    }

    /// The tokens in Redis. Calls run on the control runtime.
    pub fn in_redis(store: TokenStore, clock: Clock, control: Handle) -> ServiceTokens {
        ServiceTokens::Redis(Box::new(RedisTokens::new(store, clock, control)))
    }

    /// Loads the file again if it has changed. Returns whether the tokens may have changed; always
    /// `false` with Redis.
    pub fn reload(&self) -> bool {
        match self {
            ServiceTokens::File(tokens) => tokens.reload(),
            ServiceTokens::Redis(_) => false,
        }
    }

    /// The token with this hash, which may have expired; `None`: there is none. Look-ups of unknown
    /// tokens in Redis are rate-limited by `client`.
    ///
    /// # Errors
    /// When Redis gives no answer, or the client has presented too many unknown tokens.
    pub async fn find(
        &self,
        key: RecordKey,
        client: IpAddr,
    ) -> Result<Option<Arc<ServiceToken>>, Unavailable> {
        match self {
            ServiceTokens::File(tokens) => Ok(tokens.find(&key)),
            ServiceTokens::Redis(tokens) => tokens.find(key, client).await,
        }
    }

    /// The token as it was last known, without waiting; `None`: it was revoked, or is not known.
    pub fn last_known(&self, key: RecordKey) -> Option<Arc<ServiceToken>> {
        match self {
            ServiceTokens::File(tokens) => tokens.find(&key),
            ServiceTokens::Redis(tokens) => tokens.last_known(key),
        }
    }
}
