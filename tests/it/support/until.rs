//! Waiting, always with a deadline.

use std::future::Future;

use tokio::{task::yield_now, time::timeout};

use super::message::PATIENCE;

/// Polls until the condition holds, for conditions without a notification. Fails the test when that
/// takes longer than [`PATIENCE`].
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let held = async {
        while !holds() {
            yield_now().await;
        }
    };
    in_time(what, held).await;
}

/// What comes within [`PATIENCE`]. Fails the test when nothing does.
pub async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> T {
    timeout(PATIENCE, coming)
        .await
        .unwrap_or_else(|_| panic!("waited in vain: {what}"))
}
