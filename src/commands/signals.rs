//! Signals that stop the process or reload its configuration.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit_code::FAILED;

/// Registered signal handlers. Without them each signal kills the process. They are registered
/// before the first socket opens, since a supervisor may signal a process once it answers.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSignal {
    /// SIGTERM: a service manager stops the process.
    Terminate,
    /// SIGINT: a person at a terminal stops the process, without a grace period.
    Interrupt,
    /// SIGHUP: reload the configuration.
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

    /// Registers SIGTERM and SIGINT. SIGHUP keeps its default and ends the process, as it should
    /// when the terminal is closed.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn register_stop() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: None,
        })
    }

    /// The next signal. Cancel safety: may be dropped and called again.
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
