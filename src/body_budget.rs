//! Bodies that are collected before the request is authorized: saved forms, sign-outs, logout
//! tokens. Clients may send them slowly, so the bytes held at once are limited, for each person or
//! client and in total. People with a known session have a limit of their own, which anonymous
//! clients cannot use up.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::{decide::Reason, forward::body::Source, model::concurrency_limit::Holder};

/// Limit for all people with a known session, in bytes.
const KNOWN: usize = 16 << 20;
/// Limit for all other clients, in bytes.
const ANONYMOUS: usize = 4 << 20;
/// Limit for one person or client, in bytes: four of the largest forms.
const EACH: usize = 1 << 20;
/// Bodies of one person or client at once, of any size: a waiting request takes some memory too.
const EACH_AT_ONCE: usize = 16;
/// A body must be complete within this time.
const DEADLINE: Duration = Duration::from_secs(10);

/// Counts the bytes and bodies that are held.
#[derive(Clone, Debug, Default)]
pub struct BodyBudget(Arc<Mutex<Spent>>);

#[derive(Debug, Default)]
struct Spent {
    known: usize,
    anonymous: usize,
    each: HashMap<Key, Own>,
}

/// The bytes and bodies of one holder.
#[derive(Debug, Default)]
struct Own {
    bytes: usize,
    bodies: usize,
}

/// Reserved bytes of one body; dropping it releases them.
#[derive(Debug)]
pub struct Reserved {
    budget: BodyBudget,
    holder: Key,
    bytes: usize,
}

/// A body that was collected.
#[derive(Debug)]
pub struct Collected {
    /// The whole body.
    pub bytes: Bytes,
    /// Must be kept for as long as the bytes.
    pub reserved: Reserved,
}

/// Why a body was not collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCollected {
    /// It is too large, too slow, or broken.
    Unfit,
    /// The limit of this holder, or of all, is reached.
    Full,
}

impl From<NotCollected> for Reason {
    fn from(error: NotCollected) -> Reason {
        match error {
            NotCollected::Unfit => Reason::BadForm,
            NotCollected::Full => Reason::Busy,
        }
    }
}

/// The holder that the bytes count for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Person(Box<str>),
    Client(IpAddr),
    /// Clients that a proxy does not name: only the limit for all applies.
    Unknown,
}

impl BodyBudget {
    /// Collects a body of at most so many bytes, within ten seconds.
    ///
    /// # Errors
    /// See [`NotCollected`]; nothing is held then.
    pub async fn collect(
        &self,
        holder: Holder<'_>,
        body: Source,
        most: usize,
    ) -> Result<Collected, NotCollected> {
        let reserved = self.reserve(holder).ok_or(NotCollected::Full)?;
        let reading = self.read(reserved, body, most);
        tokio::time::timeout(DEADLINE, reading)
            .await
            .unwrap_or(Err(NotCollected::Unfit))
    }

    async fn read(
        &self,
        mut reserved: Reserved,
        mut body: Source,
        most: usize,
    ) -> Result<Collected, NotCollected> {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| NotCollected::Unfit)?.into_data() else {
                continue;
            };
            if bytes.len() + data.len() > most {
                return Err(NotCollected::Unfit);
            }
            if !reserved.grow(data.len()) {
                return Err(NotCollected::Full);
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Collected {
            bytes: bytes.freeze(),
            reserved,
        })
    }

    /// Reserves one more body, without bytes yet; `None` if the limit of bodies is reached.
    fn reserve(&self, holder: Holder<'_>) -> Option<Reserved> {
        let holder = match holder {
            Holder::Person(subject) => Key::Person(subject.into()),
            Holder::Client(address) => Key::Client(address),
            Holder::Unknown => Key::Unknown,
        };
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = spent.each.entry(holder.clone()).or_default();
        if holder != Key::Unknown && own.bodies >= EACH_AT_ONCE {
            return None;
        }
        own.bodies += 1;
        drop(spent);
        Some(Reserved {
            budget: self.clone(),
            holder,
            bytes: 0,
        })
    }
}

impl Spent {
    /// The bytes of all holders of this kind, and their limit.
    fn shared(&mut self, holder: &Key) -> (&mut usize, usize) {
        match holder {
            Key::Person(_) => (&mut self.known, KNOWN),
            Key::Client(_) | Key::Unknown => (&mut self.anonymous, ANONYMOUS),
        }
    }
}

impl Reserved {
    /// Reserves more bytes; `false` if a limit is reached.
    fn grow(&mut self, bytes: usize) -> bool {
        let mut spent = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = spent.each.get(&self.holder).map_or(0, |own| own.bytes);
        let (shared, limit) = spent.shared(&self.holder);
        if *shared + bytes > limit || (self.holder != Key::Unknown && own + bytes > EACH) {
            return false;
        }
        *shared += bytes;
        spent.each.entry(self.holder.clone()).or_default().bytes += bytes;
        self.bytes += bytes;
        true
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut spent = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
        *spent.shared(&self.holder).0 -= self.bytes;
        if let Some(own) = spent.each.get_mut(&self.holder) {
            own.bytes -= self.bytes;
            own.bodies -= 1;
            if own.bodies == 0 {
                spent.each.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Either, Full};

    use super::*;

    const MOST: usize = 256 << 10;

    #[test]
    fn one_client_has_its_part_and_all_together_have_an_end() {
        let budget = BodyBudget::default();
        let client = |last: u8| Holder::Client(IpAddr::from([192, 0, 2, last]));
        let take = |holder| {
            let mut reserved = budget.reserve(holder)?;
            reserved.grow(MOST).then_some(reserved)
        };
        let first: Vec<_> = std::iter::from_fn(|| take(client(1))).collect();
        assert_eq!(first.len(), EACH / MOST);
        let others: Vec<_> = (2..100)
            .flat_map(|n| [n; 4])
            .filter_map(|n| take(client(n)))
            .collect();
        assert_eq!(first.len() + others.len(), ANONYMOUS / MOST);
        assert!(take(Holder::Unknown).is_none());
        let known: Vec<_> = std::iter::from_fn(|| take(Holder::Person("alice"))).collect();
        assert_eq!(
            known.len(),
            EACH / MOST,
            "people who are known are not affected"
        );
        drop(first);
        let many: Vec<_> = std::iter::from_fn(|| take(Holder::Unknown)).collect();
        assert_eq!(many.len(), EACH / MOST, "what was given back");
        drop((others, many, known));
        let small: Vec<_> = std::iter::from_fn(|| budget.reserve(client(1))).collect();
        assert_eq!(small.len(), EACH_AT_ONCE);
        drop(small);
        let spent = budget.0.lock().expect("no panic");
        assert!(spent.each.is_empty() && spent.known == 0 && spent.anonymous == 0);
    }

    #[tokio::test]
    async fn a_body_is_collected_when_it_fits() {
        let budget = BodyBudget::default();
        let body = |length: usize| Either::Right(Full::new(Bytes::from(vec![b'x'; length])));
        let held = budget
            .collect(Holder::Person("alice"), body(100), 100)
            .await
            .expect("it fits");
        assert_eq!(
            (held.bytes.len(), budget.0.lock().expect("no panic").known),
            (100, 100)
        );
        let too_large = budget
            .collect(Holder::Person("alice"), body(101), 100)
            .await;
        assert_eq!(too_large.err(), Some(NotCollected::Unfit));
        let full = budget
            .collect(Holder::Unknown, body(ANONYMOUS + 1), usize::MAX)
            .await;
        assert_eq!(full.err(), Some(NotCollected::Full));
        drop(held);
        assert_eq!(budget.0.lock().expect("no panic").known, 0);
    }
}
