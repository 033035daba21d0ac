//! `ludgate labs`: the lab controller, until a signal.

use std::time::Duration;

use anyhow::Context;

use super::{
    exit_code::{BAD_CONFIGURATION, DONE, FAILED},
    lease_identity::lease_identity,
    signals::{ProcessSignal, Signals},
};
use crate::{
    cli::ServiceArgs,
    labs::images::PodOwner,
    model::clock::Clock,
    ops::{core_dumps, logging},
    run::labs::{LabsIdentity, start_labs},
    settings::{self, LabsSettings},
};

/// Longest time for open requests, and to release the lease.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// Runs the command, and returns the exit code.
pub fn run(args: &ServiceArgs) -> u8 {
    let settings = match settings::load_labs(args.path()) {
        Ok(settings) => settings,
        Err(errors) => {
            eprintln!("{}:\n{errors}", args.path().display());
            return BAD_CONFIGURATION;
        }
    };
    logging::start(&settings.log);
    core_dumps::disable();
    match serve(settings) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("{error:#}");
            FAILED
        }
    }
}

/// This process in the cluster. The shipped Deployments give these variables.
fn identity() -> LabsIdentity {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let pod = || {
        Some(PodOwner {
            name: variable("POD_NAME")?,
            namespace: variable("POD_NAMESPACE")?,
            uid: variable("POD_UID")?,
        })
    };
    LabsIdentity {
        lease: lease_identity(),
        pod: pod(),
    }
}

fn serve(settings: LabsSettings) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let mut signals = Signals::register().context("cannot wait for signals")?;
        let running = start_labs(settings, identity(), Clock::system()).await?;
        while let ProcessSignal::Reload = signals.next().await {
            // Sizes and images of labs that are being started must not change under them.
            tracing::warn!("labs read their configuration at start; restart to apply it");
        }
        tracing::info!("stopping");
        signals.exit_on_next();
        running.process.drain.stop(STOP_DEADLINE).await;
        Ok(())
    })
}
