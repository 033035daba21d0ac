//! Accepts connections: each gets a permit and a task of its own.

use std::{io, net::SocketAddr, pin::pin, rc::Rc, sync::Arc, time::Duration};

use socket2::{SockFilter, SockRef};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

use super::{
    connection,
    connection_limit::ConnectionLimit,
    metrics::ListenerMetrics,
    service::{AcceptedStream, MakeService},
    settings::ListenerSettings,
};
use crate::ops::drain::DrainWatcher;

/// Pause after an accept error that is not about one connection: no file descriptors left (EMFILE,
/// ENFILE). The connection stays in the queue, so without a pause the next attempts would fail at
/// once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time for TCP handshakes that have begun when the listener stops. A client that starts one later
/// retries after a second, as with any lost packet, and is refused then or reaches the process that
/// takes over.
const ACCEPT_DRAIN: Duration = Duration::from_millis(50);
/// Drops a segment that begins a connection (SYN without ACK) and lets all others pass. The socket
/// filter of a TCP listener sees segments from the TCP header on; its flags are in byte 13 (RFC
/// 9293 section 3.1).
const NO_NEW_CONNECTIONS: [SockFilter; 5] = [
    // Loads the byte at 13 (BPF_LD | BPF_B | BPF_ABS), keeps SYN and ACK of it (BPF_ALU | BPF_AND |
    // BPF_K), compares with SYN alone (BPF_JMP | BPF_JEQ | BPF_K), and returns (BPF_RET | BPF_K)
    // how many bytes pass.
    SockFilter::new(0x30, 0, 0, 13),
    SockFilter::new(0x54, 0, 0, 0x02 | 0x10),
    SockFilter::new(0x15, 0, 1, 0x02),
    SockFilter::new(0x06, 0, 0, 0),
    SockFilter::new(0x06, 0, 0, u32::MAX),
];
/// Accept errors are logged at most this often, so that they do not fill the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Accepts connections until the process stops. Runs on one data thread.
///
/// A shared listener is left as it is: the process that goes on with it serves its queue.
pub async fn accept(
    listener: TcpListener,
    is_shared: bool,
    settings: Rc<ListenerSettings>,
    make_service: Rc<impl MakeService>,
    limit: Arc<ConnectionLimit>,
    metrics: Arc<ListenerMetrics>,
    mut drain: DrainWatcher,
) {
    let acceptor = Acceptor {
        settings,
        make_service,
        limit,
        metrics,
    };
    acceptor.run(&listener, &mut drain).await;
    if !is_shared {
        acceptor.finish(listener, &drain).await;
    }
}

struct Acceptor<M> {
    settings: Rc<ListenerSettings>,
    make_service: Rc<M>,
    limit: Arc<ConnectionLimit>,
    metrics: Arc<ListenerMetrics>,
}

impl<M: MakeService> Acceptor<M> {
    async fn run(&self, listener: &TcpListener, drain: &mut DrainWatcher) {
        let mut logged: Option<Instant> = None;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = drain.stopping() => return,
            };
            let error = match accepted {
                Ok((stream, address)) => {
                    self.spawn(stream, address, drain.clone());
                    continue;
                }
                Err(error) if is_about_one_connection(&error) => continue,
                Err(error) => error,
            };
            self.metrics.accept_failures.inc();
            if logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
                tracing::warn!(%error, "cannot accept connections, trying again");
                logged = Some(Instant::now());
            }
            tokio::select! {
                () = sleep(ACCEPT_PAUSE) => {}
                () = drain.stopping() => return,
            }
        }
    }

    /// Serves the connections that are still in the queue, since closing a listener resets them.
    ///
    /// New handshakes are filtered out first. Without the filter (a sandbox) a few connections may
    /// still be reset.
    async fn finish(&self, listener: TcpListener, drain: &DrainWatcher) {
        let _ = SockRef::from(&listener).attach_filter(&NO_NEW_CONNECTIONS);
        let mut end = pin!(sleep(ACCEPT_DRAIN));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = end.as_mut() => break,
            };
            match accepted {
                Ok((stream, address)) => self.spawn(stream, address, drain.clone()),
                Err(error) if is_about_one_connection(&error) => {}
                Err(_) => break,
            }
        }
        // Accepts directly from the system: the runtime may not know of the last connections yet.
        let Ok(listener) = listener.into_std() else {
            return;
        };
        while let Ok((stream, address)) = listener.accept() {
            if stream.set_nonblocking(true).is_ok()
                && let Ok(stream) = TcpStream::from_std(stream)
            {
                self.spawn(stream, address, drain.clone());
            }
        }
    }

    /// Serves a connection in a task of its own. Without a permit the stream is closed silently: a
    /// response would cost more than a full gateway has.
    fn spawn(&self, stream: TcpStream, address: SocketAddr, drain: DrainWatcher) {
        let Some(permit) = self.limit.acquire() else {
            return;
        };
        // A connection that must send a PROXY header is counted later, under the client it names.
        let permit = if self.settings.expects_proxy_header(address) {
            Some(permit)
        } else {
            permit.for_client(address.ip())
        };
        let Some(permit) = permit else { return };
        let accepted = AcceptedStream {
            stream,
            address,
            permit,
        };
        tokio::task::spawn_local(connection::serve(
            accepted,
            self.settings.clone(),
            self.make_service.clone(),
            self.metrics.clone(),
            drain,
        ));
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
