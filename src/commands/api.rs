//! `ludgate api`: the API for people and their tools, until a signal.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context;

use super::{
    exit_code::{BAD_CONFIGURATION, DONE, FAILED},
    file_reload::FileReload,
    signals::{ProcessSignal, Signals},
};
use crate::{
    cli::ServiceArgs,
    model::clock::Clock,
    ops::{core_dumps, file_watch::POLL_INTERVAL, logging},
    run::api::{RunningApi, start_api},
    settings::{self, ApiSettings, ConfigErrors},
};

/// Longest time for open requests.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// Runs the command, and returns the exit code.
pub fn run(args: &ServiceArgs) -> u8 {
    let settings = match settings::load_api(args.path()) {
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

fn serve(settings: ApiSettings, config: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let mut signals = Signals::register().context("cannot wait for signals")?;
        let mut reload = FileReload::new(config);
        let running = start_api(settings, Clock::system()).await?;
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
            reload.poll(is_forced, status, |file| replace_platform(file, &running));
        }
        tracing::info!("stopping");
        signals.exit_on_next();
        running.process.drain.stop(STOP_DEADLINE).await;
        Ok(())
    })
}

/// Groups and instance types change without a restart.
fn replace_platform(file: &Path, running: &RunningApi) -> Result<(), ConfigErrors> {
    let settings = settings::load_api(file)?;
    running
        .platform
        .send_replace(Arc::new(settings.service.platform));
    Ok(())
}
