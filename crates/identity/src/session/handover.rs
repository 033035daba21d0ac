//! Tickets: how a person who signed in on the site gets a session on another of our origins
//! (behaviour row 8).
//!
//! A ticket is good once, for thirty seconds, on one origin and in one browser. What it stands for
//! is kept here; the browser carries a random id, and the server keeps that id's SHA-256 only.

use std::{sync::Arc, time::Duration};

use moka::{policy::EvictionPolicy, sync::Cache};

use super::{
    bind::BindHash,
    cookie::{NewId, NoRandomness, RecordKey},
    key_is_hash::KeyIsHash,
    record::SignIn,
};
use crate::model::{app::AppId, clock::Moment, vhost::VirtualHost};

/// A ticket is of use for this long.
const GOOD_FOR: Duration = Duration::from_secs(30);
/// Memory for tickets, in bytes; each is of use for thirty seconds.
const MAX_BYTES: u64 = 32 << 20;
/// What a ticket holds beside its target, in bytes.
const WITHOUT_TARGET: usize = 256;

/// What a ticket stands for.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// The origin that may take it.
    pub vhost: VirtualHost,
    /// The app that the person may reach there.
    pub app: AppId,
    /// Hash of the bind cookie of the browser that asked.
    pub bind: BindHash,
    /// Who it is.
    pub sign_in: Arc<SignIn>,
    /// Where the browser wanted to go: path and query at the place.
    pub target: String,
    /// When it was given out.
    pub made: Moment,
}

impl Ticket {
    /// Whether it is good here, now, and in this browser.
    ///
    /// # Errors
    /// Why not.
    pub fn check<'c>(
        self,
        vhost: &VirtualHost,
        mut bind_cookies: impl Iterator<Item = &'c [u8]>,
        now: Moment,
    ) -> Result<Ticket, TicketError> {
        if now >= self.made.after(GOOD_FOR) {
            return Err(TicketError::Late);
        }
        if self.vhost != *vhost {
            return Err(TicketError::OtherPlace);
        }
        if !bind_cookies.any(|cookie| self.bind.matches(cookie)) {
            return Err(TicketError::OtherBrowser);
        }
        if self.sign_in.is_live(now) {
            Ok(self)
        } else {
            Err(TicketError::SignedOut)
        }
    }
}

/// Why a ticket was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Never given out, taken already, or forgotten.
    #[error("this link was used already")]
    Unknown,
    /// Older than thirty seconds.
    #[error("this link is too old")]
    Late,
    /// For another of our origins.
    #[error("this link is for another address")]
    OtherPlace,
    /// Another browser asked for it.
    #[error("this link was made for another browser")]
    OtherBrowser,
    /// The person has signed out since.
    #[error("the sign-in is over")]
    SignedOut,
}

/// The tickets that were given out and not taken yet.
#[derive(Debug)]
pub struct Tickets(Cache<RecordKey, Ticket, KeyIsHash>);

impl Tickets {
    /// None yet.
    pub fn new() -> Tickets {
        let tickets = Cache::builder()
            .max_capacity(MAX_BYTES)
            .weigher(|_, ticket: &Ticket| {
                u32::try_from(WITHOUT_TARGET + ticket.target.len()).unwrap_or(u32::MAX)
            })
            .eviction_policy(EvictionPolicy::lru());
        Tickets(tickets.build_with_hasher(KeyIsHash))
    }

    /// Gives out a ticket; its id is for the browser.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn give(&self, ticket: Ticket) -> Result<NewId, NoRandomness> {
        let id = NewId::random()?;
        self.0.insert(id.key(), ticket);
        Ok(id)
    }

    /// Takes a ticket: whatever comes of it, it is gone.
    ///
    /// # Errors
    /// Why it is not good here and now.
    pub fn take<'c>(
        &self,
        presented: &str,
        vhost: &VirtualHost,
        bind_cookies: impl Iterator<Item = &'c [u8]>,
        now: Moment,
    ) -> Result<Ticket, TicketError> {
        let key = RecordKey::parse(presented.as_bytes()).ok_or(TicketError::Unknown)?;
        // One removal gives it to one of two who ask at the same moment.
        self.0
            .remove(&key)
            .ok_or(TicketError::Unknown)?
            .check(vhost, bind_cookies, now)
    }

    /// Forgets those that are too old.
    pub fn sweep(&self, now: Moment) {
        for (key, ticket) in &self.0 {
            if now >= ticket.made.after(GOOD_FOR) {
                self.0.invalidate(&*key);
            }
        }
    }
}

impl Default for Tickets {
    fn default() -> Self {
        Tickets::new()
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
        session::{SessionSettings, record::ProviderTokens},
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
        let sign_in = SignIn::begin(
            key,
            person,
            ProviderTokens::default(),
            NOW,
            &SessionSettings::default(),
        );
        Ticket {
            vhost: host("web"),
            app: AppId::new("web").expect("an id"),
            bind: BindHash::from_cookie(b"mine"),
            sign_in: Arc::new(sign_in),
            target: "/".into(),
            made: NOW,
        }
    }

    fn take(
        tickets: &Tickets,
        id: &NewId,
        vhost: &VirtualHost,
        bind: &[u8],
        now: Moment,
    ) -> Option<TicketError> {
        tickets
            .take(id.as_str(), vhost, [bind].into_iter(), now)
            .err()
    }

    #[test]
    fn a_ticket_is_good_once() {
        let tickets = Tickets::new();
        let id = tickets.give(ticket()).expect("given");
        assert_eq!(take(&tickets, &id, &host("web"), b"mine", NOW), None);
        assert_eq!(
            take(&tickets, &id, &host("web"), b"mine", NOW),
            Some(TicketError::Unknown)
        );
        assert_eq!(
            tickets
                .take("x", &host("web"), [&b"mine"[..]].into_iter(), NOW)
                .err(),
            Some(TicketError::Unknown)
        );
    }

    #[test]
    fn a_ticket_is_good_for_thirty_seconds_on_its_origin_in_its_browser_while_the_person_is_signed_in()
     {
        let tickets = Tickets::new();
        let second = Duration::from_secs(1);
        for (vhost, bind, now, expected) in [
            ("web", &b"mine"[..], NOW.after(29 * second), None),
            (
                "web",
                b"mine",
                NOW.after(30 * second),
                Some(TicketError::Late),
            ),
            ("other", b"mine", NOW, Some(TicketError::OtherPlace)),
            ("web", b"theirs", NOW, Some(TicketError::OtherBrowser)),
        ] {
            let id = tickets.give(ticket()).expect("given");
            assert_eq!(take(&tickets, &id, &host(vhost), bind, now), expected);
            assert_eq!(
                take(&tickets, &id, &host("web"), b"mine", NOW),
                Some(TicketError::Unknown),
                "it is gone"
            );
        }
        let over = ticket();
        over.sign_in.end();
        let id = tickets.give(over).expect("given");
        assert_eq!(
            take(&tickets, &id, &host("web"), b"mine", NOW),
            Some(TicketError::SignedOut)
        );
    }
}
