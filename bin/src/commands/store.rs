//! `store`: looking after a database by hand. Services open theirs by themselves; this is for the operator.

use clap::Subcommand;
use pilothouse_runtime::Shutdown;
use pilothouse_store::{Error, Keyring, Location, Options, Store};

use crate::{Failure, Hint, Output};

mod backup;
mod check;
mod init;
mod rotate_key;

/// Look after a database: check it, copy it, change its key.
///
/// A store is where a service keeps its documents: a SQLite file, or a schema of a PostgreSQL database. What is
/// secret in it is sealed with a key from a key file, which is no part of the database or of its backups.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse store init --store region.db                    Make an empty store and its key file
  pilothouse store check --store region.db                   Is everything in it as it should be?
  pilothouse store backup copy.db --store region.db          Copy it while it is in use
  pilothouse store rotate-key --store region.db              Seal its secrets with a new key
  pilothouse store check --store 'postgres://me@db/region?schema=maestro'")]
pub struct Args {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: Verb,
}

/// Which store is meant, and where its keys are.
#[derive(Debug, clap::Args)]
struct Place {
    /// The store: a path, or `postgres://user@host/database?schema=name`.
    #[arg(long, global = true, env = "PILOTHOUSE_STORE", value_name = "LOCATION")]
    store: Option<String>,
    /// The file with the keys that secrets are sealed with [default: the database's path with `.key`].
    #[arg(long, global = true, value_name = "FILE")]
    key_file: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::Args),
    Check(check::Args),
    Backup(backup::Args),
    RotateKey(rotate_key::Args),
}

impl Args {
    /// Carries out what was asked of a store.
    ///
    /// # Errors
    ///
    /// If it cannot be done, or a check finds something.
    pub fn run(self, output: &mut Output) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            match self.verb {
                Verb::Init(args) => args.run(&self.place, output).await,
                Verb::Check(args) => args.run(&self.place, output).await,
                Verb::Backup(args) => args.run(&self.place, output).await,
                Verb::RotateKey(args) => args.run(&self.place, output).await,
            }
        })
    }
}

impl Place {
    fn location(&self) -> Result<Location, Failure> {
        let text = self
            .store
            .as_deref()
            .ok_or_else(|| anyhow::anyhow!("no store was named"))
            .hint("name it with `--store LOCATION` or in the environment variable PILOTHOUSE_STORE")?;
        text.parse::<Location>()
            .hint("for example `region.db`, or `postgres://user@host/database?schema=name`")
    }

    /// Where the keys are, or would be.
    fn key_file(&self) -> Result<Option<String>, Failure> {
        match &self.key_file {
            Some(path) => Ok(Some(path.clone())),
            None => Ok(self.location()?.path().map(|path| format!("{path}.key"))),
        }
    }

    /// The keys, if there are any. A file that was named must exist.
    fn keyring(&self) -> Result<Option<Keyring>, Failure> {
        let Some(path) = self.key_file()? else { return Ok(None) };
        if self.key_file.is_none() && !std::path::Path::new(&path).exists() {
            return Ok(None);
        }
        Ok(Some(Keyring::open(path)?))
    }

    /// The store as it is, to look at.
    async fn inspect(&self) -> Result<Store, Failure> {
        let location = self.location()?;
        let opened = Store::inspect(&location, self.keyring()?, Shutdown::new()).await;
        opened.hint(format!("`pilothouse store init --store {location}` makes a new one"))
    }

    /// The store as it is, to write to.
    async fn open(&self, keyring: Keyring) -> Result<Store, Failure> {
        let catalog = self.inspect().await?.catalog().clone();
        let options =
            Options { keyring: Some(keyring), ..Options::new(self.location()?, catalog, Shutdown::new()) };
        match Store::open(options).await {
            Err(error @ Error::InUse { .. }) => {
                Err(error).hint("stop the service that has it open, then try again")
            }
            opened => Ok(opened?),
        }
    }
}
