//! Runs many commands with a bounded number in flight.

use futures_util::future::join_all;

/// Runs all tasks in batches of `limit`, so that a large store does not flood the connection.
pub(crate) async fn run_bounded<T>(
    tasks: impl Iterator<Item = impl Future<Output = T>>,
    limit: usize,
) -> Vec<T> {
    let mut tasks = tasks.peekable();
    let mut results = Vec::new();
    while tasks.peek().is_some() {
        results.extend(join_all(tasks.by_ref().take(limit)).await);
    }
    results
}
