//! `ludgate labs`: the lab controller, until a signal.

use super::{lease_identity::lease_identity, service};
use crate::{
    cli::ServiceArgs,
    labs::images::PodOwner,
    model::clock::Clock,
    run::labs::{LabsIdentity, start_labs},
    settings,
};

/// Runs the command, and returns the exit code.
pub fn run(args: &ServiceArgs) -> u8 {
    service::run(
        args,
        settings::load_labs,
        |settings| &settings.log,
        async |settings, mut service| {
            let running = start_labs(settings, identity(), Clock::system()).await?;
            // Sizes and images of labs that are being started must not change under them.
            let refuse = || {
                tracing::warn!("labs read their configuration at start; restart to apply it");
            };
            service.wait_for_signal(refuse).await;
            service.stop(running.process.drain).await;
            Ok(())
        },
    )
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
