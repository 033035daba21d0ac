//! Accepting: each connection gets a seat and a task of its own.

use std::{io, rc::Rc, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};

use super::{
    Settings,
    connection::{Arrived, Serve, connection},
    seats::Seats,
};
use crate::{lifecycle::drain::DrainWatcher, telemetry::metrics::Metrics};

/// Pause after an accept error that is not about one connection: no file descriptors left (EMFILE, ENFILE).
/// The connection stays in the queue, so without a pause the next try would fail at once, and so on.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often that is said in the log.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Takes connections until the drain; never ends before. Runs on one data thread.
pub async fn accept(
    listener: TcpListener,
    settings: Rc<Settings>,
    serve: Rc<impl Serve>,
    seats: Arc<Seats>,
    metrics: Arc<Metrics>,
    mut drain: DrainWatcher,
) {
    let mut told: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = drain.stopping() => return,
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
                    () = drain.stopping() => return,
                }
            }
        };
        // Without a seat the stream is closed without an answer: an answer costs more than a full gateway
        // can give. Who is introduced is counted under the address that will be named.
        let Some(seat) = seats.take() else { continue };
        let seat = if settings.is_introduced(address) { Some(seat) } else { seat.of_client(address.ip()) };
        let Some(seat) = seat else { continue };
        let arrived = Arrived { stream, address, seat };
        let connection = connection(arrived, settings.clone(), serve.clone(), metrics.clone(), drain.clone());
        tokio::task::spawn_local(connection);
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
