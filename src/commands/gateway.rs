//! `ludgate gateway`: the data plane, until a signal.

use std::{thread, time::Duration};

use anyhow::Context;

use super::{
    BAD_CONFIGURATION, DONE, FAILED,
    reload::Reload,
    signals::{ProcessSignal, Signals},
};
use crate::{
    cli::GatewayArgs,
    listener::{ListenError, fd_limit, socket_activation::ActivatedSockets},
    ops::core_dumps,
    ops::logging,
    run::{self, Options, StartError},
    settings,
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
    fd_limit::raise();
    core_dumps::disable();
    // Before there is a second thread: what names them is taken out of the environment.
    let inherited = match ActivatedSockets::from_environment() {
        Ok(inherited) => inherited,
        Err(error) => {
            eprintln!("LISTEN_FDS names what is no listening socket: {error}");
            return BAD_CONFIGURATION;
        }
    };
    let keys = settings.keys.clone();
    // Beside the start; the thread ends by itself. Without one, whoever needs a key first waits for
    // it.
    let _ = thread::Builder::new()
        .name("randomness".into())
        .spawn(move || keys.prepare());
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

fn serve(
    settings: settings::Settings,
    mut reload: Reload,
    inherited: ActivatedSockets,
) -> anyhow::Result<()> {
    let grace = settings.stop_grace;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the control runtime")?;
    runtime.block_on(async {
        let mut signals = Signals::register().context("cannot wait for signals")?;
        let running = run::start(settings, Options { inherited, ..Options::of_this_machine() }).await?;
        let mut look = tokio::time::interval(LOOK_EVERY);
        let told = loop {
            tokio::select! {
                told = signals.next() => match told {
                    ProcessSignal::Reload => reload.look(&running, true),
                    ProcessSignal::Terminate | ProcessSignal::Interrupt => break told,
                },
                _ = look.tick() => reload.look(&running, false),
            }
        };
        let retired = running.retire();
        if told == ProcessSignal::Terminate && !grace.is_zero() {
            tracing::info!(seconds = grace.as_secs(), "stopping soon; still accepting connections");
            let mut end = std::pin::pin!(tokio::time::sleep(grace));
            loop {
                tokio::select! {
                    () = end.as_mut() => break,
                    told = signals.next() => match told {
                        ProcessSignal::Reload => reload.look(&running, true),
                        // A second one ends the process at once, as its default does.
                        ProcessSignal::Terminate | ProcessSignal::Interrupt => std::process::exit(i32::from(FAILED)),
                    },
                    _ = look.tick() => reload.look(&running, false),
                }
            }
        }
        tracing::info!("stopping");
        signals.exit_on_next();
        let in_time = running.stop().await;
        drop(retired);
        if !in_time {
            tracing::warn!("some requests did not finish in time");
        }
        Ok(())
    })
}
