//! The upstreams of an app that has several of them, or a health check, and the choice among them.
//!
//! A choice reads a few atomics of each upstream and takes no lock. An upstream to which no
//! connection could be opened is avoided for a while. Otherwise it would get most requests, since
//! it has none in progress.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{
    health_check::{CheckRecord, CheckStatus, HealthCheck},
    upstream::Upstream,
};

/// An upstream that accepted no connection is avoided for this long, while others are usable.
const AVOIDED: Duration = Duration::from_secs(10);
/// It is not avoided.
const NEVER: u64 = 0;

/// The upstreams of one app, at least one.
#[derive(Debug)]
pub struct UpstreamGroup {
    members: Box<[GroupMember]>,
    is_sticky: bool,
    check: Option<HealthCheck>,
    /// Where the next search for the least used upstream begins, so that equal ones take turns.
    turn: AtomicUsize,
}

/// One upstream of a group.
#[derive(Clone, Debug)]
pub struct GroupMember {
    /// Its address.
    pub upstream: Upstream,
    /// What the health checks found; `None`: there are none.
    pub check: Option<CheckRecord>,
    /// For the choice by visitor.
    hash: u64,
    load: Arc<MemberLoad>,
}

/// The use of one upstream.
#[derive(Debug)]
struct MemberLoad {
    /// Requests without the end of their response, and open WebSockets.
    in_progress: AtomicUsize,
    created: Instant,
    /// In milliseconds since `created`, or [`NEVER`].
    avoided_until: AtomicU64,
}

/// How usable an upstream is, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Usability {
    Usable,
    /// It accepted no connection within the last seconds.
    Avoided,
    /// It fails its health check. If all do, the check may be wrong, and all are tried.
    Failing,
    FailingAndAvoided,
}

/// A request at one upstream of a group, until it is dropped.
#[derive(Debug)]
pub struct InProgress {
    load: Arc<MemberLoad>,
    index: usize,
}

impl UpstreamGroup {
    /// The group of these upstreams; `None` for one without a health check.
    pub fn new(
        first: &Upstream,
        further: &[Upstream],
        is_sticky: bool,
        check: Option<&HealthCheck>,
    ) -> Option<Arc<UpstreamGroup>> {
        if further.is_empty() && check.is_none() {
            return None;
        }
        let member = |upstream: &Upstream| GroupMember {
            upstream: upstream.clone(),
            check: check.map(|_| CheckRecord::default()),
            hash: hash(&upstream.to_string()),
            load: Arc::new(MemberLoad {
                in_progress: AtomicUsize::new(0),
                created: Instant::now(),
                avoided_until: AtomicU64::new(NEVER),
            }),
        };
        Some(Arc::new(UpstreamGroup {
            members: std::iter::once(first).chain(further).map(member).collect(),
            is_sticky,
            check: check.cloned(),
            turn: AtomicUsize::new(0),
        }))
    }

    /// The same group with what is known of its upstreams from an earlier form of the app: requests
    /// in progress, and results of the same health check.
    pub fn following(&self, old: &UpstreamGroup) -> Arc<UpstreamGroup> {
        let is_same_check = self.check == old.check;
        let follow = |member: &GroupMember| {
            let mut known = old.members.iter();
            let Some(known) = known.find(|known| known.upstream == member.upstream) else {
                return member.clone();
            };
            GroupMember {
                load: known.load.clone(),
                check: if is_same_check {
                    known.check.clone()
                } else {
                    member.check.clone()
                },
                ..member.clone()
            }
        };
        Arc::new(UpstreamGroup {
            members: self.members.iter().map(follow).collect(),
            is_sticky: self.is_sticky,
            check: self.check.clone(),
            turn: AtomicUsize::new(0),
        })
    }

    /// Its upstreams, in the order of the configuration.
    pub fn members(&self) -> &[GroupMember] {
        &self.members
    }

    /// Whether a visitor stays with one upstream.
    pub fn is_sticky(&self) -> bool {
        self.is_sticky
    }

    /// How many upstreams fail their health check.
    pub fn failing(&self) -> usize {
        let failing = self.members.iter().filter(|member| member.is_failing());
        failing.count()
    }

    /// Chooses the upstream of a request: that of the visitor, given by a hash, else the one with
    /// the fewest requests in progress.
    ///
    /// By rendezvous hashing each visitor has an order of all upstreams. A lost upstream thus moves
    /// its own visitors only.
    pub fn choose(&self, visitor: Option<u64>, now: Instant) -> Option<InProgress> {
        self.choose_except(None, visitor, now)
    }

    /// Chooses another upstream than the one that accepted no connection; `None`: there is none.
    pub fn choose_other(
        &self,
        failed: &InProgress,
        visitor: Option<u64>,
        now: Instant,
    ) -> Option<InProgress> {
        self.choose_except(Some(failed.index), visitor, now)
    }

    fn choose_except(
        &self,
        except: Option<usize>,
        visitor: Option<u64>,
        now: Instant,
    ) -> Option<InProgress> {
        let count = self.members.len();
        let begin = match visitor {
            None if count > 1 => self.turn.fetch_add(1, Relaxed) % count,
            None | Some(_) => 0,
        };
        let members = self.members.iter().enumerate().cycle();
        let members = members.skip(begin).take(count);
        let (index, member) = members
            .filter(|(index, _)| Some(*index) != except)
            .min_by_key(|(_, member)| (member.usability(now), member.cost(visitor)))?;
        member.load.in_progress.fetch_add(1, Relaxed);
        Some(InProgress {
            load: member.load.clone(),
            index,
        })
    }

    /// Records whether the upstream of this index accepts connections.
    pub fn record_connection(&self, index: usize, is_open: bool, now: Instant) {
        let Some(member) = self.members.get(index) else {
            return;
        };
        let until = if is_open {
            NEVER
        } else {
            member.load.millis(now + AVOIDED)
        };
        // While all is well, the cache line stays unchanged.
        if member.load.avoided_until.load(Relaxed) != until {
            member.load.avoided_until.store(until, Relaxed);
        }
    }
}

impl GroupMember {
    /// Whether it fails its health check.
    pub fn is_failing(&self) -> bool {
        self.check.as_ref().is_some_and(CheckRecord::is_failing)
    }

    /// Whether it accepted no connection within the last seconds.
    pub fn is_avoided(&self, now: Instant) -> bool {
        let until = self.load.avoided_until.load(Relaxed);
        until != NEVER && self.load.millis(now) < until
    }

    /// The requests in progress.
    pub fn in_progress(&self) -> usize {
        self.load.in_progress.load(Relaxed)
    }

    /// The state by its health check; `None`: there is none.
    pub fn check_status(&self) -> Option<CheckStatus> {
        self.check.as_ref().map(CheckRecord::status)
    }

    fn usability(&self, now: Instant) -> Usability {
        match (self.is_failing(), self.is_avoided(now)) {
            (false, false) => Usability::Usable,
            (false, true) => Usability::Avoided,
            (true, false) => Usability::Failing,
            (true, true) => Usability::FailingAndAvoided,
        }
    }

    /// The lowest is chosen among equally usable upstreams.
    fn cost(&self, visitor: Option<u64>) -> u64 {
        match visitor {
            Some(visitor) => mix(self.hash ^ visitor),
            None => self.in_progress() as u64,
        }
    }
}

impl MemberLoad {
    /// Never [`NEVER`].
    fn millis(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.created).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX).max(NEVER + 1)
    }
}

impl InProgress {
    /// The index of its upstream.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.load.in_progress.fetch_sub(1, Relaxed);
    }
}

/// Not keyed: all threads and replicas must choose alike, and the choice is no secret.
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The finalizer of SplitMix64: each bit of the result depends on all bits.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests;
