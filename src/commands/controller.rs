//! `ludgate controller`: the controllers, until a signal.

use std::path::Path;

use super::{lease_identity::lease_identity, service};
use crate::{
    cli::ServiceArgs,
    run::controllers::{RunningControllers, start_controllers},
    settings::{self, ConfigErrors},
};

/// Runs the command, and returns the exit code.
pub fn run(args: &ServiceArgs) -> u8 {
    service::run(
        args,
        settings::load_controller,
        |settings| &settings.log,
        async |settings, mut service| {
            let running = start_controllers(settings, lease_identity()).await?;
            let apply = |file: &Path| replace_settings(file, &running);
            let status = &running.process.configuration;
            service.reload_until_signal(status, apply).await;
            service.stop(running.process.drain).await;
            Ok(())
        },
    )
}

/// Groups, instance types and settings of the controllers change without a restart.
fn replace_settings(file: &Path, running: &RunningControllers) -> Result<(), ConfigErrors> {
    let settings = settings::load_controller(file)?;
    running.settings.replace(settings);
    Ok(())
}
