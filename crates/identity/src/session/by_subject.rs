//! The sign-ins of each person and of each session of the provider: to list them, to bound their
//! number, and to revoke them by these names.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::record::SignIn;
use crate::model::clock::Moment;

/// Live sign-ins of one person. The oldest is revoked for a new one, so that sign-in never fails
/// because of this limit.
const MAX_PER_SUBJECT: usize = 50;

type SignIns = VecDeque<Weak<SignIn>>;

/// Finds sign-ins by person and by provider session. Locked at a sign-in and by the sweep, never
/// for a request.
#[derive(Debug, Default)]
pub(super) struct BySubject(Mutex<SubjectMaps>);

#[derive(Debug, Default)]
struct SubjectMaps {
    /// Oldest first.
    subjects: HashMap<Box<str>, SignIns>,
    provider_sessions: HashMap<Box<str>, SignIns>,
}

impl BySubject {
    /// Adds a sign-in. Returns the person's oldest one if there are too many; the caller revokes
    /// it.
    pub(super) fn insert(&self, sign_in: &Arc<SignIn>, now: Moment) -> Option<Arc<SignIn>> {
        let mut maps = self.lock();
        if let Some(session) = &sign_in.tokens.session_id {
            maps.provider_sessions
                .entry(session.clone())
                .or_default()
                .push_back(Arc::downgrade(sign_in));
        }
        let subject = sign_in.principal().subject.clone();
        let sign_ins = maps.subjects.entry(subject).or_default();
        sign_ins.retain(|other| is_live(other, now));
        sign_ins.push_back(Arc::downgrade(sign_in));
        if sign_ins.len() > MAX_PER_SUBJECT {
            sign_ins.pop_front().and_then(|oldest| oldest.upgrade())
        } else {
            None
        }
    }

    /// The sign-ins of a person, oldest first; some may be expired or revoked.
    pub(super) fn of_subject(&self, subject: &str) -> Vec<Arc<SignIn>> {
        upgraded(self.lock().subjects.get(subject))
    }

    /// The sign-ins of a session of the provider; some may be expired or revoked.
    pub(super) fn of_provider_session(&self, session: &str) -> Vec<Arc<SignIn>> {
        upgraded(self.lock().provider_sessions.get(session))
    }

    /// Removes sign-ins that are expired or revoked.
    pub(super) fn sweep(&self, now: Moment) {
        let mut maps = self.lock();
        let keep = |sign_ins: &mut SignIns| {
            sign_ins.retain(|sign_in| is_live(sign_in, now));
            !sign_ins.is_empty()
        };
        maps.subjects.retain(|_, sign_ins| keep(sign_ins));
        maps.provider_sessions.retain(|_, sign_ins| keep(sign_ins));
    }

    fn lock(&self) -> MutexGuard<'_, SubjectMaps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_live(sign_in: &Weak<SignIn>, now: Moment) -> bool {
    sign_in
        .upgrade()
        .is_some_and(|sign_in| sign_in.is_live(now))
}

fn upgraded(sign_ins: Option<&SignIns>) -> Vec<Arc<SignIn>> {
    sign_ins
        .into_iter()
        .flatten()
        .filter_map(Weak::upgrade)
        .collect()
}
