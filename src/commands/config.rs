//! `ludgate config check|print|reference|import-oauth2-proxy`.

use super::{
    exit_code::{BAD_CONFIGURATION, DONE},
    import_oauth2_proxy,
};
use crate::{
    cli::ConfigCommand,
    settings::{self, reference},
};

/// Runs one subcommand, and returns the exit code.
pub fn run(command: &ConfigCommand) -> u8 {
    match command {
        ConfigCommand::Check { file } => match settings::load(file) {
            Ok(settings) => {
                for warning in &settings.warnings {
                    eprintln!("warning: {warning}");
                }
                println!("{}: valid; apps: {}", file.display(), settings.apps.len());
                DONE
            }
            Err(errors) => {
                eprintln!("{}:\n{errors}", file.display());
                BAD_CONFIGURATION
            }
        },
        ConfigCommand::Print => {
            print!("{}", reference::commented_file());
            DONE
        }
        ConfigCommand::Reference => {
            print!("{}", reference::markdown());
            DONE
        }
        ConfigCommand::ImportOauth2Proxy(args) => import_oauth2_proxy::run(args),
    }
}
