//! Tokens that work once: logout tokens and saved forms.

use std::{sync::Arc, time::Duration};

use moka::{policy::EvictionPolicy, sync::Cache};

use super::{cookie::RecordKey, redis::Redis, replication::error::StoreUnavailable};
use crate::model::clock::millis;

/// Tokens that are remembered here; each is valid for minutes.
const MAX_TOKENS: u64 = 100_000;

/// The tokens that were used, on this replica and on all replicas together.
#[derive(Debug)]
pub struct UsedTokens {
    local: Cache<RecordKey, ()>,
    redis: Option<Arc<Redis>>,
}

impl UsedTokens {
    pub(super) fn new(redis: Option<Arc<Redis>>) -> UsedTokens {
        UsedTokens {
            local: Cache::builder()
                .max_capacity(MAX_TOKENS)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            redis,
        }
    }

    /// Marks a token as used for `ttl`. Returns whether this was its first use on any replica.
    ///
    /// # Errors
    /// [`StoreUnavailable`] when other replicas may have used it; it is marked here then.
    pub async fn first_use(&self, token: &str, ttl: Duration) -> Result<bool, StoreUnavailable> {
        let key = RecordKey::from_name(token);
        if !self.local.entry(key).or_insert(()).is_fresh() {
            return Ok(false);
        }
        match &self.redis {
            Some(redis) => Ok(redis.single_use.use_token(token, millis(ttl)).await?),
            None => Ok(true),
        }
    }

    /// Allows a token to be used again, because its use failed.
    pub async fn forget(&self, token: &str) {
        self.local.invalidate(&RecordKey::from_name(token));
        if let Some(redis) = &self.redis {
            redis.single_use.forget_token(token).await;
        }
    }
}
