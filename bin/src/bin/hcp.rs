//! `hcp`: hosted clusters from the command line of whoever uses them.

use std::process::ExitCode;

fn main() -> ExitCode {
    pilothouse_commands::hcp::main()
}
