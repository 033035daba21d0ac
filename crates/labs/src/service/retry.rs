//! Which failures of the API server pass, and when a call is made again.

use std::{future, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use ludgate_cluster::deadline::ApiCallError;
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::outcome::{RefusedCall, Stopped};

/// The first pause, before jitter doubles it at most.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
/// The longest pause, before jitter.
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// What the API says about a pod when it does not know yet what a new ResourceQuota leaves.
const UNCOUNTED_QUOTA: &str = "status unknown for quota";
/// How servers before 1.22 report an object with unknown fields, as an error of their own (500).
const NO_OBJECT: &str = "failed to create typed patch object";

/// How long an operation may take, and what ends it before.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// When it must have ended.
    pub(super) deadline: Instant,
    /// How long that was at its start, for people.
    pub(super) limit: Duration,
    /// Cancelled by a deletion.
    pub(super) cancel: CancellationToken,
    /// Permits of calls to the API server, for all operations.
    pub(super) permits: Arc<Semaphore>,
    /// Until when this process may make calls for it; `None`: always.
    valid_until: Option<watch::Receiver<Instant>>,
}

impl Limits {
    pub(super) fn new(
        limit: Duration,
        cancel: CancellationToken,
        permits: Arc<Semaphore>,
    ) -> Limits {
        Limits {
            deadline: Instant::now() + limit,
            limit,
            cancel,
            permits,
            valid_until: None,
        }
    }

    /// The same, with calls only as long as a lock is valid.
    pub(super) fn within(self, valid_until: Option<watch::Receiver<Instant>>) -> Limits {
        Limits {
            valid_until,
            ..self
        }
    }

    /// How long a wait may take at most: half of the time that is left is for what follows it.
    pub(super) fn cap_wait(&self, longest: Duration) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        longest.min(left / 2)
    }

    /// Never returns once the lock is no longer valid. The work is dropped then. A process that was
    /// suspended may get here before that happens.
    async fn check_lock(&self) {
        let valid_until = self.valid_until.as_ref().map(|until| *until.borrow());
        if valid_until.is_some_and(|until| until <= Instant::now()) {
            future::pending::<()>().await;
        }
    }

    /// Waits for something other than a call. It is dropped when the operation must end.
    pub(super) async fn wait<T>(
        &self,
        what: &'static str,
        coming: impl Future<Output = T>,
    ) -> Result<T, Stopped> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Stopped::Cancelled),
            came = timeout_at(self.deadline, coming) => {
                came.map_err(|_elapsed| Stopped::TimedOut(self.limit, what))
            }
        }
    }
}

/// A call to the API server, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'c> {
    /// Such as `creating object`.
    pub(super) action: &'static str,
    /// Kind and name of the object.
    pub(super) object: &'c str,
}

/// Makes a call until it succeeds, fails for good, or the operation must end. `make` gets the
/// number of the attempt, from 0.
///
/// A call that was begun is always waited for (each has a deadline of its own): a write that is
/// dropped could take effect after the deletion that cancelled the operation.
pub(super) async fn with_retries<T, F>(
    limits: &Limits,
    call: Call<'_>,
    mut make: impl FnMut(usize) -> F,
) -> Result<T, Stopped>
where
    F: Future<Output = Result<T, ApiCallError>>,
{
    let mut pauses = ExponentialBuilder::default()
        .with_min_delay(MIN_BACKOFF)
        .with_max_delay(MAX_BACKOFF)
        .without_max_times()
        .with_jitter()
        .build();
    let mut attempt = 0;
    loop {
        let permit = limits.permits.acquire();
        let permit = limits.wait("waiting for other operations", permit).await?;
        limits.check_lock().await;
        let made = make(attempt).await;
        drop(permit);
        let error = match made {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let refused = RefusedCall::new(call.action, call.object, &error);
        if !is_transient(&error) {
            return Err(Stopped::Refused(refused));
        }
        let Call { action, object } = call;
        let reason = &refused.reason;
        tracing::warn!(attempt, object, reason, "error {action}; trying again");
        attempt += 1;
        let pause = pauses.next().unwrap_or(MAX_BACKOFF);
        match limits.wait(action, sleep(pause)).await {
            Ok(()) => {}
            Err(Stopped::Cancelled) => return Err(Stopped::Cancelled),
            // What stood in the way says more than the time.
            Err(_) => return Err(Stopped::Refused(refused)),
        }
    }
}

/// Whether the same call may succeed later.
pub(super) fn is_transient(error: &ApiCallError) -> bool {
    let ApiCallError::Api(error) = error else {
        return true;
    };
    if let kube::Error::Api(status) = error {
        return match status.code {
            // Timeout, conflict, an expired list, too many requests.
            408 | 409 | 410 | 429 => true,
            // The cluster has not yet counted what a new quota allows.
            403 => status.message.contains(UNCOUNTED_QUOTA),
            500 => !status.message.starts_with(NO_OBJECT),
            501..=599 => true,
            _ => false,
        };
    }
    // Else there was no connection, or it was reset. An object that cannot be written or read does
    // not change by itself.
    !matches!(
        error,
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_)
    )
}

/// Whether a write may have taken effect although it failed.
pub(super) fn is_ambiguous(error: &ApiCallError) -> bool {
    match error {
        ApiCallError::Timeout(_) => true,
        ApiCallError::Api(kube::Error::Api(status)) => status.code >= 500,
        ApiCallError::Api(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use kube::core::Status;

    use super::*;

    const CALL: Call<'static> = Call {
        action: "creating object",
        object: "Pod a/b",
    };

    fn answer(code: u16) -> ApiCallError {
        let status = Status::failure("no", "").with_code(code);
        ApiCallError::Api(kube::Error::Api(Box::new(status)))
    }

    /// Runs calls that fail with these codes, then succeed. Returns how many were made.
    async fn run(codes: &[u16], limits: &Limits) -> (Result<(), Stopped>, usize) {
        let calls = RefCell::new(0);
        let done = with_retries(limits, CALL, |attempt| {
            *calls.borrow_mut() += 1;
            let result = codes.get(attempt).map_or(Ok(()), |code| Err(answer(*code)));
            async move { result }
        });
        (done.await, calls.take())
    }

    fn limits(seconds: u64) -> Limits {
        let permits = Arc::new(Semaphore::new(1));
        Limits::new(
            Duration::from_secs(seconds),
            CancellationToken::new(),
            permits,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_busy_is_asked_again() {
        let (done, calls) = run(&[503, 503, 503, 429, 409, 500], &limits(60)).await;
        assert_eq!((done, calls), (Ok(()), 7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_leaves_half_of_the_remaining_time() {
        let limits = limits(60);
        for (seconds_until, wanted) in [(0, 20), (20, 20), (40, 10), (60, 0), (90, 0)] {
            let until = limits.deadline - limits.limit + Duration::from_secs(seconds_until);
            tokio::time::sleep_until(until).await;
            let cap = limits.cap_wait(Duration::from_secs(20));
            assert_eq!(cap.as_millis().div_ceil(1000), wanted, "{seconds_until}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_final() {
        let (done, calls) = run(&[503, 400], &limits(60)).await;
        let Err(Stopped::Refused(call)) = done else {
            panic!("not refused: {done:?}");
        };
        assert_eq!((call.status, calls), (Some(400), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_deadline_the_last_failure_is_told() {
        let before = Instant::now();
        let (done, _) = run(&[503; 1000], &limits(60)).await;
        let Err(Stopped::Refused(call)) = done else {
            panic!("not refused: {done:?}");
        };
        assert_eq!(call.status, Some(503));
        assert_eq!(before.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_operation_makes_no_more_calls() {
        let limits = limits(60);
        let cancel = limits.cancel.clone();
        let cancelled = async {
            sleep(Duration::from_secs(1)).await;
            cancel.cancel();
        };
        let ((done, _), ()) = tokio::join!(run(&[503; 1000], &limits), cancelled);
        assert_eq!(done, Err(Stopped::Cancelled));
        let (done, calls) = run(&[], &limits).await;
        assert_eq!((done, calls), (Err(Stopped::Cancelled), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_lock_no_call_is_made() {
        let valid_until = watch::Sender::new(Instant::now() + Duration::from_secs(6));
        let limits = limits(60).within(Some(valid_until.subscribe()));
        assert_eq!(run(&[], &limits).await, (Ok(()), 1));
        tokio::time::advance(Duration::from_secs(6)).await;
        let calls = RefCell::new(0);
        let done = with_retries(&limits, CALL, |_| {
            *calls.borrow_mut() += 1;
            async { Ok(()) }
        });
        let ended = tokio::time::timeout(Duration::from_secs(30), done).await;
        assert!(ended.is_err());
        assert_eq!(calls.take(), 0);
    }

    #[test]
    fn what_will_not_change_by_itself_is_not_tried_again() {
        let message = "failed to create typed patch object: .spec.x: field not declared in schema";
        let status = Status::failure(message, "").with_code(500);
        let error = ApiCallError::Api(kube::Error::Api(Box::new(status)));
        assert!(!is_transient(&error));
        assert!(!is_transient(&answer(403)));
        let message = "pods \"x\" is forbidden: status unknown for quota: x, resources: limits.cpu";
        let status = Status::failure(message, "Forbidden").with_code(403);
        let error = ApiCallError::Api(kube::Error::Api(Box::new(status)));
        assert!(is_transient(&error));
        assert!(is_transient(&ApiCallError::Timeout(Duration::from_secs(1))));
    }
}
