//! Parse, dispatch, exit code.

use std::process::ExitCode;

use clap::Parser;
use ludgate::{cli::Cli, commands};

/// A request makes dozens of small allocations, for which the system's allocator is slow.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // clap ends the process with code 2 on bad usage.
    commands::run(Cli::parse())
}
