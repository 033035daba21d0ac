//! The deadlines of a connection that waits for its client: one timer per connection, none per
//! request.
//!
//! hyper has no deadline for the first byte, only one for heads and idle connections together, and
//! none on HTTP/2. So all deadlines are here, and hyper gets no timer for HTTP/1.1.

use std::{
    hash::{BuildHasher, RandomState},
    marker::PhantomData,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// Deadlines of a connection that waits for its client.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// For the first byte of a connection.
    pub first_byte: Duration,
    /// For the end of a request head, from its first byte.
    pub head: Duration,
    /// For the next request, from the end of the last response.
    pub idle: Duration,
    /// The same on HTTP/2, where a browser has a single connection.
    pub idle_http2: Duration,
    /// Age at which a connection is closed gracefully, so that the client opens a new one.
    pub age: Duration,
}

/// A deadline that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// No first byte.
    FirstByte,
    /// No end of a request head.
    Head,
    /// No further request.
    NextRequest,
    /// The connection is old and ends after its active requests.
    Age,
}

impl Timeout {
    /// The label in the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Timeout::FirstByte => "first_byte",
            Timeout::Head => "head",
            Timeout::NextRequest => "idle",
            Timeout::Age => "age",
        }
    }
}

/// The state of one connection that its deadlines depend on.
///
/// Atomic because hyper requires upgradable connections to be `Send`; only one thread uses it.
/// Times are milliseconds since `began`.
#[derive(Debug)]
pub struct ConnectionActivity {
    began: Instant,
    is_http2: bool,
    /// Shortens the maximum age, in thousandths, so that connections do not all end at once.
    age_jitter: u32,
    /// The first byte since the last response ended; zero means none. Of a request body that
    /// outlasts its response, the last byte.
    first_byte: AtomicU64,
    /// The end of the last response.
    last_response: AtomicU64,
    served: AtomicBool,
    active_requests: AtomicUsize,
    /// Whether the rest of a request body is still to come.
    is_in_body: AtomicBool,
    leaving: AtomicBool,
    is_tunnel: AtomicBool,
}

impl ConnectionActivity {
    /// A connection that just became ready for requests.
    pub fn new(is_http2: bool) -> Arc<ConnectionActivity> {
        Arc::new(ConnectionActivity {
            began: Instant::now(),
            is_http2,
            // Random enough: each `RandomState` has its own key.
            age_jitter: u32::try_from(RandomState::new().hash_one(0) % 100).unwrap_or(0),
            first_byte: AtomicU64::new(0),
            last_response: AtomicU64::new(0),
            served: AtomicBool::new(false),
            active_requests: AtomicUsize::new(0),
            is_in_body: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            is_tunnel: AtomicBool::new(false),
        })
    }

    /// Counts a request as active until the guard is dropped.
    pub fn request(self: &Arc<Self>) -> ActiveRequest {
        // Load and store instead of an atomic addition, which would lock the bus: only one thread
        // changes the count.
        let active = self.active_requests.load(Relaxed);
        self.active_requests.store(active + 1, Relaxed);
        ActiveRequest(self.clone(), PhantomData)
    }

    /// The connection has become a WebSocket: the following bytes are no requests.
    pub fn switch_to_tunnel(&self) {
        self.is_tunnel.store(true, Relaxed);
    }

    /// Whether the connection has become a WebSocket.
    pub(super) fn is_tunnel(&self) -> bool {
        self.is_tunnel.load(Relaxed)
    }

    /// Whether no request has come yet.
    pub fn is_fresh(&self) -> bool {
        !self.served.load(Relaxed) && !self.is_busy()
    }

    /// Makes the next response the last one of this connection.
    pub fn leave(&self) {
        self.leaving.store(true, Relaxed);
    }

    /// Whether the next response is the last one.
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Relaxed)
    }

    /// Whether a request is active.
    pub fn is_busy(&self) -> bool {
        self.active_requests.load(Relaxed) > 0
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the rest of a request body is still to come, although its response may be complete.
    pub(super) fn is_in_body(&self) -> bool {
        self.is_in_body.load(Relaxed)
    }

    /// Notes whether the rest of a request body is still to come.
    pub(super) fn set_in_body(&self, is_in_body: bool) {
        self.is_in_body.store(is_in_body, Relaxed);
    }

    /// Notes that a byte came from the client.
    pub(super) fn note_byte(&self) {
        let outlasts_response = self.is_in_body() && !self.is_busy();
        if self.first_byte.load(Relaxed) == 0 || outlasts_response {
            // Never zero, which means no byte.
            self.first_byte.store(self.now().max(1), Relaxed);
        }
    }

    /// The next deadline besides the age; `None` while a request is active.
    fn next_deadline(&self, timeouts: &Timeouts) -> Option<(Timeout, Instant)> {
        if self.is_busy() {
            return None;
        }
        let after =
            |millis: u64, timeout: Duration| self.began + Duration::from_millis(millis) + timeout;
        let first_byte = self.first_byte.load(Relaxed);
        let free = self.last_response.load(Relaxed);
        if self.is_in_body() {
            // An app may answer before it has read the whole body.
            let last = first_byte.max(free);
            return Some((Timeout::NextRequest, after(last, timeouts.idle)));
        }
        Some(match (first_byte, self.served.load(Relaxed)) {
            (0, false) => (Timeout::FirstByte, after(0, timeouts.first_byte)),
            // On HTTP/2 some bytes belong to no request: settings, pings.
            (_, _) if self.is_http2 => (Timeout::NextRequest, after(free, timeouts.idle_http2)),
            (0, true) => (Timeout::NextRequest, after(free, timeouts.idle)),
            (first_byte, _) => (Timeout::Head, after(first_byte, timeouts.head)),
        })
    }

    /// Waits for the next deadline that passes. Cancel safe.
    pub async fn expired(&self, timeouts: &Timeouts) -> Timeout {
        let old = self.began + timeouts.age - timeouts.age / 1000 * self.age_jitter;
        // No deadline that starts during this sleep passes before the sleep ends.
        let shortest = timeouts
            .first_byte
            .min(timeouts.head)
            .min(timeouts.idle)
            .min(timeouts.idle_http2);
        loop {
            let now = Instant::now();
            if now >= old && !self.is_leaving() {
                return Timeout::Age;
            }
            let next = match self.next_deadline(timeouts) {
                Some((expired, until)) if until <= now => return expired,
                Some((_, until)) => until.min(now + shortest),
                None => now + shortest,
            };
            let wake_at = if self.is_leaving() {
                next
            } else {
                next.min(old)
            };
            sleep_until(wake_at).await;
        }
    }
}

/// Keeps a request counted as active. Not `Send`, because two threads that changed the count at
/// once would lose a change.
#[derive(Debug)]
pub struct ActiveRequest(Arc<ConnectionActivity>, PhantomData<Rc<()>>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let activity = &self.0;
        let active = activity.active_requests.load(Relaxed).saturating_sub(1);
        activity.active_requests.store(active, Relaxed);
        if active == 0 {
            activity.last_response.store(activity.now(), Relaxed);
            activity.first_byte.store(0, Relaxed);
            activity.served.store(true, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    const TIMEOUTS: Timeouts = Timeouts {
        first_byte: Duration::from_secs(10),
        head: Duration::from_secs(12),
        idle: Duration::from_secs(60),
        idle_http2: Duration::from_secs(300),
        age: Duration::from_secs(3600),
    };

    /// What is missed, and after how many seconds from now.
    async fn expired(activity: &ConnectionActivity) -> (Timeout, u64) {
        let now = Instant::now();
        let expired = activity.expired(&TIMEOUTS).await;
        (expired, now.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_waits_for_one_thing_at_a_time_and_each_has_its_time() {
        let activity = ConnectionActivity::new(false);
        assert_eq!(expired(&activity).await, (Timeout::FirstByte, 10));
        activity.note_byte();
        assert_eq!(
            expired(&activity).await,
            (Timeout::Head, 12),
            "from the first byte"
        );
        let activity = ConnectionActivity::new(false);
        advance(Duration::from_secs(9)).await;
        activity.note_byte();
        advance(Duration::from_secs(1)).await;
        activity.note_byte();
        assert_eq!(
            expired(&activity).await,
            (Timeout::Head, 11),
            "more bytes give no more time"
        );
        let answered = activity.request();
        assert!(
            timeout(Duration::from_secs(600), activity.expired(&TIMEOUTS))
                .await
                .is_err(),
            "an answer is under way"
        );
        drop(answered);
        assert_eq!(expired(&activity).await, (Timeout::NextRequest, 60));
        activity.note_byte();
        assert_eq!(expired(&activity).await, (Timeout::Head, 12));
    }

    #[tokio::test(start_paused = true)]
    async fn on_http2_bytes_between_requests_are_no_head() {
        let activity = ConnectionActivity::new(true);
        assert_eq!(expired(&activity).await, (Timeout::FirstByte, 10));
        activity.note_byte();
        assert_eq!(
            expired(&activity).await,
            (Timeout::NextRequest, 290),
            "from the beginning"
        );
        let (one, two) = (activity.request(), activity.request());
        drop(one);
        assert!(
            timeout(Duration::from_secs(600), activity.expired(&TIMEOUTS))
                .await
                .is_err(),
            "one is still under way"
        );
        drop(two);
        activity.note_byte();
        assert_eq!(expired(&activity).await, (Timeout::NextRequest, 300));
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_connection_is_told_once_also_while_it_is_busy() {
        let activity = ConnectionActivity::new(false);
        let busy = activity.request();
        let (what, after) = expired(&activity).await;
        assert!(
            what == Timeout::Age && (3240..=3600).contains(&after),
            "{what:?} {after}"
        );
        activity.leave();
        assert!(
            timeout(Duration::from_secs(7200), activity.expired(&TIMEOUTS))
                .await
                .is_err()
        );
        drop(busy);
        assert_eq!(expired(&activity).await, (Timeout::NextRequest, 60));
    }
}
