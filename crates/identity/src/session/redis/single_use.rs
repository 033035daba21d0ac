//! Values that work once on all replicas together: tickets and used tokens.

use std::sync::Arc;

use redis::cmd;
use serde::{Serialize, de::DeserializeOwned};

use super::{names, sealer::Sealer};
use crate::{
    ops::redis::{Link, StoreError},
    session::cookie::RecordKey,
};

/// A ticket expires after this long, in milliseconds.
const TICKET_TTL: u64 = 30_000;

/// Tickets and used tokens in Redis.
pub(crate) struct SingleUse {
    link: Arc<Link>,
    sealer: Arc<Sealer>,
}

impl SingleUse {
    pub(super) fn new(link: Arc<Link>, sealer: Arc<Sealer>) -> SingleUse {
        SingleUse { link, sealer }
    }

    /// Stores a ticket.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) async fn put_ticket(
        &self,
        key: RecordKey,
        ticket: &impl Serialize,
    ) -> Result<(), StoreError> {
        let sealed = self.sealer.seal(&(key.0, ticket))?;
        let mut set = cmd("SET");
        set.arg(names::ticket(key)).arg(sealed);
        set.arg("PX").arg(TICKET_TTL);
        self.link.command(&set).await
    }

    /// Removes and returns a ticket.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) async fn redeem_ticket<T: DeserializeOwned>(
        &self,
        key: RecordKey,
    ) -> Result<Option<T>, StoreError> {
        let found = self
            .link
            .command(cmd("GETDEL").arg(names::ticket(key)))
            .await;
        let sealed: Option<String> = match found {
            Err(StoreError::WrongType) => None,
            found => found?,
        };
        let ticket: Option<([u8; 32], T)> = sealed.and_then(|sealed| self.sealer.open(&sealed));
        Ok(ticket
            .filter(|(sealed_key, _)| *sealed_key == key.0)
            .map(|(_, ticket)| ticket))
    }

    /// Marks a token as used for `ttl` milliseconds. Returns whether this was its first use on any
    /// replica.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) async fn use_token(&self, token: &str, ttl: u64) -> Result<bool, StoreError> {
        let mut set = cmd("SET");
        set.arg(names::used_token(token)).arg(1).arg("NX");
        set.arg("PX").arg(ttl);
        let first: Option<String> = self.link.command(&set).await?;
        Ok(first.is_some())
    }

    /// Allows a token to be used again.
    pub(crate) async fn forget_token(&self, token: &str) {
        let name = names::used_token(token);
        let _ = self.link.command::<i64>(cmd("DEL").arg(name)).await;
    }
}
