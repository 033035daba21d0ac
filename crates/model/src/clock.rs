//! Time, injected: a monotonic clock for deadlines and a wall clock for tokens and logs.
//!
//! Functions take `now` as a value; only the edges read a [`Clock`]. Tests set time by
//! [`ManualClock`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::sync::watch;

/// A monotonic time in milliseconds. The zero point has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    /// This moment plus a duration, saturating.
    pub fn after(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(millis(duration)))
    }
}

/// Start-up is this far from `Moment(0)`, so that earlier events still have a valid `Moment`: a
/// session restored after a restart began before the process did.
const START: u64 = 1 << 40;

/// A duration in whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The source of time. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System(Instant),
    Manual(Arc<Inner>),
}

#[derive(Debug)]
struct Inner {
    monotonic: AtomicU64,
    wall: AtomicI64,
    moved: watch::Sender<()>,
}

/// Moves a clock of [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Inner>);

impl Clock {
    /// A clock that reads the machine's clocks.
    pub fn system() -> Clock {
        Clock(Source::System(Instant::now()))
    }

    /// A clock that moves only by its [`ManualClock`]. The wall clock starts at the machine's time.
    pub fn manual() -> (Clock, ManualClock) {
        let inner = Arc::new(Inner {
            monotonic: AtomicU64::new(0),
            wall: AtomicI64::new(system_wall_seconds()),
            moved: watch::Sender::new(()),
        });
        (Clock(Source::Manual(inner.clone())), ManualClock(inner))
    }

    /// The current monotonic time.
    pub fn now(&self) -> Moment {
        match &self.0 {
            Source::System(_) => self.at(Instant::now()),
            Source::Manual(inner) => Moment(inner.monotonic.load(Ordering::Acquire)),
        }
    }

    /// The monotonic time of an `Instant` that was read already, which saves a second read.
    pub fn at(&self, read: Instant) -> Moment {
        match &self.0 {
            Source::System(start) => {
                Moment(START.saturating_add(millis(read.saturating_duration_since(*start))))
            }
            Source::Manual(_) => self.now(),
        }
    }

    /// The wall clock, in seconds since 1970; negative before.
    pub fn wall_seconds(&self) -> i64 {
        match &self.0 {
            Source::System(_) => system_wall_seconds(),
            Source::Manual(inner) => inner.wall.load(Ordering::Acquire),
        }
    }

    /// The wall clock, in milliseconds since 1970; negative before.
    pub fn wall_millis(&self) -> i64 {
        match &self.0 {
            Source::System(_) => system_wall_millis(),
            Source::Manual(inner) => inner.wall.load(Ordering::Acquire).saturating_mul(1000),
        }
    }

    /// Waits until the moment.
    ///
    /// Cancel safety: dropping the future has no other effect.
    pub async fn sleep_until(&self, until: Moment) {
        match &self.0 {
            Source::System(start) => {
                let since = Duration::from_millis(until.0.saturating_sub(START));
                tokio::time::sleep_until((*start + since).into()).await;
            }
            Source::Manual(inner) => {
                let mut moved = inner.moved.subscribe();
                while self.now() < until && moved.changed().await.is_ok() {}
            }
        }
    }

    /// Waits for a duration.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now().after(duration)).await;
    }
}

impl ManualClock {
    /// Moves both clocks forward together.
    pub fn advance(&self, by: Duration) {
        self.0.monotonic.fetch_add(millis(by), Ordering::AcqRel);
        self.0
            .wall
            .fetch_add(i64::try_from(by.as_secs()).unwrap_or(0), Ordering::AcqRel);
        self.0.moved.send_replace(());
    }

    /// Moves the wall clock alone, as an operator or a broken NTP server would; seconds.
    pub fn jump_wall(&self, seconds: i64) {
        self.0.wall.fetch_add(seconds, Ordering::AcqRel);
        self.0.moved.send_replace(());
    }
}

/// The machine's wall clock in milliseconds since 1970; negative if it is set to a time before.
pub fn system_wall_millis() -> i64 {
    let signed = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => signed(since),
        Err(before) => -signed(before.duration()),
    }
}

fn system_wall_seconds() -> i64 {
    system_wall_millis().div_euclid(1000)
}
