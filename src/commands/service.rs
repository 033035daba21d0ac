//! What the control planes' commands have in common: each loads a configuration file, and serves
//! until a signal.

use std::{path::Path, time::Duration};

use anyhow::Context;

use super::{
    exit_code::{BAD_CONFIGURATION, DONE, FAILED},
    file_reload::FileReload,
    signals::{ProcessSignal, Signals},
};
use crate::{
    cli::ServiceArgs,
    ops::{
        configuration_status::ConfigurationStatus,
        core_dumps,
        drain::Drain,
        file_watch::POLL_INTERVAL,
        logging::{self, LogSettings},
    },
    settings::ConfigErrors,
};

/// Longest time for open requests, and to release the lease.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// The signals of a process, and its configuration file.
pub(super) struct Service {
    signals: Signals,
    reload: FileReload,
}

/// Loads the settings, serves with them, and returns the exit code. `log` finds the settings of the
/// log.
pub(super) fn run<S>(
    args: &ServiceArgs,
    load: impl FnOnce(&Path) -> Result<S, ConfigErrors>,
    log: impl FnOnce(&S) -> &LogSettings,
    serve: impl AsyncFnOnce(S, Service) -> anyhow::Result<()>,
) -> u8 {
    let settings = match load(args.path()) {
        Ok(settings) => settings,
        Err(errors) => {
            eprintln!("{}:\n{errors}", args.path().display());
            return BAD_CONFIGURATION;
        }
    };
    logging::start(log(&settings));
    core_dumps::disable();
    match start(args.path(), settings, serve) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("{error:#}");
            FAILED
        }
    }
}

fn start<S>(
    config: &Path,
    settings: S,
    serve: impl AsyncFnOnce(S, Service) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let signals = Signals::register().context("cannot wait for signals")?;
        let reload = FileReload::new(config);
        serve(settings, Service { signals, reload }).await
    })
}

impl Service {
    /// Waits for the signal that stops the process. Until then it reloads the file when it changes
    /// or SIGHUP arrives, and has it applied by `apply`.
    pub(super) async fn reload_until_signal(
        &mut self,
        status: &ConfigurationStatus,
        apply: impl Fn(&Path) -> Result<(), ConfigErrors>,
    ) {
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        loop {
            let is_forced = tokio::select! {
                signal = self.signals.next() => match signal {
                    ProcessSignal::Reload => true,
                    ProcessSignal::Terminate | ProcessSignal::Interrupt => return,
                },
                _ = poll.tick() => false,
            };
            self.reload.poll(is_forced, status, &apply);
        }
    }

    /// Waits for the signal that stops the process. `refuse_reload` answers each SIGHUP.
    pub(super) async fn wait_for_signal(&mut self, refuse_reload: impl Fn()) {
        while let ProcessSignal::Reload = self.signals.next().await {
            refuse_reload();
        }
    }

    /// Stops the process.
    pub(super) async fn stop(self, drain: Drain) {
        tracing::info!("stopping");
        self.signals.exit_on_next();
        // A released lease is taken over by another process at once.
        drain.stop(STOP_DEADLINE).await;
    }
}
