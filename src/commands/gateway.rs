//! `ludgate gateway`: the data plane, until a signal.

use std::thread;

use anyhow::Context;
use tokio::time::Interval;

use super::{
    exit_code::{BAD_CONFIGURATION, DONE, FAILED},
    reload::ConfigReload,
    signals::{ProcessSignal, Signals},
};
use crate::{
    cli::ServiceArgs,
    listener::{ListenError, fd_limit, socket_activation::ActivatedSockets},
    ops::{core_dumps, file_watch::POLL_INTERVAL, logging},
    run::{self, Running, StartError, StartOptions},
    settings,
};

/// Why an address may be in use for some seconds only.
const STOPPING_HINT: &str = "if an earlier gateway is stopping there: it accepts connections for limits.stop_grace after \
     SIGTERM; with listen.takeover the next one starts beside it";

/// Runs the command, and returns the exit code.
pub fn run(args: &ServiceArgs) -> u8 {
    let reload = ConfigReload::new(args.path());
    let settings = match reload.settings() {
        Ok(settings) => settings,
        Err(errors) => {
            eprintln!("{}:\n{errors}", args.path().display());
            return BAD_CONFIGURATION;
        }
    };
    logging::start(&settings.log);
    fd_limit::raise();
    core_dumps::disable();
    // Before a second thread exists: the variables are removed from the environment.
    let inherited = match ActivatedSockets::from_environment() {
        Ok(inherited) => inherited,
        Err(error) => {
            eprintln!("LISTEN_FDS names what is no listening socket: {error}");
            return BAD_CONFIGURATION;
        }
    };
    let keys = settings.keys.clone();
    // Runs beside start-up and ends by itself. If the thread cannot start, the first use of a key
    // waits instead.
    let _ = thread::Builder::new()
        .name("randomness".into())
        .spawn(move || keys.prepare());
    match serve(settings, reload, inherited) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("{error:#}");
            let cause = error.downcast_ref::<StartError>();
            if let Some(StartError::Listen(ListenError::InUse(_))) = cause {
                eprintln!("{STOPPING_HINT}");
            }
            let is_bad_configuration = matches!(
                cause,
                Some(
                    StartError::Listen(ListenError::InUse(_) | ListenError::Unclaimed(_))
                        | StartError::Trust(_)
                        | StartError::Kubernetes(_)
                )
            );
            if is_bad_configuration {
                BAD_CONFIGURATION
            } else {
                FAILED
            }
        }
    }
}

fn serve(
    settings: settings::Settings,
    mut reload: ConfigReload,
    inherited: ActivatedSockets,
) -> anyhow::Result<()> {
    let grace = settings.stop_grace;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the control runtime")?;
    runtime.block_on(async {
        let mut signals = Signals::register().context("cannot wait for signals")?;
        let options = StartOptions {
            inherited,
            ..StartOptions::for_this_machine()
        };
        let running = run::start(settings, options).await?;
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        let signal = serve_until_signal(&mut signals, &mut poll, &mut reload, &running).await;
        running.retire();
        if signal == StopSignal::Terminate && !grace.is_zero() {
            tracing::info!(
                seconds = grace.as_secs(),
                "stopping soon; still accepting connections"
            );
            let stopped = serve_until_signal(&mut signals, &mut poll, &mut reload, &running);
            if tokio::time::timeout(grace, stopped).await.is_ok() {
                // A second signal ends the process at once, as its default does.
                std::process::exit(i32::from(FAILED));
            }
        }
        tracing::info!("stopping");
        signals.exit_on_next();
        let in_time = running.stop().await;
        if !in_time {
            tracing::warn!("some requests did not finish in time");
        }
        Ok(())
    })
}

/// Signals that stop the process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopSignal {
    Terminate,
    Interrupt,
}

/// Reloads the configuration when it changes or SIGHUP arrives, until a signal stops the process.
async fn serve_until_signal(
    signals: &mut Signals,
    poll: &mut Interval,
    reload: &mut ConfigReload,
    running: &Running,
) -> StopSignal {
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                ProcessSignal::Reload => reload.poll(running, true),
                ProcessSignal::Terminate => return StopSignal::Terminate,
                ProcessSignal::Interrupt => return StopSignal::Interrupt,
            },
            _ = poll.tick() => reload.poll(running, false),
        }
    }
}
