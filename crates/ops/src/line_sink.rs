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

/// A handle to the sink; every data thread has its own.
#[derive(Clone, Debug)]
pub struct LineSink {
    batches: Option<SyncSender<Message>>,
    dropped: Counter,
}

/// What the writer is told.
#[derive(Debug)]
enum Message {
    Batch(Vec<u8>),
    /// Everything before this was written.
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
                        // A closed standard output must not end the gateway; the lines are lost, as
                        // they would be anyway.
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

    /// A sink that keeps nothing: request logging is off.
    pub fn off() -> LineSink {
        LineSink {
            batches: None,
            dropped: Counter::default(),
        }
    }

    /// Whether anybody reads the lines; when not, none is written.
    pub fn is_on(&self) -> bool {
        self.batches.is_some()
    }

    /// Waits until everything handed over so far was written, but not longer than this. Blocks.
    pub fn finish(&self, within: Duration) {
        let (done, written) = sync_channel(1);
        if let Some(batches) = &self.batches
            && batches.try_send(Message::Written(done)).is_ok()
        {
            let _ = written.recv_timeout(within);
        }
    }

    /// ManualClock over a batch of `lines` whole lines.
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
