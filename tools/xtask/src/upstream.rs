//! `cargo xtask upstream`: the real Kubernetes, to compare with and to run, as `pilothouse upstream install` provides it.
//! `cargo xtask conformance`: its own tests.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

use pilothouse_upstream::{Installation, Origin, Version, cache};

use crate::originals;

/// What is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The version of Kubernetes, such as 1.33 [default: the newest]; may be given more than once.
    #[arg(long, value_name = "VERSION")]
    version: Vec<String>,
    /// A folder with programs that may be taken, looked into before PATH; may be given more than once.
    #[arg(long, value_name = "DIR")]
    bin_dir: Vec<PathBuf>,
    /// The cache folder, in which there is one folder per version [default: pilothouse/upstream in the user's cache].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

/// Provides all programs, and prints what came from where.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let root = cache(args.cache.as_deref(), "upstream")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = match &args.version[..] {
        [] => vec![Version::find(None)?],
        asked => asked.iter().map(|one| Version::find(Some(one))).collect::<Result<_, _>>()?,
    };
    for version in versions {
        let installation = Installation::new(version, &root, &args.bin_dir, &path);
        let provided = installation.run(&say)?;
        let mut text = format!("{:<24} {:<10} {}\n", "COMPONENT", "VERSION", "FROM");
        for one in provided {
            let origin = match &one.origin {
                Origin::Cache => "cache".to_owned(),
                Origin::Found(path) => path.display().to_string(),
                Origin::Downloaded => "downloaded".to_owned(),
                Origin::Built => "built".to_owned(),
            };
            text.push_str(&format!("{:<24} {:<10} {origin}\n", one.name, one.version));
        }
        text.push_str(&format!("in {}\n", installation.folder().display()));
        io::stdout().lock().write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Provides the tests of the newest version, and prints where.
pub(crate) fn conformance(args: &originals::Args) -> anyhow::Result<()> {
    let root = cache(args.cache.as_deref(), "upstream")?;
    let place = pilothouse_upstream::conformance(&Version::find(None)?, &root, &say)?;
    writeln!(io::stdout().lock(), "{}", place.display())?;
    Ok(())
}

/// A line of progress.
pub(crate) fn say(line: &str) {
    // Progress that nobody can read is nobody's loss.
    let _ = writeln!(io::stderr(), "{line}");
}
