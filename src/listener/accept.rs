//! Accepting: each connection gets a seat and a task of its own.

use std::{io, net::SocketAddr, pin::pin, rc::Rc, sync::Arc, time::Duration};

use socket2::{SockFilter, SockRef};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

use super::metrics::ListenerMetrics;
use super::{
    ListenerSettings,
    connection::{AcceptedStream, MakeService, connection},
    connection_limit::ConnectionLimit,
};
use crate::ops::drain::DrainWatcher;

/// Pause after an accept error that is not about one connection: no file descriptors left (EMFILE,
/// ENFILE). The connection stays in the queue, so without a pause the next try would fail at once,
/// and so on.
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
/// How often that is said in the log.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Takes connections until the drain; never ends before. Runs on one data thread. A listener that
/// is shared with another process stays as it is.
pub async fn accept(
    (listener, is_shared): (TcpListener, bool),
    settings: Rc<ListenerSettings>,
    serve: Rc<impl MakeService>,
    limit: Arc<ConnectionLimit>,
    metrics: Arc<ListenerMetrics>,
    mut drain: DrainWatcher,
) {
    let serve_one = |stream: TcpStream, address: SocketAddr, drain: DrainWatcher| {
        // Without a seat the stream is closed without an answer: an answer costs more than a full
        // gateway can give. Who is introduced is counted under the address that will be named.
        let Some(permit) = limit.acquire() else {
            return;
        };
        let permit = if settings.is_introduced(address) {
            Some(permit)
        } else {
            permit.for_client(address.ip())
        };
        let Some(permit) = permit else { return };
        let arrived = AcceptedStream {
            stream,
            address,
            permit,
        };
        let connection = connection(
            arrived,
            settings.clone(),
            serve.clone(),
            metrics.clone(),
            drain,
        );
        tokio::task::spawn_local(connection);
    };
    let mut told: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = drain.stopping() => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_about_one_connection(&error) => continue,
            Err(error) => {
                metrics.accept_failures.inc();
                // Counted each time, but said seldom: a log that fills helps nobody.
                if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                    tracing::warn!(%error, "cannot accept connections, trying again");
                    told = Some(Instant::now());
                }
                tokio::select! {
                    () = sleep(ACCEPT_PAUSE) => continue,
                    () = drain.stopping() => break,
                }
            }
        };
        serve_one(stream, address, drain.clone());
    }
    if is_shared {
        // What waits there is for the process that goes on with it.
        return;
    }
    // Closing a listener resets the connections in its accept queue. So new handshakes are filtered
    // first, and the queue is emptied. Without the filter (a sandbox) a few connections may still
    // be reset.
    let _ = SockRef::from(&listener).attach_filter(&NO_NEW_CONNECTIONS);
    let mut end = pin!(sleep(ACCEPT_DRAIN));
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                match accepted {
                    Ok((stream, address)) => serve_one(stream, address, drain.clone()),
                    Err(error) if is_about_one_connection(&error) => {}
                    Err(_) => break,
                }
            }
            () = end.as_mut() => break,
        }
    }
    // The system is asked itself: the runtime may not have heard yet what waits.
    let Ok(listener) = listener.into_std() else {
        return;
    };
    while let Ok((stream, address)) = listener.accept() {
        if stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            serve_one(stream, address, drain.clone());
        }
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
