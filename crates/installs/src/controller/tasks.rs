//! Long work of a controller, each piece in a task of its own. All tasks end with the controller,
//! so that a replica that lost its lease runs no Helm.

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{sync::mpsc, task::JoinSet};

/// Starts tasks. Clones share the runner.
#[derive(Clone, Debug)]
pub(super) struct TaskSpawner {
    queue: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

/// Runs the tasks.
pub(super) struct TaskRunner {
    queue: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
}

/// A spawner and its runner.
pub(super) fn task_runner() -> (TaskSpawner, TaskRunner) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (
        TaskSpawner { queue: sender },
        TaskRunner { queue: receiver },
    )
}

impl TaskSpawner {
    /// Starts a task. Without a runner it is dropped: the controller ends.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let _ = self.queue.send(task.boxed());
    }
}

impl TaskRunner {
    /// Runs until it is dropped, which aborts all tasks.
    pub(super) async fn run(mut self) {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                task = self.queue.recv() => match task {
                    Some(task) => { running.spawn(task); }
                    None => return,
                },
                Some(ended) = running.join_next(), if !running.is_empty() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a task of the controller ended early");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn tasks_end_with_their_runner() {
        let (spawner, runner) = task_runner();
        let running = tokio::spawn(runner.run());
        let (started, has_started) = oneshot::channel();
        let (alive, is_dropped) = oneshot::channel::<()>();
        spawner.spawn(async move {
            let _alive = alive;
            let _ = started.send(());
            std::future::pending::<()>().await;
        });
        has_started.await.expect("it runs");
        running.abort();
        // The sender is dropped with the task.
        assert!(is_dropped.await.is_err());
    }
}
