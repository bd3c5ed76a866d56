//! What a store's user declares: containers, the indexes on them, and what in them is secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::outline::Outline;
use crate::pattern::Pattern;

/// A kind of document with its indexes and secrets. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container(Arc<Specification>);

/// As it is kept in the database, so that `check` needs no knowledge of the service that owns it, and an
/// opening with other indexes is noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Specification {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) indexes: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) secrets: Vec<String>,
    /// The whole document is secret.
    #[serde(default)]
    pub(crate) sealed: bool,
    /// While a new declaration is being carried out: what was secret before, and may still be sealed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) former: Vec<Secrecy>,
}

/// What of a container is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Secrecy {
    pub(crate) secrets: Vec<String>,
    pub(crate) sealed: bool,
}

/// All containers of one store.
#[derive(Clone, Debug, Default)]
pub struct Catalog(BTreeMap<String, Arc<Prepared>>);

/// A specification whose paths have been parsed.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) name: Arc<str>,
    pub(crate) specification: Arc<Specification>,
    indexes: Vec<(Arc<str>, Pattern)>,
    pub(crate) secrets: Vec<Pattern>,
}

/// One value under which an index finds a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Entry {
    pub(crate) index: Arc<str>,
    pub(crate) value: String,
}

/// A B-tree entry of PostgreSQL ends at a third of a page; what is looked up by value is shorter by far.
const LONGEST_VALUE: usize = 512;

impl Container {
    /// A container of this name: lower-case letters, digits and hyphens.
    pub fn new(name: &str) -> Self {
        let specification = Specification {
            name: name.to_owned(),
            indexes: BTreeMap::new(),
            secrets: Vec::new(),
            sealed: false,
            former: Vec::new(),
        };
        Self(Arc::new(specification))
    }

    /// Documents can be found by the scalar value at `path`, a JSON pointer in which `*` stands for every
    /// member or element; over the members of an object the value is `name=value`.
    #[must_use]
    pub fn with_index(mut self, name: &str, path: &str) -> Self {
        Arc::make_mut(&mut self.0).indexes.insert(name.to_owned(), path.to_owned());
        self
    }

    /// The value at `path` is sealed before it reaches an engine.
    #[must_use]
    pub fn with_secret(mut self, path: &str) -> Self {
        Arc::make_mut(&mut self.0).secrets.push(path.to_owned());
        self
    }

    /// The whole document is sealed before it reaches an engine. Its id, partition and revision are not.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        Arc::make_mut(&mut self.0).sealed = true;
        self
    }

    /// The container's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

impl Specification {
    pub(crate) fn secrecy(&self) -> Secrecy {
        Secrecy { secrets: self.secrets.clone(), sealed: self.sealed }
    }
}

impl From<Specification> for Container {
    fn from(specification: Specification) -> Self {
        Self(Arc::new(specification))
    }
}

impl Catalog {
    /// Checks all declarations; the message of a refused one names container and path.
    pub fn try_new(containers: impl IntoIterator<Item = Container>) -> Result<Self, Error> {
        let mut catalog = BTreeMap::new();
        for Container(specification) in containers {
            let name = specification.name.clone();
            let prepared = Prepared::try_new(specification)?;
            if catalog.insert(name.clone(), Arc::new(prepared)).is_some() {
                return Err(invalid(&name, "it is declared twice"));
            }
        }
        Ok(Self(catalog))
    }

    pub(crate) fn prepared(&self, name: &str) -> Result<&Arc<Prepared>, Error> {
        self.0.get(name).ok_or_else(|| invalid(name, "it is not in the store's catalogue"))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Prepared>> {
        self.0.values()
    }

    /// Whether anything in it must be sealed, so that a keyring is needed.
    pub fn has_secrets(&self) -> bool {
        self.iter().any(|container| container.has_secrets())
    }
}

impl Prepared {
    fn try_new(specification: Arc<Specification>) -> Result<Self, Error> {
        let name = &specification.name;
        let well_formed = name.len() <= 63
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if !well_formed {
            return Err(invalid(name, "a name is lower-case letters, digits and hyphens, at most 63"));
        }
        let secrets =
            specification.secrets.iter().map(|path| Pattern::try_new(path)).collect::<Result<Vec<_>, _>>()?;
        for (position, secret) in secrets.iter().enumerate() {
            if let Some(other) = secrets[..position].iter().find(|other| other.overlaps(secret)) {
                return Err(invalid(name, &format!("its secrets {other} and {secret} overlap")));
            }
        }
        let mut indexes = Vec::new();
        for (index, path) in &specification.indexes {
            let pattern = Pattern::try_new(path)?;
            if specification.sealed || secrets.iter().any(|secret| secret.overlaps(&pattern)) {
                let problem = format!("its index `{index}` would keep the secret value at {path} in clear");
                return Err(invalid(name, &problem));
            }
            indexes.push((index.as_str().into(), pattern));
        }
        Ok(Self { name: name.as_str().into(), specification, indexes, secrets })
    }

    pub(crate) fn has_secrets(&self) -> bool {
        self.specification.sealed || !self.secrets.is_empty()
    }

    pub(crate) fn has_indexes(&self) -> bool {
        !self.indexes.is_empty()
    }

    pub(crate) fn index(&self, name: &str) -> Result<Arc<str>, Error> {
        self.indexes
            .iter()
            .find_map(|(index, _)| (index.as_ref() == name).then(|| index.clone()))
            .ok_or_else(|| invalid(&self.name, &format!("it has no index `{name}`")))
    }

    /// What the indexes keep of a document, in a stable order.
    pub(crate) fn entries(&self, document: &mut Outline<'_>) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for (index, pattern) in &self.indexes {
            let texts = pattern
                .texts(document)
                .map_err(|error| invalid(&self.name, &format!("{pattern}: {error}")))?;
            for value in texts {
                let problem = if value.len() > LONGEST_VALUE {
                    format!("the value at {pattern} has {} bytes, {LONGEST_VALUE} are allowed", value.len())
                } else if value.contains('\0') {
                    format!("the value at {pattern} contains a NUL character")
                } else {
                    entries.push(Entry { index: index.clone(), value });
                    continue;
                };
                return Err(invalid(&self.name, &format!("its index `{index}` cannot be kept: {problem}")));
            }
        }
        Ok(entries)
    }
}

fn invalid(container: &str, problem: &str) -> Error {
    Error::Invalid { what: format!("container `{container}`"), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_over_a_secret_is_refused() {
        for container in [
            Container::new("tokens").with_secret("/data/*").with_index("by-user", "/data/user"),
            Container::new("tokens").sealed().with_index("by-user", "/user"),
        ] {
            let error = Catalog::try_new([container]).unwrap_err();
            assert!(error.to_string().contains("secret value"), "{error}");
        }
    }

    #[test]
    fn bad_declarations_are_refused_by_name() {
        for (container, reason) in [
            (Container::new("Clusters"), "lower-case"),
            (Container::new("clusters").with_index("x", "state"), "does not start with `/`"),
            (Container::new("clusters").with_secret("/a//b"), "empty segment"),
            (Container::new("clusters").with_secret("/a/*").with_secret("/a/b"), "overlap"),
        ] {
            let error = Catalog::try_new([container]).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        let twice = Catalog::try_new([Container::new("a"), Container::new("a")]).unwrap_err();
        assert!(twice.to_string().contains("declared twice"), "{twice}");
    }
}
