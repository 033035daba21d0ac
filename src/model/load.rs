//! How much one app has to do for us now. Counted for all data threads together, so that one number bounds it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Of one app, for as long as it is published, and over changes of it.
#[derive(Clone, Debug, Default)]
pub struct Load(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicUsize,
    connections: AtomicUsize,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub enum Share {
    /// A request whose answer has not begun.
    Waiting,
    /// An open connection.
    Connection,
}

impl Load {
    /// One more, if there are fewer than the limit. Given back by drop.
    pub fn take(&self, share: Share, limit: usize) -> Option<Taken> {
        let taken = Taken { counts: self.0.clone(), share };
        // Taken before it is known to be free: the drop gives it back either way.
        (self.0.of(share).fetch_add(1, Relaxed) < limit).then_some(taken)
    }
}

impl Counts {
    fn of(&self, share: Share) -> &AtomicUsize {
        match share {
            Share::Waiting => &self.waiting,
            Share::Connection => &self.connections,
        }
    }
}

/// One of those that are counted.
#[derive(Debug)]
pub struct Taken {
    counts: Arc<Counts>,
    share: Share,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.counts.of(self.share).fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_there_may_be_and_another_when_one_is_given_back() {
        let load = Load::default();
        let held: Vec<_> = (0..3).map(|_| load.take(Share::Waiting, 3).expect("free")).collect();
        assert!(load.take(Share::Waiting, 3).is_none() && load.clone().take(Share::Waiting, 3).is_none());
        assert!(load.take(Share::Connection, 1).is_some(), "the other is counted apart");
        drop(held);
        assert!(load.take(Share::Waiting, 1).is_some(), "refusals hold nothing");
    }
}
