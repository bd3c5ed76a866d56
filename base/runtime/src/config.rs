//! Reading configuration: defaults < file < environment < flags.
//!
//! A service owns a `Config`, a plain serde type whose defaults are those of serde, and this module fills it:
//!
//! - the **file** is TOML, given with `--config`;
//! - the **environment** overrides single keys: `PILOTHOUSE_LISTEN__PORT` is `listen.port`. Values need no
//!   quotes, whoever reads them knows their type; a list is `a,b` or TOML's `["a", "b"]`;
//! - **flags** come from the caller as a table of those that were given.
//!
//! Keys are written in `snake_case`, since the environment knows no other: names of variables are read in lower
//! case. A key nobody knows is an error in
//! every source, as is a value of the wrong type: it names the key's whole path and where it was set, and
//! proposes the nearest key there is. All unknown keys are reported at once.
//!
//! Durations and sizes are typed ([`Duration`]: `"30s"`, [`ByteSize`]: `"64MiB"`), never bare numbers. Secrets are
//! never in the configuration, only the files they are in ([`SecretFile`]); so [`dump`] has nothing to hide.
//!
//! Unknown keys are found wherever a type is a struct. Types with `#[serde(flatten)]`, or enums that are
//! untagged or tagged inside, make serde read the table before it knows the fields; put
//! `#[serde(deny_unknown_fields)]` on what is inside of those, or avoid them.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

mod args;
mod environment;
mod error;
mod nearest;
mod node;
mod reader;
mod secret;
#[cfg(test)]
mod tests;
mod units;

pub use args::ConfigArgs;
pub use error::{Error, Origin, UnknownKey};
use node::Node;
pub use secret::{SecretError, SecretFile};
pub use units::{ByteSize, Duration, UnitError};

/// What every environment variable of ours begins with.
pub const ENVIRONMENT_PREFIX: &str = "PILOTHOUSE_";

/// Names the configuration file, like `--config`.
pub const CONFIG_VARIABLE: &str = "PILOTHOUSE_CONFIG";

/// Variables that speak to tests, and reach the programs that tests start.
const TEST_PREFIX: &str = "PILOTHOUSE_TEST_";

/// Variables with our prefix that are not keys of the configuration: they are read before there is one.
pub const RESERVED_VARIABLES: [&str; 3] =
    [CONFIG_VARIABLE, crate::telemetry::LOG_VARIABLE, crate::telemetry::LOG_FORMAT_VARIABLE];

/// Everything a configuration is made of, already read.
#[derive(Debug, Default)]
pub struct Sources {
    file: Option<(PathBuf, String)>,
    environment: Vec<(OsString, OsString)>,
    flags: toml::Table,
}

/// Loads a configuration: the file `args` names, the environment of the process, and `flags` above them.
///
/// # Errors
///
/// When the file cannot be read, or what is configured is not a `T`.
pub fn load<T: DeserializeOwned>(args: &ConfigArgs, flags: toml::Table) -> Result<T, Error> {
    let mut sources = Sources::default().environment(env::vars_os()).flags(flags);
    if let Some(path) = &args.config {
        sources = sources.file(path)?;
    }
    sources.load()
}

/// Writes the effective configuration as TOML, in a form that [`load`] reads again.
///
/// # Errors
///
/// When `T` cannot be written as TOML.
pub fn dump<T: Serialize>(config: &T) -> Result<String, Error> {
    toml::to_string_pretty(config).map_err(Error::Dump)
}

// === impl Sources ===

impl Sources {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn file(self, path: &Path) -> Result<Self, Error> {
        let text =
            fs::read_to_string(path).map_err(|error| Error::Read { path: path.to_owned(), source: error })?;
        Ok(self.file_text(path, text))
    }

    /// The same with its text at hand.
    pub fn file_text(mut self, path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        self.file = Some((path.into(), text.into()));
        self
    }

    /// The variables of an environment; those without [`ENVIRONMENT_PREFIX`] do not matter.
    pub fn environment<K, V>(mut self, variables: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        self.environment.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// What was given on the command line.
    pub fn flags(mut self, flags: toml::Table) -> Self {
        self.flags = flags;
        self
    }

    /// Puts the sources above one another and reads the result.
    ///
    /// # Errors
    ///
    /// When what is configured is not a `T`.
    pub fn load<T: DeserializeOwned>(self) -> Result<T, Error> {
        let mut root = Node::empty();
        if let Some((path, text)) = &self.file {
            root.merge(Node::from_file(path, text)?);
        }
        root.merge(environment::tree(self.environment)?);
        root.merge(Node::from_flags(self.flags));
        reader::read(&root)
    }
}
