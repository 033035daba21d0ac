//! `ludgate config check|print|reference`.

use super::exit_code::{BAD_CONFIGURATION, DONE};
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
    }
}
