//! Whose sessions ended by themselves: for one more window it is remembered whose they were, so
//! that what somebody typed into a page that stayed open too long can be given back to them, and to
//! nobody else.

use std::sync::Arc;

use moka::{policy::EvictionPolicy, sync::Cache};

use super::Sessions;
use crate::{
    model::clock::{Moment, millis},
    session::{
        cookie::RecordKey,
        record::{SignIn, window::Deadlines},
    },
};

/// Sessions that are remembered so.
const MOST: u64 = 100_000;

/// By the key of the record: whose it was, and until when that is remembered.
#[derive(Debug)]
pub(super) struct RecentlyExpired(Cache<RecordKey, (Arc<str>, Moment)>);

impl Default for RecentlyExpired {
    fn default() -> Self {
        RecentlyExpired(
            Cache::builder()
                .max_capacity(MOST)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
        )
    }
}

impl Sessions {
    /// Remembers whose it was, unless somebody ended it.
    pub(super) fn lapse(
        &self,
        key: RecordKey,
        sign_in: &SignIn,
        window: &Deadlines,
        is_ended: bool,
    ) {
        let until = self.until(window);
        if !is_ended && self.now() < until {
            self.lapsed
                .0
                .insert(key, (Arc::from(&*sign_in.principal().subject), until));
        }
    }

    fn until(&self, window: &Deadlines) -> Moment {
        Moment(window.shuts().saturating_add(millis(self.idle())))
    }

    /// Whose is the first of these cookies that names a session which counts, or which ended by
    /// itself less than a window ago.
    pub fn whose<'c>(&self, mut cookies: impl Iterator<Item = &'c [u8]>) -> Option<Arc<str>> {
        cookies.find_map(|cookie| self.lapsed(std::iter::once(cookie)))
    }

    /// Whose session one of these cookies named, if it ended by itself less than a window ago.
    pub fn lapsed<'c>(&self, cookies: impl Iterator<Item = &'c [u8]>) -> Option<Arc<str>> {
        let now = self.now();
        let mut known = cookies.filter_map(RecordKey::parse).filter_map(|key| {
            if let Some(sign_in) = self.sign_ins.get(&key) {
                let counts = !sign_in.is_ended() && now < self.until(sign_in.window());
                return counts.then(|| Arc::from(&*sign_in.principal().subject));
            }
            if let Some(session) = self.apps.get(&key) {
                let counts = !session.is_ended() && now < self.until(session.window());
                return counts.then(|| Arc::from(&*session.sign_in().principal().subject));
            }
            self.lapsed
                .0
                .get(&key)
                .filter(|(_, until)| now < *until)
                .map(|(subject, _)| subject)
        });
        let first = known.next()?;
        // Two people are nobody.
        known.all(|other| other == first).then_some(first)
    }
}
