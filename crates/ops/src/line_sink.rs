//! The sink of the request log: one writer thread, fed with whole batches of lines.
//!
//! Invariant: a request never waits for the sink. When it stalls, batches are dropped and counted.

use std::{
    io::Write,
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    thread,
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;

use crate::metrics::Registry;

/// Batches waiting for the writer; a batch is at most some tens of KiB.
const QUEUE: usize = 256;

/// A handle to the sink. Each data thread has one.
#[derive(Clone, Debug)]
pub struct LineSink {
    batches: Option<SyncSender<Message>>,
    dropped: Counter,
}

/// A message to the writer.
#[derive(Debug)]
enum Message {
    Batch(Vec<u8>),
    /// Asks for a signal once all earlier batches are written.
    Written(SyncSender<()>),
}

impl LineSink {
    /// Starts the writer thread on the given output. It ends when the last handle is dropped.
    pub fn start(mut output: impl Write + Send + 'static, registry: &Registry) -> LineSink {
        let dropped = Counter::default();
        registry.register("log_lines_dropped", "Log lines dropped", dropped.clone());
        let (sender, messages): (SyncSender<Message>, Receiver<Message>) = sync_channel(QUEUE);
        thread::Builder::new()
            .name("ludgate-log".into())
            .spawn(move || {
                for message in messages {
                    match message {
                        // A closed standard output must not end the gateway; only the lines are
                        // lost.
                        Message::Batch(batch) => {
                            let _ = output.write_all(&batch).and_then(|()| output.flush());
                        }
                        Message::Written(done) => {
                            let _ = done.try_send(());
                        }
                    }
                }
            })
            .map(|_| LineSink {
                batches: Some(sender),
                dropped: dropped.clone(),
            })
            .unwrap_or(LineSink {
                batches: None,
                dropped,
            })
    }

    /// A sink that discards all lines: request logging is off.
    pub fn off() -> LineSink {
        LineSink {
            batches: None,
            dropped: Counter::default(),
        }
    }

    /// Whether lines are written. If not, callers need not render them.
    pub fn is_on(&self) -> bool {
        self.batches.is_some()
    }

    /// Blocks until all batches sent so far are written, up to a deadline.
    pub fn finish(&self, within: Duration) {
        let (done, written) = sync_channel(1);
        if let Some(batches) = &self.batches
            && batches.try_send(Message::Written(done)).is_ok()
        {
            let _ = written.recv_timeout(within);
        }
    }

    /// Sends a batch of `lines` whole lines. Drops and counts them if the queue is full.
    pub fn send(&self, batch: Vec<u8>, lines: u64) {
        let Some(batches) = &self.batches else { return };
        match batches.try_send(Message::Batch(batch)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.inc_by(lines);
            }
        }
    }
}
