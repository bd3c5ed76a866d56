//! `completions`: a script that teaches a shell the verbs and options.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{Failure, Output};

/// Print a script that lets a shell complete verbs and options.
///
/// For bash, save it where completions are looked up, for example in ~/.local/share/bash-completion/completions/
/// under the name of the program.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell that will read the script.
    shell: Shell,
}

impl Args {
    /// Prints the script for the program whose command line is `Program`.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written to.
    pub fn run<Program: CommandFactory>(self, output: &mut Output) -> Result<(), Failure> {
        let mut program = Program::command();
        let name = program.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        output.raw(&script)
    }
}
