//! A ticket: how a person who signed in on the site gets a session on another of our origins
//! (docs/behaviour.md#tickets).
//!
//! A ticket works once, within thirty seconds, on one origin and in one browser. The browser
//! carries a random id, and the server stores only the SHA-256 of the id.

use std::{sync::Arc, time::Duration};

use moka::{policy::EvictionPolicy, sync::Cache};

use super::{
    browser_binding::BindHash,
    cookie::{NewId, NoRandomness, RecordKey},
    passthrough_hasher::KeyIsHash,
    record::SignIn,
};
use crate::model::{app::AppId, clock::Moment, vhost::VirtualHost};

/// How long a ticket is valid.
const LIFETIME: Duration = Duration::from_secs(30);
/// Memory for tickets, in bytes.
const MAX_BYTES: u64 = 32 << 20;
/// The size of a ticket without its target, in bytes.
const SIZE_WITHOUT_TARGET: usize = 256;

/// The right to a session of one person on one origin.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// The origin that may redeem it.
    pub vhost: VirtualHost,
    /// The app that the person may open there.
    pub app: AppId,
    /// Hash of the bind cookie of the browser that may redeem it.
    pub bind: BindHash,
    /// The person's sign-in.
    pub sign_in: Arc<SignIn>,
    /// The idle time of the app, for its session.
    pub own_idle: Option<Duration>,
    /// The path and query at the origin that the browser requested.
    pub target: String,
    /// When it was issued.
    pub issued_at: Moment,
}

impl Ticket {
    /// Checks the origin, the browser and the age.
    ///
    /// # Errors
    /// See [`TicketError`].
    pub(super) fn validate<'c>(
        self,
        vhost: &VirtualHost,
        mut bind_cookies: impl Iterator<Item = &'c [u8]>,
        now: Moment,
    ) -> Result<Ticket, TicketError> {
        if now >= self.issued_at.after(LIFETIME) {
            return Err(TicketError::Expired);
        }
        if self.vhost != *vhost {
            return Err(TicketError::WrongOrigin);
        }
        if !bind_cookies.any(|cookie| self.bind.matches(cookie)) {
            return Err(TicketError::WrongBrowser);
        }
        if self.sign_in.is_live(now) {
            Ok(self)
        } else {
            Err(TicketError::SignedOut)
        }
    }
}

/// Why a ticket was not redeemed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Never issued, redeemed before, or evicted.
    #[error("this link was used already")]
    Unknown,
    /// Older than thirty seconds.
    #[error("this link is too old")]
    Expired,
    /// Issued for another of our origins.
    #[error("this link is for another address")]
    WrongOrigin,
    /// Issued for another browser.
    #[error("this link was made for another browser")]
    WrongBrowser,
    /// The person has signed out meanwhile.
    #[error("the sign-in is over")]
    SignedOut,
}

/// The tickets of this process that were not redeemed yet.
#[derive(Debug)]
pub(super) struct TicketCache(Cache<RecordKey, Ticket, KeyIsHash>);

impl TicketCache {
    pub(super) fn new() -> TicketCache {
        let tickets = Cache::builder()
            .max_capacity(MAX_BYTES)
            .weigher(|_, ticket: &Ticket| {
                u32::try_from(SIZE_WITHOUT_TARGET + ticket.target.len()).unwrap_or(u32::MAX)
            })
            .eviction_policy(EvictionPolicy::lru());
        TicketCache(tickets.build_with_hasher(KeyIsHash))
    }

    /// Stores a ticket. Returns the id for the browser.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub(super) fn issue(&self, ticket: Ticket) -> Result<NewId, NoRandomness> {
        let id = NewId::random()?;
        self.0.insert(id.key(), ticket);
        Ok(id)
    }

    /// Removes a ticket and validates it.
    ///
    /// # Errors
    /// See [`TicketError`]; the ticket is removed in any case.
    pub(super) fn redeem<'c>(
        &self,
        presented: &str,
        vhost: &VirtualHost,
        bind_cookies: impl Iterator<Item = &'c [u8]>,
        now: Moment,
    ) -> Result<Ticket, TicketError> {
        let key = RecordKey::parse(presented.as_bytes()).ok_or(TicketError::Unknown)?;
        // The removal is atomic: of two requests at once, one gets the ticket.
        self.0
            .remove(&key)
            .ok_or(TicketError::Unknown)?
            .validate(vhost, bind_cookies, now)
    }

    /// Removes expired tickets.
    pub(super) fn sweep(&self, now: Moment) {
        for (key, ticket) in &self.0 {
            if now >= ticket.issued_at.after(LIFETIME) {
                self.0.invalidate(&*key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{
            principal::{PersonClaims, Principal},
            vhost::HostLabel,
        },
        session::{SessionSettings, provider_tokens::ProviderTokens},
    };

    const NOW: Moment = Moment(1_000_000);

    fn host(label: &str) -> VirtualHost {
        VirtualHost::Host(HostLabel::new(label.as_bytes()).expect("a label"))
    }

    fn ticket() -> Ticket {
        let person = Arc::new(Principal::new(
            PersonClaims {
                subject: "alice".into(),
                ..PersonClaims::default()
            },
            &[],
        ));
        let key = NewId::random().expect("random bytes").key();
        let sign_in = SignIn::new(
            key,
            person,
            ProviderTokens::default(),
            NOW,
            0,
            &SessionSettings::default(),
        );
        Ticket {
            vhost: host("web"),
            app: AppId::new("web").expect("an id"),
            bind: BindHash::from_cookie(b"mine"),
            sign_in: Arc::new(sign_in),
            own_idle: None,
            target: "/".into(),
            issued_at: NOW,
        }
    }

    fn redeem(
        tickets: &TicketCache,
        id: &NewId,
        vhost: &VirtualHost,
        bind: &[u8],
        now: Moment,
    ) -> Option<TicketError> {
        tickets
            .redeem(id.as_str(), vhost, [bind].into_iter(), now)
            .err()
    }

    #[test]
    fn a_ticket_is_good_once() {
        let tickets = TicketCache::new();
        let id = tickets.issue(ticket()).expect("given");
        assert_eq!(redeem(&tickets, &id, &host("web"), b"mine", NOW), None);
        assert_eq!(
            redeem(&tickets, &id, &host("web"), b"mine", NOW),
            Some(TicketError::Unknown)
        );
        assert_eq!(
            tickets
                .redeem("x", &host("web"), [&b"mine"[..]].into_iter(), NOW)
                .err(),
            Some(TicketError::Unknown)
        );
    }

    #[test]
    fn a_ticket_is_bound_to_time_origin_browser_and_sign_in() {
        let tickets = TicketCache::new();
        let second = Duration::from_secs(1);
        for (vhost, bind, now, expected) in [
            ("web", &b"mine"[..], NOW.after(29 * second), None),
            (
                "web",
                b"mine",
                NOW.after(30 * second),
                Some(TicketError::Expired),
            ),
            ("other", b"mine", NOW, Some(TicketError::WrongOrigin)),
            ("web", b"theirs", NOW, Some(TicketError::WrongBrowser)),
        ] {
            let id = tickets.issue(ticket()).expect("given");
            assert_eq!(redeem(&tickets, &id, &host(vhost), bind, now), expected);
            assert_eq!(
                redeem(&tickets, &id, &host("web"), b"mine", NOW),
                Some(TicketError::Unknown),
                "it is gone"
            );
        }
        let over = ticket();
        over.sign_in.revoke();
        let id = tickets.issue(over).expect("given");
        assert_eq!(
            redeem(&tickets, &id, &host("web"), b"mine", NOW),
            Some(TicketError::SignedOut)
        );
    }
}
