//! The commands: each wires rooms together and says how it ended.

pub mod config;
pub mod crd;
pub mod demo;
pub mod explain;
pub mod gateway;
pub mod reload;
pub mod signals;

use std::process::ExitCode;

use crate::cli::{Cli, Command};

/// Done.
pub const DONE: u8 = 0;
/// Failed at run time.
pub const FAILED: u8 = 1;
/// Bad usage or bad configuration.
pub const BAD_CONFIGURATION: u8 = 2;

/// Runs a command. What is wrong is printed on standard error.
pub fn run(cli: Cli) -> ExitCode {
    // One provider for all of TLS; the second call of a test process changes nothing.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let code = match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Gateway(args) => gateway::run(&args),
        Command::Config { command } => config::run(&command),
        Command::Crd { command } => crd::run(&command),
        Command::Explain(args) => explain::run(&args),
    };
    ExitCode::from(code)
}
