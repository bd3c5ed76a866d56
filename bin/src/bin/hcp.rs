//! `hcp`: hosted clusters from the command line of whoever uses them.

use std::process::ExitCode;

use clap::Parser;
use pilothouse_commands::exit_code;
use pilothouse_commands::hcp::Args;

fn main() -> ExitCode {
    exit_code(Args::parse().run().map(|()| ExitCode::SUCCESS))
}
