//! The service tokens of Redis that were presented lately, in the memory of a gateway.

use std::{net::IpAddr, sync::Arc, time::Duration};

use tokio::runtime::Handle;

use super::{record::ServiceToken, redis::TokenStore};
use crate::{
    model::{
        clock::Clock,
        lookup_limit::{LookupLimit, Quota},
    },
    session::cookie::RecordKey,
    stale_cache::{Freshness, StaleCache, Unavailable},
};

/// Tokens that are remembered.
const MOST: u64 = 10_000;
/// A token is read again after 5 s, at first in the background. After 10 s it is not accepted
/// without an answer, so a revocation takes effect within that time.
const REMEMBERED: Freshness = Freshness {
    fresh: Duration::from_secs(5),
    stale: Duration::from_secs(10),
    outage: Duration::ZERO,
};
/// One client's quota for look-ups of tokens that Redis does not have, or gives no answer for.
const UNKNOWN: Quota = Quota {
    burst: 32,
    refill: 250,
    at_once: 8,
};

/// Tokens of Redis.
#[derive(Debug)]
pub struct RedisTokens {
    store: TokenStore,
    known: StaleCache<RecordKey, ServiceToken>,
    lookups: LookupLimit,
}

impl RedisTokens {
    pub(super) fn new(store: TokenStore, clock: Clock, control: Handle) -> RedisTokens {
        RedisTokens {
            store,
            known: StaleCache::new(MOST, REMEMBERED, clock.clone(), control),
            lookups: LookupLimit::new(UNKNOWN, clock),
        }
    }

    /// The token with this hash. Concurrent look-ups share one call.
    pub(super) async fn find(
        &self,
        key: RecordKey,
        client: IpAddr,
    ) -> Result<Option<Arc<ServiceToken>>, Unavailable> {
        let permit = match self.known.is_exempt(&key) {
            true => None,
            false => Some(self.lookups.acquire(client).ok_or(Unavailable)?),
        };
        let found = self.known.get(key, || self.fetch(key)).await;
        if let (Some(permit), Ok(Some(_))) = (permit, &found) {
            permit.found();
        }
        found
    }

    /// The token as last read; it is read again in the background if that is due.
    pub(super) fn last_known(&self, key: RecordKey) -> Option<Arc<ServiceToken>> {
        self.known.last_known(&key, || self.fetch(key))?
    }

    fn fetch(
        &self,
        key: RecordKey,
    ) -> impl Future<Output = Result<Option<ServiceToken>, Unavailable>> + Send + use<> {
        let store = self.store.clone();
        async move {
            let record = store.load(key).await.map_err(|_| Unavailable)?;
            Ok(record.and_then(ServiceToken::new))
        }
    }
}
