//! Issues tickets and redeems them, on any replica.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    browser_binding::BindHash,
    cookie::{NewId, NoRandomness, RecordKey},
    redis::Redis,
    replication::Replication,
    stored::StoredVirtualHost,
    ticket::{Ticket, TicketCache, TicketError},
};
use crate::model::{
    app::AppId,
    clock::{Clock, Moment, millis},
    vhost::VirtualHost,
};

/// The tickets that were issued and not redeemed yet.
#[derive(Debug)]
pub struct Tickets {
    local: TicketCache,
    replication: Arc<Replication>,
    redis: Option<Arc<Redis>>,
    clock: Clock,
}

/// A ticket as Redis stores it.
#[derive(Debug, Serialize, Deserialize)]
struct StoredTicket {
    #[serde(rename = "place")]
    vhost: StoredVirtualHost,
    app: String,
    bind: String,
    sign_in: [u8; 32],
    /// In milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own_idle: Option<u64>,
    target: String,
}

impl Tickets {
    pub(super) fn new(
        replication: Arc<Replication>,
        redis: Option<Arc<Redis>>,
        clock: Clock,
    ) -> Tickets {
        Tickets {
            local: TicketCache::new(),
            replication,
            redis,
            clock,
        }
    }

    /// Issues a ticket that any replica can redeem. During an outage of Redis only this one can.
    /// Returns the id for the browser.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub async fn issue(&self, ticket: Ticket) -> Result<NewId, NoRandomness> {
        if let Some(redis) = &self.redis {
            let id = NewId::random()?;
            let stored = StoredTicket {
                vhost: StoredVirtualHost::from_vhost(&ticket.vhost),
                app: ticket.app.to_string(),
                bind: ticket.bind.as_str().to_owned(),
                sign_in: ticket.sign_in.key().0,
                own_idle: ticket.own_idle.map(millis),
                target: ticket.target.clone(),
            };
            if redis.single_use.put_ticket(id.key(), &stored).await.is_ok() {
                return Ok(id);
            }
        }
        self.local.issue(ticket)
    }

    /// Removes a ticket and validates it.
    ///
    /// # Errors
    /// See [`TicketError`]; the ticket is removed in any case.
    pub async fn redeem<'c>(
        &self,
        presented: &str,
        vhost: &VirtualHost,
        bind_cookies: impl Iterator<Item = &'c [u8]>,
    ) -> Result<Ticket, TicketError> {
        let key = RecordKey::parse(presented.as_bytes()).ok_or(TicketError::Unknown)?;
        let now = self.clock.now();
        match self.redeem_stored(key, now).await {
            Some(ticket) => ticket?.validate(vhost, bind_cookies, now),
            None => self.local.redeem(presented, vhost, bind_cookies, now),
        }
    }

    /// The ticket from Redis; `None` when Redis has none that can be read.
    async fn redeem_stored(
        &self,
        key: RecordKey,
        now: Moment,
    ) -> Option<Result<Ticket, TicketError>> {
        let redis = self.redis.as_ref()?;
        let stored: StoredTicket = redis.single_use.redeem_ticket(key).await.ok()??;
        let sign_in = self
            .replication
            .load_sign_in(RecordKey(stored.sign_in))
            .await
            .ok()
            .flatten();
        let vhost = stored.vhost.to_vhost()?;
        let app = AppId::from_record(&stored.app)?;
        let bind = BindHash::parse(&stored.bind)?;
        Some(sign_in.ok_or(TicketError::SignedOut).map(|sign_in| Ticket {
            vhost,
            app,
            bind,
            sign_in,
            own_idle: stored.own_idle.map(Duration::from_millis),
            target: stored.target,
            issued_at: now,
        }))
    }

    pub(super) fn sweep(&self) {
        self.local.sweep(self.clock.now());
    }
}
