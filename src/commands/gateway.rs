//! `ludgate gateway`: the data plane, until a signal.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::{BAD_CONFIGURATION, DONE, FAILED};
use crate::{
    cli::GatewayArgs,
    listener::ListenError,
    run::{self, Options, StartError},
    settings,
    telemetry::logging,
};

/// Runs it.
pub fn run(args: &GatewayArgs) -> u8 {
    let settings = match settings::load(&args.config) {
        Ok(settings) => settings,
        Err(mistakes) => {
            eprintln!("{}:\n{mistakes}", args.config.display());
            return BAD_CONFIGURATION;
        }
    };
    logging::start(&settings.log);
    match serve(settings) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("{error:#}");
            let in_use = matches!(
                error.downcast_ref::<StartError>(),
                Some(
                    StartError::Listen(ListenError::InUse(_))
                        | StartError::Trust(_)
                        | StartError::Kubernetes(_)
                )
            );
            if in_use { BAD_CONFIGURATION } else { FAILED }
        }
    }
}

fn serve(settings: settings::Settings) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the control runtime")?;
    runtime.block_on(async {
        let running = run::start(settings, Options::of_this_machine()).await?;
        until_signal().await.context("cannot wait for signals")?;
        tracing::info!("stopping");
        if !running.stop().await {
            tracing::warn!("some requests did not finish in time");
        }
        Ok(())
    })
}

/// Waits for SIGTERM or SIGINT. A second one ends the process at once, as its default does.
pub async fn until_signal() -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(i32::from(FAILED));
    });
    Ok(())
}
