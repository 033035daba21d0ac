//! `ludgate gateway`: the data plane, until a signal.

use std::{thread, time::Duration};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::{BAD_CONFIGURATION, DONE, FAILED, reload::Reload};
use crate::{
    cli::GatewayArgs,
    listener::{ListenError, descriptors, inherited::Inherited},
    run::{self, Options, StartError},
    settings,
    telemetry::logging,
};

/// The configuration file is looked at this often.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Runs it.
pub fn run(args: &GatewayArgs) -> u8 {
    let reload = Reload::new(&args.config);
    let settings = match reload.settings() {
        Ok(settings) => settings,
        Err(mistakes) => {
            eprintln!("{}:\n{mistakes}", args.config.display());
            return BAD_CONFIGURATION;
        }
    };
    logging::start(&settings.log);
    descriptors::raise();
    // Before there is a second thread: what names them is taken out of the environment.
    let inherited = match Inherited::from_environment() {
        Ok(inherited) => inherited,
        Err(error) => {
            eprintln!("LISTEN_FDS names what is no listening socket: {error}");
            return BAD_CONFIGURATION;
        }
    };
    let keys = settings.keys.clone();
    // Beside the start; the thread ends by itself. Without one, whoever needs a key first waits for it.
    let _ = thread::Builder::new().name("randomness".into()).spawn(move || keys.prepare());
    match serve(settings, reload, inherited) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("{error:#}");
            let in_use = matches!(
                error.downcast_ref::<StartError>(),
                Some(
                    StartError::Listen(ListenError::InUse(_) | ListenError::Unclaimed(_))
                        | StartError::Trust(_)
                        | StartError::Kubernetes(_)
                )
            );
            if in_use { BAD_CONFIGURATION } else { FAILED }
        }
    }
}

fn serve(settings: settings::Settings, mut reload: Reload, inherited: Inherited) -> anyhow::Result<()> {
    let grace = settings.stop_grace;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the control runtime")?;
    runtime.block_on(async {
        let running = run::start(settings, Options { inherited, ..Options::of_this_machine() }).await?;
        let mut asked = signal(SignalKind::hangup()).context("cannot wait for signals")?;
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut stop = std::pin::pin!(until_signal());
        let told = loop {
            tokio::select! {
                told = stop.as_mut() => break told.context("cannot wait for signals")?,
                _ = asked.recv() => reload.look(&running, true),
                _ = look.tick() => reload.look(&running, false),
            }
        };
        let retired = running.retire();
        if told == Told::Terminate && !grace.is_zero() {
            tracing::info!(seconds = grace.as_secs(), "told to stop; still taking connections");
            let end = tokio::time::sleep(grace);
            let mut end = std::pin::pin!(end);
            loop {
                tokio::select! {
                    () = end.as_mut() => break,
                    _ = asked.recv() => reload.look(&running, true),
                    _ = look.tick() => reload.look(&running, false),
                }
            }
        }
        tracing::info!("stopping");
        let in_time = running.stop().await;
        drop(retired);
        if !in_time {
            tracing::warn!("some requests did not finish in time");
        }
        Ok(())
    })
}

/// Which signal came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// SIGTERM: whoever runs the process.
    Terminate,
    /// SIGINT: somebody at a terminal, who does not want to wait.
    Interrupt,
}

/// Waits for SIGTERM or SIGINT. A second one ends the process at once, as its default does.
pub async fn until_signal() -> std::io::Result<Told> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let told = tokio::select! {
        _ = terminate.recv() => Told::Terminate,
        _ = interrupt.recv() => Told::Interrupt,
    };
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(i32::from(FAILED));
    });
    Ok(told)
}
