//! Waiting, always with a deadline.

use std::{future::Future, time::Duration};

use tokio::time::{sleep, timeout};

use super::message::PATIENCE;

/// Pause between two tries: what is waited for needs the processor.
const PAUSE: Duration = Duration::from_millis(1);
/// The same for a condition that needs I/O.
const IO_PAUSE: Duration = Duration::from_millis(5);
/// How late something may be in an unoptimised build, beside other tests on two cores. It is much
/// shorter than the intervals and deadlines that would lead to the same result without the code
/// under test.
pub const LATENESS: Duration = Duration::from_secs(8);

/// Polls until the condition holds, for conditions without a notification. Fails the test when that
/// takes longer than [`PATIENCE`].
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let held = async {
        while !holds() {
            sleep(PAUSE).await;
        }
    };
    in_time(what, held).await;
}

/// As [`until`], for a condition that needs I/O: pauses a few milliseconds between tries.
///
/// In a spawned task the closure must own what it uses (`async move`): a future that borrows from
/// an async closure is not `Send`.
pub async fn until_async(what: &str, holds: impl AsyncFnMut() -> bool) {
    assert!(
        holds_within(PATIENCE, holds).await,
        "waited in vain: {what}"
    );
}

/// Polls as [`until_async`] does. Returns whether the condition came to hold within the limit, for
/// callers with a limit or a message of their own.
pub async fn holds_within(limit: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let held = async {
        while !holds().await {
            sleep(IO_PAUSE).await;
        }
    };
    timeout(limit, held).await.is_ok()
}

/// Fails the test if something took longer than is promised, and than a loaded machine explains.
#[track_caller]
pub fn assert_soon(promised: Duration, took: Duration) {
    let limit = promised + LATENESS;
    assert!(took <= limit, "{took:?}, and {promised:?} is promised");
}

/// What comes within [`PATIENCE`]. Fails the test when nothing does.
pub async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> T {
    timeout(PATIENCE, coming)
        .await
        .unwrap_or_else(|_| panic!("waited in vain: {what}"))
}
