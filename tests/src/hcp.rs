//! `hcp`, as the stories offer it for download.

use std::process::ExitCode;

use clap::Parser as _;
use pilothouse_commands::exit_code;
use pilothouse_commands::hcp::Args;

fn main() -> ExitCode {
    exit_code(Args::parse().run().map(|()| ExitCode::SUCCESS))
}
