//! `pilothouse`: a managed-cluster service in one binary.

use std::process::ExitCode;

use clap::Parser;
use pilothouse_commands::exit_code;
use pilothouse_commands::pilothouse::Args;

fn main() -> ExitCode {
    exit_code(Args::parse().run())
}
