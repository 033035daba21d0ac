//! The commands. Each wires rooms together and returns an exit code.

pub mod api;
mod apps;
pub mod config;
pub mod controller;
pub mod crd;
pub mod demo;
mod exit_code;
pub mod explain;
mod file_reload;
pub mod gateway;
mod import_oauth2_proxy;
mod installs;
pub mod labs;
mod lease_identity;
pub mod prepare_folder;
pub mod reload;
mod service;
pub mod signals;
pub mod template;
mod tokens;

use std::process::ExitCode;

use crate::cli::{Cli, Command};

/// Runs a command. Errors are printed on standard error.
pub fn run(cli: Cli) -> ExitCode {
    // One crypto provider for all TLS. Tests call this several times; only the first has an effect.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let code = match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Gateway(args) => gateway::run(&args),
        Command::Controller(args) => controller::run(&args),
        Command::Api(args) => api::run(&args),
        Command::Labs(args) => labs::run(&args),
        Command::Apps { command } => apps::run(&command),
        Command::Installs { command } => installs::run(&command),
        Command::Tokens { command } => tokens::run(&command),
        Command::Config { command } => config::run(&command),
        Command::Crd { command } => crd::run(&command),
        Command::Template { command } => template::run(&command),
        Command::Explain(args) => explain::run(&args),
        Command::PrepareFolder(args) => prepare_folder::run(&args),
    };
    ExitCode::from(code)
}
