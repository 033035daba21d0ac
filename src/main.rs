//! Parse, dispatch, exit code.

use std::process::ExitCode;

use clap::Parser;
use ludgate::{cli::Cli, commands};

fn main() -> ExitCode {
    // clap ends the process with code 2 on bad usage.
    commands::run(Cli::parse())
}
