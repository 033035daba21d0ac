//! The uses of all apps, merged over the gateways. Pure: the time comes from the caller.
//!
//! A gateway forgets its uses when its process ends. Uses that no poll has fetched by then are
//! lost, and so the time for which all uses are known begins again. A gateway at a new address
//! loses nothing: there was no process before it. Uses between the last answer of a process and
//! its regular end are not counted as lost: polls are a second apart.

use std::{
    collections::{BTreeSet, HashMap},
    net::SocketAddr,
    time::Duration,
};

use ludgate_model::clock::{Moment, millis};

use super::{decision::AppUse, report::GatewayReport};

/// The first poll of a gateway asks for the uses of this time.
const FIRST_WITHIN: Duration = Duration::from_secs(7 * 24 * 3600);
/// A poll asks for more than the time since the last answer: answers may take some seconds.
const OVERLAP: Duration = Duration::from_secs(5);
/// An older answer says nothing about now, also if the polls stopped. Longer than the longest round
/// of polls, and otherwise short: a use since the answer is not known.
const FRESH: Duration = Duration::from_secs(5);
/// An app is dropped when its last use is older. No observation counts as longer, so an app whose
/// use was dropped does not look idle before.
const RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);

/// What was fetched from the gateways.
#[derive(Debug)]
pub(super) struct ActivityTable {
    gateways: HashMap<SocketAddr, GatewayState>,
    /// Whether the addresses of all gateways are known.
    is_resolved: bool,
    /// Whether all gateways have answered at one time.
    was_complete: bool,
    /// All uses since then are known, if all gateways answer.
    complete_since: Moment,
    last_uses: HashMap<String, Moment>,
    /// Idle apps: a use after this time wakes them.
    watched: HashMap<String, Moment>,
}

#[derive(Debug)]
struct GatewayState {
    /// When it was resolved for the first time; `None`: before all gateways had answered, so that
    /// an earlier process may have been there.
    appeared: Option<Moment>,
    /// When the last poll was sent that it answered.
    last_answer: Option<Moment>,
    /// Whether it answered the last poll.
    answers: bool,
}

/// An answer of a gateway, with its times.
#[derive(Debug)]
pub(super) struct Answer {
    /// When the poll was sent.
    pub(super) sent: Moment,
    /// When the answer was there.
    pub(super) received: Moment,
    /// The uses.
    pub(super) report: GatewayReport,
}

impl ActivityTable {
    /// Without gateways.
    pub(super) fn new() -> ActivityTable {
        ActivityTable {
            gateways: HashMap::new(),
            is_resolved: false,
            was_complete: false,
            complete_since: Moment(0),
            last_uses: HashMap::new(),
            watched: HashMap::new(),
        }
    }

    /// Sets the addresses of the gateways. `is_resolved`: every name could be resolved now.
    pub(super) fn set_gateways(
        &mut self,
        addresses: &BTreeSet<SocketAddr>,
        is_resolved: bool,
        now: Moment,
    ) {
        self.is_resolved = is_resolved;
        let mut is_lost = false;
        self.gateways.retain(|address, gateway| {
            let is_known = addresses.contains(address);
            is_lost |= !is_known && !gateway.answers;
            is_known
        });
        if is_lost {
            self.complete_since = self.complete_since.max(now);
        }
        let appeared = self.was_complete.then_some(now);
        for address in addresses {
            self.gateways.entry(*address).or_insert(GatewayState {
                appeared,
                last_answer: None,
                answers: false,
            });
        }
        self.last_uses
            .retain(|_, last_use| age(*last_use, now) <= RETENTION);
    }

    /// For which time a gateway is asked.
    pub(super) fn within(&self, address: SocketAddr, now: Moment) -> Duration {
        let gateway = self.gateways.get(&address);
        let since = gateway.and_then(|gateway| gateway.last_answer);
        since.map_or(FIRST_WITHIN, |since| {
            (age(since, now) + OVERLAP).min(FIRST_WITHIN)
        })
    }

    /// Records an answer. Returns the watched apps that were used; they are watched no more.
    pub(super) fn merge(&mut self, address: SocketAddr, answer: Answer) -> Vec<String> {
        let Some(gateway) = self.gateways.get_mut(&address) else {
            return Vec::new();
        };
        let observed = answer.report.observed.min(FIRST_WITHIN);
        // Ages were true at some time between; the later one never makes a use too old.
        let began = before(answer.received, observed);
        let known_until = gateway.last_answer.or(gateway.appeared);
        if known_until.is_none_or(|known| began > known) {
            self.complete_since = self.complete_since.max(began);
        }
        gateway.last_answer = Some(answer.sent);
        gateway.answers = true;
        self.was_complete |=
            self.is_resolved && self.gateways.values().all(|gateway| gateway.answers);
        let mut woken = Vec::new();
        for reported in answer.report.uses {
            let used = before(answer.received, reported.age);
            if self.watched.get(&reported.app).is_some_and(|at| used > *at) {
                self.watched.remove(&reported.app);
                woken.push(reported.app.clone());
            }
            let last_use = self.last_uses.entry(reported.app).or_insert(used);
            *last_use = used.max(*last_use);
        }
        woken
    }

    /// Records that a gateway did not answer.
    pub(super) fn poll_failed(&mut self, address: SocketAddr) {
        if let Some(gateway) = self.gateways.get_mut(&address) {
            gateway.answers = false;
        }
    }

    /// The use of an app.
    pub(super) fn use_of(&self, app: &str, now: Moment) -> AppUse {
        let is_complete = self.is_resolved
            && !self.gateways.is_empty()
            && self.gateways.values().all(|gateway| gateway.is_fresh(now));
        AppUse {
            last_use: self.last_uses.get(app).map(|at| age(*at, now)),
            observed: is_complete.then(|| age(self.complete_since, now).min(RETENTION)),
        }
    }

    /// Watches an app for a use after a moment.
    pub(super) fn watch(&mut self, app: &str, after: Moment) {
        self.watched.insert(app.to_owned(), after);
    }

    /// Stops watching an app.
    pub(super) fn unwatch(&mut self, app: &str) {
        self.watched.remove(app);
    }
}

impl GatewayState {
    fn is_fresh(&self, now: Moment) -> bool {
        self.answers && self.last_answer.is_some_and(|sent| age(sent, now) <= FRESH)
    }
}

fn age(moment: Moment, now: Moment) -> Duration {
    Duration::from_millis(now.0.saturating_sub(moment.0))
}

/// The moment that was this time ago.
pub(super) fn before(now: Moment, ago: Duration) -> Moment {
    Moment(now.0.saturating_sub(millis(ago)))
}

#[cfg(test)]
mod tests;
