//! Waiting for something that tells nobody when it happens.

use tokio::{task::yield_now, time::timeout};

use super::message::PATIENCE;

/// Waits until the condition holds. Fails the test when that takes longer than [`PATIENCE`].
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let held = async {
        while !holds() {
            yield_now().await;
        }
    };
    assert!(
        timeout(PATIENCE, held).await.is_ok(),
        "waited in vain: {what}"
    );
}
