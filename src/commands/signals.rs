//! The signals that a process is stopped or told to read its configuration by.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::FAILED;

/// Handlers that are registered. Until they are, each of these signals kills the process, so this
/// comes before the first socket: as soon as the process answers, its supervisor may signal it.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

/// What the process was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSignal {
    /// SIGTERM: a service manager stops it.
    Terminate,
    /// SIGINT: a person at a terminal stops it, and does not want to wait.
    Interrupt,
    /// SIGHUP: read the configuration again.
    Reload,
}

impl Signals {
    /// Registers SIGTERM, SIGINT and SIGHUP.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn register() -> std::io::Result<Signals> {
        let hangup = Some(signal(SignalKind::hangup())?);
        Ok(Signals {
            hangup,
            ..Signals::register_stop()?
        })
    }

    /// Registers SIGTERM and SIGINT; SIGHUP ends the process, as it should when its terminal is
    /// closed.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn register_stop() -> std::io::Result<Signals> {
        let (terminate, interrupt) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        Ok(Signals {
            terminate,
            interrupt,
            hangup: None,
        })
    }

    /// The next of them. Cancel safety: may be dropped and called again.
    pub async fn next(&mut self) -> ProcessSignal {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => ProcessSignal::Terminate,
            _ = self.interrupt.recv() => ProcessSignal::Interrupt,
            _ = hangup => ProcessSignal::Reload,
        }
    }

    /// From now on SIGTERM and SIGINT end the process at once, as they do by default.
    pub fn exit_on_next(self) {
        let Signals {
            mut terminate,
            mut interrupt,
            ..
        } = self;
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(i32::from(FAILED));
        });
    }
}
