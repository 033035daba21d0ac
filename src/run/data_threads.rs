//! The data threads: one current-thread runtime per core, each with sockets of its own.

use std::{io, rc::Rc, sync::Arc, thread::JoinHandle};

use tokio::{
    net::TcpListener,
    runtime::{Builder, LocalOptions},
    sync::{oneshot, watch},
};

use crate::{
    gateway::Gateway,
    handler::{Handler, service::Service},
    listener::{
        ListenerSettings, accept, connection_limit::ConnectionLimit, metrics::ListenerMetrics,
    },
    ops::drain::{Drain, DrainWatcher},
    peer::PeerSettings,
};

/// One public listener, as one data thread has it.
pub(super) struct ThreadListener {
    pub(super) socket: std::net::TcpListener,
    pub(super) is_shared: bool,
    pub(super) settings: ListenerSettings,
    pub(super) peers: PeerSettings,
    pub(super) limit: Arc<ConnectionLimit>,
}

/// The running data threads.
pub(super) struct DataThreads {
    threads: Vec<JoinHandle<()>>,
    finish: watch::Sender<bool>,
}

/// The parts of one data thread.
struct ThreadPlan {
    listeners: Vec<ThreadListener>,
    gateway: Arc<Gateway>,
    metrics: Arc<ListenerMetrics>,
    drain: DrainWatcher,
    finished: watch::Receiver<bool>,
}

impl DataThreads {
    /// Starts one thread per list of sockets, and waits until all of them accept connections.
    ///
    /// # Errors
    /// When the system refuses a thread, its runtime or its sockets, such as when file descriptors
    /// have run out.
    pub(super) async fn start(
        listeners: Vec<Vec<ThreadListener>>,
        gateway: &Arc<Gateway>,
        metrics: &Arc<ListenerMetrics>,
        drain: &Drain,
    ) -> io::Result<DataThreads> {
        let (finish, finished) = watch::channel(false);
        let (mut threads, mut started) = (Vec::new(), Vec::new());
        for (index, listeners) in listeners.into_iter().enumerate() {
            let plan = ThreadPlan {
                listeners,
                gateway: gateway.clone(),
                metrics: metrics.clone(),
                drain: drain.watcher(),
                finished: finished.clone(),
            };
            let (start, result) = oneshot::channel();
            let thread = std::thread::Builder::new()
                .name(format!("ludgate-data-{index}"))
                .spawn(move || plan.run(start))?;
            threads.push(thread);
            started.push(result);
        }
        for result in started {
            // Without a result the thread has panicked.
            result.await.map_err(io::Error::other)??;
        }
        Ok(DataThreads { threads, finish })
    }

    /// Ends the threads and closes their remaining connections. Returns whether none panicked.
    /// Blocks for as long as a thread needs to drop its tasks.
    pub(super) fn finish(self) -> bool {
        self.finish.send_replace(true);
        // The others are awaited also after one that panicked.
        let ended: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        ended.iter().all(Result::is_ok)
    }
}

impl ThreadPlan {
    /// Runs the thread. `started` gets the result of its start.
    fn run(self, started: oneshot::Sender<io::Result<()>>) {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default());
        match runtime {
            Ok(runtime) => runtime.block_on(self.serve(started)),
            Err(error) => drop(started.send(Err(error))),
        }
    }

    async fn serve(self, started: oneshot::Sender<io::Result<()>>) {
        let mut finished = self.finished.clone();
        // Nothing receives it if another thread could not start. After any failed start `finished`
        // ends too.
        let _ = started.send(self.accept());
        // Connections that are still finishing live on this runtime. It ends after the drain.
        let _ = finished.wait_for(|finished| *finished).await;
    }

    /// Begins to accept connections from all sockets.
    fn accept(self) -> io::Result<()> {
        let handler = Handler::start(self.gateway);
        for listener in self.listeners {
            let socket = TcpListener::from_std(listener.socket)?;
            let service = Rc::new(Service {
                handler: handler.clone(),
                peers: listener.peers,
                redirects: listener.settings.redirects,
            });
            tokio::task::spawn_local(accept::accept(
                socket,
                listener.is_shared,
                Rc::new(listener.settings),
                service,
                listener.limit,
                self.metrics.clone(),
                self.drain.clone(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn all_threads_are_awaited_also_after_one_that_panicked() {
        let (finish, mut finished) = watch::channel(false);
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = has_ended.clone();
        let serving = move || {
            let runtime = Builder::new_current_thread().build().expect("a runtime");
            let _ = runtime.block_on(finished.wait_for(|finished| *finished));
            ended.store(true, Ordering::Release);
        };
        let threads = DataThreads {
            threads: vec![
                std::thread::spawn(|| panic!("a panic of this test")),
                std::thread::spawn(serving),
            ],
            finish,
        };
        assert!(!threads.finish());
        assert!(has_ended.load(Ordering::Acquire));
    }
}
