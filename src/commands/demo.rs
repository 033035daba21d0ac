//! `ludgate demo`: gateway, provider and sample apps in one process.

use super::{
    exit_code::{BAD_CONFIGURATION, DONE, FAILED},
    signals::Signals,
};
use crate::{
    cli,
    demo::{self, DemoOptions},
    listener::ListenError,
    ops::logging,
    run::{StartError, StartOptions},
};

/// Runs the command, and returns the exit code.
pub fn run(args: &cli::DemoArgs) -> u8 {
    if !args.listen.ip().is_loopback() {
        eprintln!(
            "--listen {}: the demo signs in without a password, so it listens on loopback only",
            args.listen
        );
        return BAD_CONFIGURATION;
    }
    logging::start(&logging::LogSettings {
        requests: args.log_requests,
        level: "warn".into(),
    });
    match serve(args) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("{error:#}");
            let in_use = error.downcast_ref::<StartError>();
            match in_use {
                Some(StartError::Listen(ListenError::InUse(_))) => {
                    eprintln!("choose another port: ludgate demo --listen 127.0.0.1:8090");
                    BAD_CONFIGURATION
                }
                Some(
                    StartError::Listen(ListenError::System { .. } | ListenError::Unclaimed(_))
                    | StartError::Trust(_)
                    | StartError::Kubernetes(_)
                    | StartError::System(_),
                )
                | None => FAILED,
            }
        }
    }
}

fn serve(args: &cli::DemoArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let mut signals = Signals::register_stop()?;
        let options = StartOptions::for_this_machine();
        let demo = DemoOptions {
            listen: args.listen,
            log_requests: args.log_requests,
        };
        let running = demo::start(demo, options).await?;
        println!("{}", running.welcome());
        signals.next().await;
        signals.exit_on_next();
        running.gateway.stop().await;
        Ok(())
    })
}
