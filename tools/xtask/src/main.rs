//! `cargo xtask`: the project's own checks, and what they need. `./test` runs all checks; each verb also works alone.
//!
//! A check is a function from what the workspace is to a list of [`Violation`]s, so that its tests need no
//! workspace to be broken. Every violation is one line that names a file and the remedy.

mod crds;
mod deny;
mod files;
mod layers;
mod manifests;
mod originals;
mod reference;
mod schema;
mod types;
mod upstream;
mod violation;
mod workspace;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::violation::Violation;
use crate::workspace::Workspace;

/// The project's own checks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Debug, Subcommand)]
enum Verb {
    /// Who may depend on whom, and what every manifest holds.
    Layers,
    /// Sizes and names of files, and that every folder is on the map.
    Files,
    /// Which outside crates, licences and sources may come in.
    Deny,
    /// The published documents of the API, made from its types.
    Schema {
        /// Only say whether they are what the types are.
        #[arg(long)]
        check: bool,
        /// Change documents that were published already.
        #[arg(long, conflicts_with = "check")]
        thaw: bool,
    },
    /// Pages of the documentation that are made from the code.
    Reference {
        /// Only say whether they are what the code says.
        #[arg(long)]
        check: bool,
    },
    /// The definitions of custom resources, made from their types.
    Crds {
        /// Only say whether they are what the types are.
        #[arg(long)]
        check: bool,
    },
    /// Everything that can be checked.
    Check,
    /// Kubernetes' own programs of the pinned versions, in the cache: found, or built with Go.
    Upstream(upstream::Args),
    /// Kubernetes' own tests of whole clusters of the newest pinned version, in the cache: built with Go.
    Conformance(originals::Args),
    /// The original Maestro of the pinned version, in the cache: built with Go.
    Maestro(originals::Args),
    /// Helm of the pinned version, in the cache: built with Go.
    Helm(originals::Args),
    /// Writes the table of Kubernetes' built-in types from the published sources (needs `go`).
    Types,
}

fn main() -> ExitCode {
    match run(Args::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell if standard error is gone.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> anyhow::Result<()> {
    let workspace = Workspace::load().context("cannot read the workspace")?;
    let thaw = matches!(verb, Verb::Schema { thaw: true, .. });
    let checks: &[Check] = match verb {
        Verb::Layers => &[LAYERS],
        Verb::Files => &[FILES],
        Verb::Deny => &[DENY],
        Verb::Schema { check: true, .. } => &[SCHEMA],
        Verb::Schema { check: false, .. } => return write_schema(&workspace, thaw),
        Verb::Reference { check } => return reference::run(&workspace.root, check),
        Verb::Crds { check: true } => &[CRDS],
        Verb::Crds { check: false } => return crds::write(&workspace.root),
        Verb::Check => &[LAYERS, FILES, DENY, SCHEMA, CRDS],
        Verb::Upstream(args) => return upstream::run(&args),
        Verb::Conformance(args) => return upstream::conformance(&args),
        Verb::Maestro(args) => return originals::MAESTRO.run(&workspace.root, &args),
        Verb::Helm(args) => return originals::HELM.run(&workspace.root, &args),
        Verb::Types => return types::generate(&workspace),
    };
    let mut count = 0;
    for check in checks {
        let violations = (check.run)(&workspace).with_context(|| format!("{} could not run", check.name))?;
        report(check.name, &violations)?;
        count += violations.len();
    }
    anyhow::ensure!(count == 0, "{count} violation(s)");
    Ok(())
}

struct Check {
    name: &'static str,
    run: fn(&Workspace) -> anyhow::Result<Vec<Violation>>,
}

const LAYERS: Check = Check {
    name: "layers",
    run: |workspace| Ok([layers::check(workspace), manifests::check(workspace)?].concat()),
};
const FILES: Check = Check { name: "files", run: files::check };
const DENY: Check = Check { name: "deny", run: deny::check };
const SCHEMA: Check = Check { name: "schema", run: |workspace| schema::check(&workspace.root) };
const CRDS: Check = Check { name: "crds", run: |workspace| crds::check(&workspace.root) };

fn write_schema(workspace: &Workspace, thaw: bool) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    for file in schema::write(&workspace.root, thaw)? {
        writeln!(stdout, "{file}: written")?;
    }
    writeln!(stdout, "schema: ok")?;
    Ok(())
}

fn report(name: &str, violations: &[Violation]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for violation in violations {
        writeln!(stdout, "{violation}")?;
    }
    if violations.is_empty() {
        writeln!(stdout, "{name}: ok")?;
    }
    Ok(())
}
