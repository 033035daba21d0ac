//! A cache of a server's answers. Concurrent look-ups of a key share one call. A fresh answer needs
//! no call, and the last answer is used while the server is unavailable.

use std::{
    fmt,
    hash::Hash,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use moka::{policy::EvictionPolicy, sync::Cache};
use tokio::{runtime::Handle, sync::watch};

use crate::model::clock::{Clock, Moment, millis};

/// How long an answer may be used.
#[derive(Clone, Copy, Debug)]
pub struct Freshness {
    /// An answer younger than this needs no call.
    pub fresh: Duration,
    /// An answer younger than this is used while another is fetched; zero: never.
    pub stale: Duration,
    /// An answer younger than this is used while the server cannot be reached; zero: never.
    pub outage: Duration,
}

/// How long a negative answer is fresh.
const NOTHING: Duration = Duration::from_secs(5);
/// Pause after a failed call before the next call for the same key.
const PAUSE: Duration = Duration::from_secs(2);

/// The server gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server gave no answer")]
pub struct Unavailable;

/// The answers by key.
pub struct StaleCache<K, V> {
    entries: Cache<K, Arc<CacheEntry<V>>>,
    policy: Freshness,
    clock: Clock,
    control: Handle,
}

struct CacheEntry<V> {
    known: ArcSwapOption<Answer<V>>,
    /// When the server last gave no answer, in milliseconds of the clock; 0: never.
    failed: AtomicU64,
    /// The call under way, which other look-ups join; never locked across an await.
    call: Mutex<Option<watch::Receiver<()>>>,
}

struct Answer<V> {
    value: Option<Arc<V>>,
    read: Moment,
}

impl<K, V> fmt::Debug for StaleCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaleCache({:?})", self.policy)
    }
}

impl<K, V> StaleCache<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: PartialEq + Send + Sync + 'static,
{
    /// An empty cache of at most `most` keys; the least recently used key is evicted.
    pub fn new(most: u64, policy: Freshness, clock: Clock, control: Handle) -> StaleCache<K, V> {
        let entries = Cache::builder()
            .max_capacity(most)
            .eviction_policy(EvictionPolicy::lru())
            .build();
        StaleCache {
            entries,
            policy,
            clock,
            control,
        }
    }

    /// The answer for a key, fetched if it is missing or too old. An answer equal to the previous
    /// one is returned as the same `Arc`.
    ///
    /// # Errors
    /// [`Unavailable`] when the server gave no answer and the last one is too old.
    ///
    /// Cancel safety: a call under way goes on, and its answer is kept.
    pub async fn get<F>(
        &self,
        key: K,
        fetch: impl FnOnce() -> F,
    ) -> Result<Option<Arc<V>>, Unavailable>
    where
        F: Future<Output = Result<Option<V>, Unavailable>> + Send + 'static,
    {
        self.get_within(key, self.policy.stale, fetch).await
    }

    /// Like [`StaleCache::get`], with an answer no older than [`Freshness::fresh`] unless the
    /// server is unavailable.
    ///
    /// # Errors
    /// As for [`StaleCache::get`].
    pub async fn get_fresh<F>(
        &self,
        key: K,
        fetch: impl FnOnce() -> F,
    ) -> Result<Option<Arc<V>>, Unavailable>
    where
        F: Future<Output = Result<Option<V>, Unavailable>> + Send + 'static,
    {
        self.get_within(key, Duration::ZERO, fetch).await
    }

    async fn get_within<F>(
        &self,
        key: K,
        stale: Duration,
        fetch: impl FnOnce() -> F,
    ) -> Result<Option<Arc<V>>, Unavailable>
    where
        F: Future<Output = Result<Option<V>, Unavailable>> + Send + 'static,
    {
        let entry = self.entries.get_with(key, || Arc::new(CacheEntry::empty()));
        let began = self.clock.now();
        if let Some(known) = entry.known.load_full() {
            let (age, is_something) = (known.age(began), known.value.is_some());
            let fresh = if is_something {
                self.policy.fresh
            } else {
                NOTHING
            };
            if age < fresh {
                return Ok(known.value.clone());
            }
            if is_something && age < stale {
                if !entry.failed_lately(began) {
                    drop(self.call(&entry, began, fetch));
                }
                return Ok(known.value.clone());
            }
        }
        if !entry.failed_lately(began) {
            let mut ended = self.call(&entry, began, fetch);
            // No value is sent; the sender is dropped when the call has ended.
            let _ = ended.changed().await;
        }
        match entry.known.load_full() {
            Some(known) if known.read >= began => Ok(known.value.clone()),
            Some(known) if known.value.is_some() && known.age(began) < self.policy.outage => {
                Ok(known.value.clone())
            }
            Some(_) | None => Err(Unavailable),
        }
    }

    /// The last answer for a key, however old, without waiting; `None`: there is none. Starts a
    /// call in the background if the answer is no longer fresh.
    pub fn last_known<F>(&self, key: &K, fetch: impl FnOnce() -> F) -> Option<Option<Arc<V>>>
    where
        F: Future<Output = Result<Option<V>, Unavailable>> + Send + 'static,
    {
        self.last_known_within(key, Duration::MAX, fetch)
    }

    /// Like [`StaleCache::last_known`], with an answer that is younger than `oldest`.
    pub fn last_known_within<F>(
        &self,
        key: &K,
        oldest: Duration,
        fetch: impl FnOnce() -> F,
    ) -> Option<Option<Arc<V>>>
    where
        F: Future<Output = Result<Option<V>, Unavailable>> + Send + 'static,
    {
        let entry = self.entries.get(key)?;
        let known = entry.known.load_full()?;
        let now = self.clock.now();
        let age = known.age(now);
        if age >= self.policy.fresh && !entry.failed_lately(now) {
            drop(self.call(&entry, now, fetch));
        }
        (age < oldest).then(|| known.value.clone())
    }

    /// Whether a look-up of this key may skip the look-up limit: a call is under way, the key is
    /// known to exist, or a negative answer is still fresh.
    pub fn is_exempt(&self, key: &K) -> bool {
        let now = self.clock.now();
        let counts = |answer: &Arc<Answer<V>>| answer.value.is_some() || answer.age(now) < NOTHING;
        let Some(entry) = self.entries.get(key) else {
            return false;
        };
        entry.known.load().as_ref().is_some_and(counts) || entry.is_under_way()
    }

    /// The value of a key if its answer is fresh; never makes a call.
    pub fn fresh(&self, key: &K) -> Option<Arc<V>> {
        let known = self.entries.get(key)?.known.load_full()?;
        known
            .value
            .clone()
            .filter(|_| known.age(self.clock.now()) < self.policy.fresh)
    }

    /// Starts the call, or joins the one under way, or the one that has ended since `began`.
    fn call<F>(
        &self,
        entry: &Arc<CacheEntry<V>>,
        began: Moment,
        fetch: impl FnOnce() -> F,
    ) -> watch::Receiver<()>
    where
        F: Future<Output = Result<Option<V>, Unavailable>> + Send + 'static,
    {
        let mut under_way = entry.call.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = &*under_way
            // The call may have ended after the caller looked for its answer; then no second call
            // is needed.
            && (call.has_changed().is_ok() || entry.is_answered_since(began))
        {
            return call.clone();
        }
        let (ends, ended) = watch::channel(());
        *under_way = Some(ended.clone());
        let (entry, clock, answer) = (entry.clone(), self.clock.clone(), fetch());
        // Runs on the control runtime to its end, even if all requests that wait for it are
        // cancelled.
        self.control.spawn(async move {
            let answer = answer.await;
            let now = clock.now();
            match answer {
                Ok(value) => entry.learn(value, now),
                Err(Unavailable) => entry.failed.store(now.0.max(1), Ordering::Release),
            }
            drop(ends);
        });
        ended
    }
}

impl<V: PartialEq> CacheEntry<V> {
    fn empty() -> CacheEntry<V> {
        CacheEntry {
            known: ArcSwapOption::empty(),
            failed: AtomicU64::new(0),
            call: Mutex::new(None),
        }
    }

    fn learn(&self, value: Option<V>, now: Moment) {
        let before = self.known.load_full().and_then(|known| known.value.clone());
        let value = match (value, before) {
            (Some(value), Some(before)) if value == *before => Some(before),
            (value, _) => value.map(Arc::new),
        };
        self.known
            .store(Some(Arc::new(Answer { value, read: now })));
        self.failed.store(0, Ordering::Release);
    }

    fn is_under_way(&self) -> bool {
        let call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        call.as_ref().is_some_and(|call| call.has_changed().is_ok())
    }

    /// Whether a call has ended since then, with an answer or without.
    fn is_answered_since(&self, began: Moment) -> bool {
        let is_known = self
            .known
            .load()
            .as_ref()
            .is_some_and(|answer| answer.read >= began);
        is_known || self.failed.load(Ordering::Acquire) >= began.0.max(1)
    }

    fn failed_lately(&self, now: Moment) -> bool {
        let failed = self.failed.load(Ordering::Acquire);
        failed != 0 && now.0 < failed.saturating_add(millis(PAUSE))
    }
}

impl<V> Answer<V> {
    fn age(&self, now: Moment) -> Duration {
        Duration::from_millis(now.0.saturating_sub(self.read.0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::model::clock::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);

    type Asking = std::pin::Pin<Box<dyn Future<Output = Result<Option<u32>, Unavailable>> + Send>>;

    struct Server {
        asked: Arc<AtomicUsize>,
        answer: Arc<Mutex<Result<Option<u32>, Unavailable>>>,
        kept: StaleCache<&'static str, u32>,
        manual_clock: ManualClock,
    }

    fn server() -> Server {
        let (clock, manual_clock) = Clock::manual();
        manual_clock.advance(SECOND);
        let policy = Freshness {
            fresh: 5 * SECOND,
            stale: 60 * SECOND,
            outage: 3600 * SECOND,
        };
        Server {
            asked: Arc::default(),
            answer: Arc::new(Mutex::new(Ok(Some(1)))),
            kept: StaleCache::new(100, policy, clock, Handle::current()),
            manual_clock,
        }
    }

    impl Server {
        fn fetch(&self) -> impl FnOnce() -> Asking + use<> {
            let (asked, answer) = (self.asked.clone(), self.answer.clone());
            || {
                Box::pin(async move {
                    tokio::task::yield_now().await;
                    asked.fetch_add(1, Ordering::SeqCst);
                    *answer.lock().expect("no panic")
                })
            }
        }

        async fn get(&self) -> Result<Option<u32>, Unavailable> {
            self.kept
                .get("key", self.fetch())
                .await
                .map(|value| value.map(|value| *value))
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }

        fn answer(&self, answer: Result<Option<u32>, Unavailable>) {
            *self.answer.lock().expect("no panic") = answer;
        }
    }

    #[tokio::test]
    async fn a_thousand_who_ask_at_once_cost_one_call_and_a_fresh_answer_none() {
        let server = server();
        let all = futures_util::future::join_all((0..1000).map(|_| server.get())).await;
        assert!(all.iter().all(|answer| *answer == Ok(Some(1))));
        server.manual_clock.advance(4 * SECOND);
        assert_eq!(server.get().await, Ok(Some(1)));
        assert_eq!(server.asked(), 1);
    }

    #[tokio::test]
    async fn a_call_that_ended_since_the_caller_began_is_not_made_again() {
        let server = server();
        let began = server.kept.clock.now();
        let _ = server.get().await;
        let entry = server.kept.entries.get("key").expect("an entry");
        let _ = server
            .kept
            .call(&entry, began, server.fetch())
            .changed()
            .await;
        assert_eq!(server.asked(), 1, "its answer is there");
        let _ = server
            .kept
            .call(&entry, began.after(SECOND), server.fetch())
            .changed()
            .await;
        assert_eq!(server.asked(), 2);
    }

    #[tokio::test]
    async fn a_stale_answer_is_used_while_another_is_fetched_and_an_old_one_is_not() {
        let server = server();
        let _ = server.get().await;
        server.answer(Ok(Some(2)));
        server.manual_clock.advance(6 * SECOND);
        assert_eq!(server.get().await, Ok(Some(1)));
        while server.asked() < 2 {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        assert_eq!(server.get().await, Ok(Some(2)));
        server.answer(Ok(Some(3)));
        server.manual_clock.advance(61 * SECOND);
        assert_eq!(server.get().await, Ok(Some(3)));
    }

    #[tokio::test]
    async fn nothing_is_believed_for_five_seconds() {
        let server = server();
        server.answer(Ok(None));
        assert_eq!(server.get().await, Ok(None));
        server.answer(Ok(Some(1)));
        server.manual_clock.advance(4 * SECOND);
        assert_eq!(server.get().await, Ok(None));
        server.manual_clock.advance(SECOND);
        assert_eq!(server.get().await, Ok(Some(1)));
        assert_eq!(server.asked(), 2);
    }

    #[tokio::test]
    async fn while_the_server_is_away_the_last_answer_serves_for_an_hour_and_the_unknown_is_unknown()
     {
        let server = server();
        server.answer(Err(Unavailable));
        assert_eq!(server.get().await, Err(Unavailable));
        assert_eq!(server.get().await, Err(Unavailable));
        assert_eq!(server.asked(), 1, "not asked again at once");
        server.answer(Ok(Some(1)));
        server.manual_clock.advance(3 * SECOND);
        assert_eq!(server.get().await, Ok(Some(1)));
        server.answer(Err(Unavailable));
        server.manual_clock.advance(1800 * SECOND);
        assert_eq!(server.get().await, Ok(Some(1)));
        server.manual_clock.advance(1900 * SECOND);
        assert_eq!(server.get().await, Err(Unavailable));
        server.answer(Ok(Some(4)));
        server.manual_clock.advance(3 * SECOND);
        assert_eq!(server.get().await, Ok(Some(4)));
    }

    #[tokio::test]
    async fn the_last_answer_is_known_without_waiting_until_it_is_too_old() {
        let server = server();
        let kept = &server.kept;
        let within = |seconds: u32| {
            let known = kept.last_known_within(&"key", seconds * SECOND, server.fetch());
            known.flatten().map(|value| *value)
        };
        assert_eq!(within(600), None, "there is none");
        let _ = server.get().await;
        server.answer(Err(Unavailable));
        server.manual_clock.advance(599 * SECOND);
        assert_eq!(within(600), Some(1));
        server.manual_clock.advance(SECOND);
        assert_eq!(within(600), None);
        let known = kept.last_known(&"key", server.fetch());
        assert_eq!(known.flatten().map(|value| *value), Some(1));
    }

    #[tokio::test]
    async fn an_answer_equal_to_the_one_before_is_the_same() {
        let server = server();
        let first = server
            .kept
            .get("key", server.fetch())
            .await
            .expect("an answer")
            .expect("something");
        server.manual_clock.advance(61 * SECOND);
        let second = server
            .kept
            .get("key", server.fetch())
            .await
            .expect("an answer")
            .expect("something");
        assert_eq!(server.asked(), 2);
        assert!(Arc::ptr_eq(&first, &second));
    }
}
