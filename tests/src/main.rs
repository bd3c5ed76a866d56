//! `pilothouse`, as the stories start it.

use std::process::ExitCode;

fn main() -> ExitCode {
    pilothouse_commands::pilothouse::main()
}
