//! Why a reconcile did not finish, and when to try again.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use ludgate_cluster::deadline::ApiCallError;

/// The pause after a first failure, before jitter doubles it at most.
const MIN_BACKOFF: Duration = Duration::from_millis(250);
/// The longest pause, before jitter: an app recovers within a minute after the cause of its error
/// is gone.
const MAX_BACKOFF: Duration = Duration::from_secs(20);

/// The reasons for which a reconcile does not finish. Each is tried again: what stands in the way
/// may go away without any change of the object.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The cluster did not do it now: a conflict, too many requests, no answer.
    #[error(transparent)]
    Transient(ApiCallError),
    /// The app cannot run until its object, the settings or the cluster change. The message is for
    /// its status.
    #[error("{0}")]
    Rejected(String),
}

impl From<ApiCallError> for ReconcileError {
    fn from(error: ApiCallError) -> ReconcileError {
        let ApiCallError::Api(kube::Error::Api(status)) = &error else {
            return ReconcileError::Transient(error);
        };
        let is_transient = match status.code {
            // Timeout, conflict, an expired list, too many requests.
            408 | 409 | 410 | 429 => true,
            500 => !status.message.starts_with(NO_OBJECT),
            501..=599 => true,
            _ => false,
        };
        match is_transient {
            true => ReconcileError::Transient(error),
            false => ReconcileError::Rejected(status.message.clone()),
        }
    }
}

/// How servers before 1.22 report an object with unknown fields, as an error of their own (500).
const NO_OBJECT: &str = "failed to create typed patch object";

/// The pauses of the objects whose last reconcile failed.
#[derive(Debug)]
pub struct Backoffs<K>(Mutex<HashMap<K, ExponentialBackoff>>);

impl<K> Default for Backoffs<K> {
    fn default() -> Self {
        Backoffs(Mutex::default())
    }
}

impl<K: Eq + Hash> Backoffs<K> {
    /// The next pause of an object that failed.
    pub fn next(&self, object: K) -> Duration {
        let builder = ExponentialBuilder::default()
            .with_min_delay(MIN_BACKOFF)
            .with_max_delay(MAX_BACKOFF)
            .without_max_times()
            .with_jitter();
        let mut backoffs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let backoff = backoffs.entry(object).or_insert_with(|| builder.build());
        backoff.next().unwrap_or(MAX_BACKOFF)
    }

    /// The object succeeded, or is gone.
    pub fn reset(&self, object: &K) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_refuses_is_said_and_what_it_cannot_do_now_is_not() {
        let is_refused = |code: u16, message: &str| {
            let status = kube::core::Status::failure(message, "").with_code(code);
            let error = ApiCallError::Api(kube::Error::Api(Box::new(status)));
            matches!(ReconcileError::from(error), ReconcileError::Rejected(_))
        };
        for code in [400, 403, 404, 422] {
            assert!(is_refused(code, "no"), "{code}");
        }
        for code in [408, 409, 410, 429, 500, 503, 504] {
            assert!(!is_refused(code, "no"), "{code}");
        }
        let unknown = "failed to create typed patch object: .spec.x: field not declared in schema";
        assert!(is_refused(500, unknown));
    }

    #[test]
    fn pauses_grow_to_a_bound_and_begin_again_after_a_success() {
        let backoffs = Backoffs::default();
        assert!(backoffs.next("lab") <= MIN_BACKOFF * 2);
        let later: Vec<Duration> = (0..100).map(|_| backoffs.next("lab")).collect();
        assert!(
            later.iter().all(|pause| *pause <= MAX_BACKOFF * 2),
            "{later:?}"
        );
        assert!(later[99] >= MAX_BACKOFF, "{later:?}");
        assert!(backoffs.next("other") <= MIN_BACKOFF * 2);
        backoffs.reset(&"lab");
        assert!(backoffs.next("lab") <= MIN_BACKOFF * 2);
    }
}
