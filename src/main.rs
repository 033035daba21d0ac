//! Parse, dispatch, exit code.

use std::process::ExitCode;

use clap::Parser;
use ludgate::{cli::Cli, commands};
use tikv_jemallocator::Jemalloc;

/// A request makes dozens of small allocations, for which the system's allocator is slow.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    // clap ends the process with code 2 on bad usage.
    commands::run(Cli::parse())
}
