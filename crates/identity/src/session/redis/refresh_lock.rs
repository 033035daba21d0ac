//! The lock of a token refresh: of all replicas, one calls the provider for a sign-in.

use std::sync::Arc;

use redis::cmd;

use super::{names, scripts::Scripts};
use crate::{
    ops::redis::{Link, StoreError},
    session::cookie::{NewId, RecordKey},
};

/// A lock that is not released expires after this long, in milliseconds: longer than two calls to
/// the provider may take.
const EXPIRES_AFTER: u64 = 30_000;

/// A held lock.
pub struct RefreshLock {
    name: String,
    holder: String,
}

/// The locks in Redis.
pub(crate) struct RefreshLocks {
    link: Arc<Link>,
    scripts: Arc<Scripts>,
}

impl RefreshLocks {
    pub(super) fn new(link: Arc<Link>, scripts: Arc<Scripts>) -> RefreshLocks {
        RefreshLocks { link, scripts }
    }

    /// Takes the lock of a sign-in; `None` while another replica holds it.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) async fn acquire(&self, key: RecordKey) -> Result<Option<RefreshLock>, StoreError> {
        let name = names::refresh_lock(key);
        let holder = NewId::random()
            .map_err(|_| StoreError::Unavailable)?
            .as_str()
            .to_owned();
        let mut set = cmd("SET");
        set.arg(&name).arg(&holder).arg("NX");
        set.arg("PX").arg(EXPIRES_AFTER);
        let acquired: Option<String> = self.link.command(&set).await?;
        Ok(acquired.map(|_| RefreshLock { name, holder }))
    }

    /// Releases a lock. If Redis cannot be reached, the lock expires.
    pub(crate) async fn release(&self, lock: RefreshLock) {
        let mut call = self.scripts.unlock.key(lock.name);
        call.arg(lock.holder);
        let _ = self.link.script::<i64>(&call).await;
    }
}
