//! Which keys are published, and which one signs, while files of keys change. Pure.
//!
//! A new key is published before it signs, since other replicas and the caches of apps learn of it
//! later. A removed key stays published until the last token of all replicas has expired.

use std::{sync::Arc, time::Duration};

use super::{claims::LIFETIME, key::AssertionKey};
use crate::model::clock::Moment;

/// A key that appears while the process runs signs after this time. Kubernetes writes a changed
/// Secret into all pods within two minutes.
pub(super) const LEAD: Duration = Duration::from_secs(300);
/// A removed key is published for this time: it may sign for `LEAD`, here or in another replica,
/// which may read the files later, and its last token then lives on.
pub(super) const RETENTION: Duration = Duration::from_secs(2 * LEAD.as_secs() + LIFETIME.as_secs());

/// The published keys: those of the files in their order, then removed ones.
#[derive(Clone, Debug, Default)]
pub(super) struct PublishedKeys(Vec<PublishedKey>);

#[derive(Clone, Debug)]
struct PublishedKey {
    key: Arc<AssertionKey>,
    signs_from: Moment,
    /// `None`: it is in the files.
    published_until: Option<Moment>,
}

impl PublishedKeys {
    /// The keys at start. The first signs at once, since no other may be left in this process.
    pub(super) fn at_start(keys: Vec<Arc<AssertionKey>>) -> PublishedKeys {
        PublishedKeys::default().followed_by(keys, Moment(0), Duration::ZERO)
    }

    /// The keys after the files changed.
    pub(super) fn changed_to(&self, keys: Vec<Arc<AssertionKey>>, now: Moment) -> PublishedKeys {
        self.followed_by(keys, now, LEAD)
    }

    fn followed_by(
        &self,
        keys: Vec<Arc<AssertionKey>>,
        now: Moment,
        lead: Duration,
    ) -> PublishedKeys {
        let mut next: Vec<PublishedKey> = Vec::new();
        for key in keys {
            if next.iter().any(|other| other.key.id() == key.id()) {
                continue;
            }
            let known = self.0.iter().find(|known| known.key.id() == key.id());
            next.push(PublishedKey {
                signs_from: known.map_or(now.after(lead), |known| known.signs_from),
                published_until: None,
                key,
            });
        }
        let removed = self.0.iter().filter(|known| {
            let is_listed = |key: &PublishedKey| key.key.id() == known.key.id();
            !next.iter().any(is_listed)
        });
        let removed: Vec<PublishedKey> = removed
            .map(|known| PublishedKey {
                published_until: known.published_until.or_else(|| Some(now.after(RETENTION))),
                ..known.clone()
            })
            .collect();
        next.extend(removed);
        PublishedKeys(next)
    }

    /// The keys without those whose last token has expired; `None`: there are no such keys.
    pub(super) fn without_expired(&self, now: Moment) -> Option<PublishedKeys> {
        let is_published = |key: &&PublishedKey| key.published_until.is_none_or(|end| end > now);
        let kept: Vec<PublishedKey> = self.0.iter().filter(is_published).cloned().collect();
        (kept.len() < self.0.len()).then_some(PublishedKeys(kept))
    }

    /// The key that signs now: the first that was published for long enough.
    pub(super) fn signing(&self, now: Moment) -> Option<&AssertionKey> {
        let ready = self.0.iter().find(|key| key.signs_from <= now);
        ready.or_else(|| self.0.first()).map(|key| &*key.key)
    }

    /// All keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &AssertionKey> {
        self.0.iter().map(|key| &*key.key)
    }
}
