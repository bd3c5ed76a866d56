//! A configuration as a tree that knows where each of its values came from.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::error::{Error, Origin};

/// A value and where it was set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    String(String),
    /// From the environment: whoever reads it knows what type it should have.
    Text(String),
    Array(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

impl Node {
    pub(super) fn empty() -> Self {
        Self { value: Value::Table(BTreeMap::new()), origin: Origin::Several }
    }

    pub(super) fn from_file(path: &Path, text: &str) -> Result<Self, Error> {
        let table = DeTable::parse(text)
            .map_err(|error| Error::Syntax { path: path.to_owned(), source: Box::new(error) })?;
        let origin = |offset: usize| {
            let line =
                text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count();
            Origin::File(path.to_owned(), line + 1)
        };
        Ok(Self::from_parsed(DeValue::Table(table.into_inner()), 0, &origin))
    }

    /// The same for what was parsed from one place, as a whole.
    pub(super) fn from_text(text: &str, origin: &Origin) -> Option<Self> {
        let value = DeValue::parse(text).ok()?;
        Some(Self::from_parsed(value.into_inner(), 0, &|_| origin.clone()))
    }

    fn from_parsed(value: DeValue<'_>, offset: usize, origin: &impl Fn(usize) -> Origin) -> Self {
        let value = match value {
            DeValue::Boolean(value) => Value::Boolean(value),
            DeValue::Integer(value) => match i64::from_str_radix(value.as_str(), value.radix()) {
                Ok(value) => Value::Integer(value),
                // Too large for TOML; as text it is refused by name where it is read.
                Err(_) => Value::String(value.as_str().to_owned()),
            },
            DeValue::Float(value) => match value.as_str().parse() {
                Ok(value) => Value::Float(value),
                Err(_) => Value::String(value.as_str().to_owned()),
            },
            DeValue::String(value) => Value::String(value.into_owned()),
            DeValue::Datetime(value) => Value::String(value.to_string()),
            DeValue::Array(array) => Value::Array(
                array
                    .into_iter()
                    .map(|item| {
                        let offset = item.span().start;
                        Self::from_parsed(item.into_inner(), offset, origin)
                    })
                    .collect(),
            ),
            DeValue::Table(table) => Value::Table(
                table
                    .into_iter()
                    .map(|(key, value)| {
                        // The key's place, since that of a table is its first line.
                        let offset = key.span().start;
                        let node = Self::from_parsed(value.into_inner(), offset, origin);
                        (key.into_inner().into_owned(), node)
                    })
                    .collect(),
            ),
        };
        Self { value, origin: origin(offset) }
    }

    pub(super) fn from_flags(flags: toml::Table) -> Self {
        Self::from_toml(toml::Value::Table(flags))
    }

    fn from_toml(value: toml::Value) -> Self {
        let value = match value {
            toml::Value::Boolean(value) => Value::Boolean(value),
            toml::Value::Integer(value) => Value::Integer(value),
            toml::Value::Float(value) => Value::Float(value),
            toml::Value::String(value) => Value::String(value),
            toml::Value::Datetime(value) => Value::String(value.to_string()),
            toml::Value::Array(array) => Value::Array(array.into_iter().map(Self::from_toml).collect()),
            toml::Value::Table(table) => {
                Value::Table(table.into_iter().map(|(key, value)| (key, Self::from_toml(value))).collect())
            }
        };
        Self { value, origin: Origin::Flag }
    }

    /// Puts `above` over this one. Tables are merged, everything else is replaced, lists too: a list that
    /// grew from several places could never be made shorter.
    pub(super) fn merge(&mut self, above: Self) {
        match (&mut self.value, above.value) {
            (Value::Table(below), Value::Table(table)) => {
                for (key, node) in table {
                    match below.entry(key) {
                        Entry::Occupied(mut occupied) => occupied.get_mut().merge(node),
                        Entry::Vacant(vacant) => drop(vacant.insert(node)),
                    }
                }
            }
            (_, value) => *self = Self { value, origin: above.origin },
        }
    }
}
