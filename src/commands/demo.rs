//! `ludgate demo`: gateway, provider and sample apps in one process, or one part of it.

use std::{fs, net::SocketAddr};

use anyhow::Context;
use tokio::net::TcpListener;

use super::{
    exit_code::{BAD_CONFIGURATION, DONE, FAILED},
    signals::Signals,
};
use crate::{
    cli::{
        self,
        demo::{DemoApp, DemoAppArgs, DemoPart, DemoProviderArgs},
    },
    demo::{
        self, DemoOptions,
        apps::{self, SampleApp},
    },
    listener::ListenError,
    ops::logging,
    run::{StartError, StartOptions},
};

/// Runs the command, and returns the exit code.
pub fn run(args: &cli::DemoArgs) -> u8 {
    let signs_in_on = match &args.part {
        None => Some(args.listen),
        Some(DemoPart::Provider(provider)) => Some(provider.listen),
        Some(DemoPart::App(_)) => None,
    };
    if let Some(listen) = signs_in_on.filter(|listen| !listen.ip().is_loopback()) {
        eprintln!(
            "--listen {listen}: the demo signs in without a password, so it listens on loopback only"
        );
        return BAD_CONFIGURATION;
    }
    logging::start(&logging::LogSettings {
        requests: args.log_requests,
        level: "warn".into(),
    });
    let served = match &args.part {
        None => serve(args),
        Some(DemoPart::Provider(provider)) => serve_provider(provider),
        Some(DemoPart::App(app)) => serve_app(app),
    };
    match served {
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
                    | StartError::Registry(_)
                    | StartError::Helm(_)
                    | StartError::ServiceTokens(_)
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

fn serve_provider(args: &DemoProviderArgs) -> anyhow::Result<()> {
    let file = &args.client_secret_file;
    let secret = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    until_signal(async {
        let started = demo::start_provider(args.listen, &args.site, secret.trim_end()).await;
        let provider = started.with_context(|| listen_text(args.listen))?;
        println!("identity provider: {}", provider.issuer());
        Ok(())
    })
}

fn serve_app(args: &DemoAppArgs) -> anyhow::Result<()> {
    let sample = match args.app {
        DemoApp::Hello => SampleApp::Hello,
        DemoApp::Whoami => SampleApp::Whoami,
        DemoApp::Team => SampleApp::Team,
        DemoApp::Chat => SampleApp::Chat,
    };
    until_signal(async {
        let listener = TcpListener::bind(args.listen).await;
        let listener = listener.with_context(|| listen_text(args.listen))?;
        println!("sample app: http://{}/", listener.local_addr()?);
        apps::start_on(listener, sample, &args.launcher);
        Ok(())
    })
}

/// Starts a part, and keeps it running until a stop signal arrives.
fn until_signal(start: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let mut signals = Signals::register_stop()?;
        start.await?;
        signals.next().await;
        Ok(())
    })
}

fn listen_text(listen: SocketAddr) -> String {
    format!("cannot listen on {listen}")
}
