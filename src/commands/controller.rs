//! `ludgate controller`: the controllers, until a signal.

use std::{path::Path, time::Duration};

use anyhow::Context;

use super::{
    exit_code::{BAD_CONFIGURATION, DONE, FAILED},
    file_reload::FileReload,
    lease_identity::lease_identity,
    signals::{ProcessSignal, Signals},
};
use crate::{
    cli::ServiceArgs,
    ops::{core_dumps, file_watch::POLL_INTERVAL, logging},
    run::controllers::{RunningControllers, start_controllers},
    settings::{self, ConfigErrors, ControllerSettings},
};

/// Longest time to release the lease.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// Runs the command, and returns the exit code.
pub fn run(args: &ServiceArgs) -> u8 {
    let settings = match settings::load_controller(args.path()) {
        Ok(settings) => settings,
        Err(errors) => {
            eprintln!("{}:\n{errors}", args.path().display());
            return BAD_CONFIGURATION;
        }
    };
    logging::start(&settings.log);
    core_dumps::disable();
    match serve(settings, args.path()) {
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
        let mut reload = FileReload::new(config);
        let running = start_controllers(settings, lease_identity()).await?;
        let status = &running.process.configuration;
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        loop {
            let is_forced = tokio::select! {
                signal = signals.next() => match signal {
                    ProcessSignal::Reload => true,
                    ProcessSignal::Terminate | ProcessSignal::Interrupt => break,
                },
                _ = poll.tick() => false,
            };
            reload.poll(is_forced, status, |file| replace_settings(file, &running));
        }
        tracing::info!("stopping");
        signals.exit_on_next();
        // Releases the lease, so that another process takes over at once.
        running.process.drain.stop(STOP_DEADLINE).await;
        Ok(())
    })
}

/// Groups, instance types and settings of the controllers change without a restart.
fn replace_settings(file: &Path, running: &RunningControllers) -> Result<(), ConfigErrors> {
    let settings = settings::load_controller(file)?;
    running.settings.replace(settings);
    Ok(())
}
