//! Where a store keeps its documents.

use std::fmt;
use std::str::FromStr;

use camino::Utf8PathBuf;

use crate::Error;
use crate::postgres::Address;

/// An engine and its database.
///
/// As text: `memory`, a path or `sqlite:PATH`, or `postgres://user@host/database?schema=name`.
#[derive(Clone, Debug)]
pub struct Location(pub(crate) Place);

#[derive(Clone, Debug)]
pub(crate) enum Place {
    Memory,
    Sqlite { path: Utf8PathBuf, durability: Durability },
    Postgres(Box<Address>),
}

/// What an acknowledged write survives, on SQLite. PostgreSQL always flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The machine losing power: every commit waits for the disk.
    #[default]
    PowerLoss,
    /// The death of the process, but not of the machine.
    ProcessDeath,
    /// Nothing is promised. For databases that can be made again, and for showing what the others are worth.
    None,
}

impl Location {
    /// Nothing outlives the store.
    pub fn memory() -> Self {
        Self(Place::Memory)
    }

    /// A file, made if there is none. Its directory must exist.
    pub fn sqlite(path: impl Into<Utf8PathBuf>) -> Self {
        Self(Place::Sqlite { path: path.into(), durability: Durability::default() })
    }

    /// With another durability, if it is a file.
    #[must_use]
    pub fn with_durability(mut self, chosen: Durability) -> Self {
        if let Place::Sqlite { durability, .. } = &mut self.0 {
            *durability = chosen;
        }
        self
    }

    /// The file, if it is one.
    pub fn path(&self) -> Option<&camino::Utf8Path> {
        match &self.0 {
            Place::Sqlite { path, .. } => Some(path),
            Place::Memory | Place::Postgres(_) => None,
        }
    }
}

impl FromStr for Location {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "memory" {
            return Ok(Self::memory());
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Address::try_new(text).map(|address| Self(Place::Postgres(Box::new(address))));
        }
        let path = text.strip_prefix("sqlite:").unwrap_or(text);
        if path.is_empty() || path.contains("://") {
            return Err(Error::Invalid {
                what: format!("store location {text:?}"),
                problem: "it is none of `memory`, a path, `sqlite:PATH`, `postgres://…`".to_owned(),
            });
        }
        Ok(Self::sqlite(path))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Memory => f.write_str("memory"),
            Place::Sqlite { path, .. } => write!(f, "sqlite:{path}"),
            Place::Postgres(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_recognised_by_their_form() {
        for (text, shown) in [
            ("memory", "memory"),
            ("region.db", "sqlite:region.db"),
            ("sqlite:data/region.db", "sqlite:data/region.db"),
            ("postgres://ada:pw@127.0.0.1/region", "postgres://127.0.0.1:5432/region?schema=pilothouse"),
        ] {
            assert_eq!(text.parse::<Location>().unwrap().to_string(), shown);
        }
        for text in ["", "sqlite:", "mysql://x/y"] {
            assert!(text.parse::<Location>().is_err(), "{text}");
        }
    }
}
