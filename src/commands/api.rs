//! `ludgate api`: the API for people and their tools, until a signal.

use std::{path::Path, sync::Arc};

use super::service;
use crate::{
    cli::ServiceArgs,
    model::clock::Clock,
    run::api::{RunningApi, start_api},
    settings::{self, ConfigErrors},
};

/// Runs the command, and returns the exit code.
pub fn run(args: &ServiceArgs) -> u8 {
    service::run(
        args,
        settings::load_api,
        |settings| &settings.log,
        async |settings, mut service| {
            let running = start_api(settings, Clock::system()).await?;
            let apply = |file: &Path| replace_platform(file, &running);
            let status = &running.process.configuration;
            service.reload_until_signal(status, apply).await;
            service.stop(running.process.drain).await;
            Ok(())
        },
    )
}

/// Groups and instance types change without a restart.
fn replace_platform(file: &Path, running: &RunningApi) -> Result<(), ConfigErrors> {
    let settings = settings::load_api(file)?;
    running
        .platform
        .send_replace(Arc::new(settings.service.platform));
    Ok(())
}
