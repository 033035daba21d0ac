//! Parse, dispatch, exit code.

use std::process::ExitCode;

use clap::Parser;
use ludgate::{cli::Cli, commands};
use tikv_jemallocator::Jemalloc;

/// A request makes and drops some dozens of small things; the system's allocator takes its time for
/// each.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    // clap ends the process with code 2 on bad usage.
    commands::run(Cli::parse())
}
