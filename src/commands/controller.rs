//! `ludgate controller`: the controllers, until a signal.

use std::{
    hash::{BuildHasher, RandomState},
    path::Path,
    process,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;

use super::{
    exit_code::{BAD_CONFIGURATION, DONE, FAILED},
    signals::{ProcessSignal, Signals},
};
use crate::{
    cli::ControllerArgs,
    ops::{
        core_dumps,
        file_watch::{POLL_INTERVAL, WatchedFile},
        logging,
    },
    run::controllers::{RunningControllers, start_controllers},
    settings::{self, ControllerSettings},
};

/// Longest time to release the lease.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// Runs the command, and returns the exit code.
pub fn run(args: &ControllerArgs) -> u8 {
    let settings = match settings::load_controller(&args.config) {
        Ok(settings) => settings,
        Err(errors) => {
            eprintln!("{}:\n{errors}", args.config.display());
            return BAD_CONFIGURATION;
        }
    };
    logging::start(&settings.log);
    core_dumps::disable();
    match serve(settings, &args.config) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("{error:#}");
            FAILED
        }
    }
}

fn serve(settings: ControllerSettings, config: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let mut signals = Signals::register().context("cannot wait for signals")?;
        let mut reload = Reload::new(config);
        let running = start_controllers(settings, identity()).await?;
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        loop {
            tokio::select! {
                signal = signals.next() => match signal {
                    ProcessSignal::Reload => reload.poll(&running, true),
                    ProcessSignal::Terminate | ProcessSignal::Interrupt => break,
                },
                _ = poll.tick() => reload.poll(&running, false),
            }
        }
        tracing::info!("stopping");
        signals.exit_on_next();
        // Releases the lease, so that another process takes over at once.
        running.process.drain.stop(STOP_DEADLINE).await;
        Ok(())
    })
}

/// Names this process in the lease: the pod, and a number that no other process has. A restarted
/// container waits until the lease of its predecessor expires.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "ludgate".to_owned());
    // Each `RandomState` has its own key.
    format!("{host}_{:016x}", RandomState::new().hash_one(process::id()))
}

/// Reloads the configuration file. Groups, instance types and settings of apps change without a
/// restart.
struct Reload {
    file: WatchedFile,
    /// The text that was loaded last, valid or not.
    loaded: Option<String>,
}

impl Reload {
    fn new(config: &Path) -> Reload {
        let file = WatchedFile::new(config);
        let loaded = file.content().map(str::to_owned);
        Reload { file, loaded }
    }

    /// Reads the file again if it has changed and is not being written, or if `is_forced`.
    fn poll(&mut self, running: &RunningControllers, is_forced: bool) {
        let (_, is_settled) = self.file.read();
        let is_loaded = self.file.content() == self.loaded.as_deref();
        if !is_forced && (!is_settled || is_loaded) {
            return;
        }
        self.loaded = self.file.content().map(str::to_owned);
        let configuration = &running.process.configuration;
        match settings::load_controller(self.file.path()) {
            Ok(settings) => {
                running
                    .applications
                    .send_replace(Arc::new(settings.applications));
                configuration.set(true, "reloaded".to_owned());
                tracing::info!("reloaded the configuration");
            }
            Err(errors) => {
                configuration.set(false, errors.to_string());
                tracing::warn!(%errors, "cannot reload the configuration; the previous one stays in force");
            }
        }
    }
}
