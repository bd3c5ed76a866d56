//! What can be wrong with a configuration, in words that lead to the place.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the configuration file `{}`", .path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration file `{}` is not valid TOML", .path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A variable's value is no text.
    #[error("the environment variable {0} is not valid UTF-8")]
    NotText(String),
    /// Two variables contradict each other: one sets a key to a value, the other something inside of it.
    #[error("the environment variables {0} and {1} cannot both be set: one is inside the other")]
    Conflict(String, String),
    /// Keys that mean nothing. At least one.
    #[error("{}", lines(.0))]
    Unknown(Vec<UnknownKey>),
    /// A key without which there is no configuration.
    #[error("`{key}` is not set: give it in the configuration file{}", or_as(.variable.as_deref()))]
    Missing {
        /// Its path.
        key: String,
        /// The environment variable that would set it; none reaches into a list.
        variable: Option<String>,
    },
    /// A value that cannot be used.
    #[error("`{key}` in {origin}: {message}")]
    Invalid {
        /// Its path.
        key: String,
        /// Where it was set.
        origin: Origin,
        /// Why it cannot be used.
        message: String,
    },
    /// The configuration cannot be written down.
    #[error("cannot write the configuration as TOML")]
    Dump(#[source] toml::ser::Error),
}

/// A key that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey {
    /// Its path.
    pub key: String,
    /// Where it was set.
    pub origin: Origin,
    /// The path of the known key it resembles most, if any.
    pub nearest: Option<String>,
}

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In nothing in particular: where a table is made of several sources.
    Several,
    /// In the file, at this line.
    File(PathBuf, usize),
    /// By this environment variable.
    Variable(String),
    /// On the command line.
    Flag,
}

fn or_as(variable: Option<&str>) -> String {
    variable.map_or_else(String::new, |name| format!(" or as {name}"))
}

fn lines(unknown: &[UnknownKey]) -> String {
    unknown.iter().map(UnknownKey::to_string).collect::<Vec<_>>().join("\n")
}

impl fmt::Display for UnknownKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unknown key `{}` in {}", self.key, self.origin)?;
        if let Some(nearest) = &self.nearest {
            write!(formatter, "; did you mean `{nearest}`?")?;
        }
        Ok(())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Several => formatter.write_str("the configuration"),
            Self::File(path, line) => write!(formatter, "{}, line {line}", path.display()),
            Self::Variable(name) => write!(formatter, "the environment variable {name}"),
            Self::Flag => formatter.write_str("a flag"),
        }
    }
}
