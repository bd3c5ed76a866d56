//! `pilothouse`: a managed-cluster service in one binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    pilothouse_commands::pilothouse::main()
}
