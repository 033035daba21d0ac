//! Whose sign-ins there are: to list them, to bound them, and to end those that somebody names by
//! person or by the provider's session.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, PoisonError, Weak},
};

use super::Sessions;
use crate::{
    model::{app::AppId, clock::Moment},
    session::record::SignIn,
};

/// Sign-ins one person may have at once; one more ends the oldest, so that nobody can push others
/// out.
const PER_PERSON: usize = 50;

/// Whose sign-ins there are.
#[derive(Debug, Default)]
pub(super) struct BySubject {
    /// Oldest first.
    by_subject: HashMap<Box<str>, VecDeque<Weak<SignIn>>>,
    /// By the session that the provider has for them.
    by_session: HashMap<Box<str>, VecDeque<Weak<SignIn>>>,
}

impl Sessions {
    /// Notes whose sign-in it is; gives back the one that must go for it.
    pub(super) fn remember(&self, sign_in: &Arc<SignIn>) -> Option<Arc<SignIn>> {
        let now = self.clock.now();
        let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = &sign_in.tokens.session_id {
            people
                .by_session
                .entry(session.clone())
                .or_default()
                .push_back(Arc::downgrade(sign_in));
        }
        let mine = people
            .by_subject
            .entry(sign_in.principal().subject.clone())
            .or_default();
        mine.retain(|other| other.upgrade().is_some_and(|other| other.is_live(now)));
        mine.push_back(Arc::downgrade(sign_in));
        if mine.len() > PER_PERSON {
            mine.pop_front().and_then(|oldest| oldest.upgrade())
        } else {
            None
        }
    }

    /// Ends what a person's tokens of another system have begun, in whichever browser.
    pub fn end_for_tokens_of(&self, subject: &str) {
        let theirs: Vec<Arc<SignIn>> = {
            let people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
            people
                .by_subject
                .get(subject)
                .into_iter()
                .flatten()
                .filter_map(Weak::upgrade)
                .collect()
        };
        for sign_in in theirs
            .iter()
            .filter(|sign_in| sign_in.tokens.arvados.is_some())
        {
            self.end(sign_in);
        }
    }

    /// The live sign-ins of a person, oldest first.
    pub fn of(&self, subject: &str) -> Vec<Arc<SignIn>> {
        let now = self.clock.now();
        let people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = people
            .by_subject
            .get(subject)
            .into_iter()
            .flatten()
            .filter_map(Weak::upgrade);
        theirs.filter(|sign_in| sign_in.is_live(now)).collect()
    }

    /// Ends what the provider says is over: one session of its own, else all sign-ins of a person.
    /// Gives back how many.
    pub fn end_by_provider(&self, subject: Option<&str>, session: Option<&str>) -> usize {
        let theirs: Vec<Arc<SignIn>> = {
            let people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
            let found = match (session, subject) {
                (Some(session), _) => people.by_session.get(session),
                (None, Some(subject)) => people.by_subject.get(subject),
                (None, None) => None,
            };
            found
                .into_iter()
                .flatten()
                .filter_map(Weak::upgrade)
                .collect()
        };
        // The provider does not know sign-ins that began with another system's token. Where it
        // names a person and a session, both must fit. A sign-in that has ended is not ended again:
        // that would be told to the other replicas each time.
        let is_meant = |sign_in: &&Arc<SignIn>| {
            let is_of = subject.is_none_or(|subject| *sign_in.principal().subject == *subject);
            sign_in.tokens.id_token.is_some() && is_of && !sign_in.is_ended()
        };
        theirs
            .iter()
            .filter(is_meant)
            .inspect(|sign_in| self.end(sign_in))
            .count()
    }

    /// Ends what a person's tokens of the console have begun, in whichever browser; gives back the
    /// apps on paths whose sessions went with it.
    pub fn end_for_console_tokens_of(&self, subject: &str) -> Vec<AppId> {
        let theirs: Vec<Arc<SignIn>> = {
            let people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
            people
                .by_subject
                .get(subject)
                .into_iter()
                .flatten()
                .filter_map(Weak::upgrade)
                .collect()
        };
        let by_console = theirs
            .iter()
            .filter(|sign_in| sign_in.tokens.console.is_some());
        by_console
            .inspect(|sign_in| self.end(sign_in))
            .flat_map(|sign_in| sign_in.apps())
            .collect()
    }

    /// Forgets who has none any more.
    pub(super) fn sweep_people(&self, now: Moment) {
        let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        let stays = |sign_ins: &mut VecDeque<Weak<SignIn>>| {
            sign_ins.retain(|sign_in| {
                sign_in
                    .upgrade()
                    .is_some_and(|sign_in| sign_in.is_live(now))
            });
            !sign_ins.is_empty()
        };
        people.by_subject.retain(|_, sign_ins| stays(sign_ins));
        people.by_session.retain(|_, sign_ins| stays(sign_ins));
    }
}
