//! Makes a typed configuration of a tree, and remembers the way.
//!
//! This is a serde deserializer of our own, for three things a general one cannot do: it knows the path and
//! origin of each value when something is wrong with it; it sees which fields a struct has, so that it can
//! collect *all* keys that mean nothing and propose the nearest that do; and it reads a variable's text as
//! whatever type is asked for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

mod access;

use access::{Entries, Items, Variant};

use super::environment;
use super::error::{Error, Origin, UnknownKey};
use super::nearest::nearest;
use super::node::{Node, Value};

/// Reads `root` as a `T`.
pub(super) fn read<T: DeserializeOwned>(root: &Node) -> Result<T, Error> {
    let unknown = RefCell::new(Vec::new());
    let result = T::deserialize(Reader { node: root, path: Vec::new(), unknown: &unknown });
    let unknown = unknown.into_inner();
    // First, since a key that is missing is often one that was misspelt.
    if !unknown.is_empty() {
        return Err(Error::Unknown(unknown));
    }
    result.map_err(Failure::into_error)
}

/// One value on its way into a type.
#[derive(Clone)]
struct Reader<'a> {
    node: &'a Node,
    path: Vec<String>,
    unknown: &'a RefCell<Vec<UnknownKey>>,
}

/// What goes wrong inside; the place is added by the innermost reader it passes.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Failure {
    message: String,
    missing: Option<&'static str>,
    place: Option<(Vec<String>, Origin)>,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn below(&self, key: impl Into<String>, node: &'a Node) -> Self {
        let mut path = self.path.clone();
        path.push(key.into());
        Self { node, path, unknown: self.unknown }
    }

    /// Adds the place to a failure that has none.
    fn locate<T>(path: Vec<String>, node: &Node, result: Result<T, Failure>) -> Result<T, Failure> {
        result.map_err(|mut failure| {
            failure.place.get_or_insert_with(|| (path, node.origin.clone()));
            failure
        })
    }

    fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        let (path, node) = (self.path.clone(), self.node);
        let result = match &node.value {
            Value::Boolean(value) => visitor.visit_bool(*value),
            Value::Integer(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::String(value) | Value::Text(value) => visitor.visit_str(value),
            Value::Array(items) => visitor.visit_seq(Items::new(self, items)),
            Value::Table(table) => visitor.visit_map(Entries::all(self, table)),
        };
        Self::locate(path, node, result)
    }

    /// A scalar: a variable's text is read as one if it can be, and refused as the text it is if not.
    fn scalar<'de, V: Visitor<'de>, T>(
        self,
        visitor: V,
        parse: impl FnOnce(&str) -> Option<T>,
        visit: impl FnOnce(V, T) -> Result<V::Value, Failure>,
    ) -> Result<V::Value, Failure> {
        match &self.node.value {
            Value::Text(text) => match parse(text.trim()) {
                Some(value) => Self::locate(self.path, self.node, visit(visitor, value)),
                None => self.visit(visitor),
            },
            _ => self.visit(visitor),
        }
    }

    /// What a variable gives in TOML's own notation, if it begins like that: a list or a table.
    fn inline(&self, opening: char) -> Option<Node> {
        match &self.node.value {
            Value::Text(text) if text.trim_start().starts_with(opening) => {
                Node::from_text(text, &self.node.origin)
            }
            _ => None,
        }
    }

    /// The same place with another value.
    fn instead<'b>(&'b self, node: &'b Node) -> Reader<'b> {
        Reader { node, path: self.path.clone(), unknown: self.unknown }
    }

    fn note_unknown(&self, table: &BTreeMap<String, Node>, fields: &[&str]) {
        for (key, node) in table {
            if fields.contains(&key.as_str()) {
                continue;
            }
            let path_of = |key: &str| self.below(key, node).path.join(".");
            self.unknown.borrow_mut().push(UnknownKey {
                key: path_of(key),
                origin: node.origin.clone(),
                nearest: nearest(key, fields).map(path_of),
            });
        }
    }
}

/// Parsed as the widest type there is; the visitor refuses what its own cannot hold.
macro_rules! scalars {
    ($($method:ident => $visit:ident($type:ty),)*) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
                self.scalar(visitor, |text| text.parse::<$type>().ok(), |visitor, value| visitor.$visit(value))
            }
        )*
    };
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Failure;

    scalars! {
        deserialize_bool => visit_bool(bool),
        deserialize_i8 => visit_i64(i64),
        deserialize_i16 => visit_i64(i64),
        deserialize_i32 => visit_i64(i64),
        deserialize_i64 => visit_i64(i64),
        deserialize_u8 => visit_u64(u64),
        deserialize_u16 => visit_u64(u64),
        deserialize_u32 => visit_u64(u64),
        deserialize_u64 => visit_u64(u64),
        deserialize_f32 => visit_f64(f64),
        deserialize_f64 => visit_f64(f64),
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct identifier
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.visit(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let (path, node) = (self.path.clone(), self.node);
        Self::locate(path, node, visitor.visit_newtype_struct(self))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        if let Some(list) = self.inline('[') {
            return self.instead(&list).visit(visitor);
        }
        let Value::Text(text) = &self.node.value else { return self.visit(visitor) };
        let items: Vec<_> = text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(|item| Node { value: Value::Text(item.to_owned()), origin: self.node.origin.clone() })
            .collect();
        visitor.visit_seq(Items::new(self.clone(), &items))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        if let Some(table) = self.inline('{') {
            return self.instead(&table).visit(visitor);
        }
        self.visit(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        if let Some(table) = self.inline('{') {
            return self.instead(&table).deserialize_struct(name, fields, visitor);
        }
        let Value::Table(table) = &self.node.value else { return self.visit(visitor) };
        self.note_unknown(table, fields);
        let (path, node) = (self.path.clone(), self.node);
        Self::locate(path, node, visitor.visit_map(Entries::known(self, table, fields)))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let (path, node) = (self.path.clone(), self.node);
        let result = match &node.value {
            Value::String(variant) | Value::Text(variant) => {
                let variant: StrDeserializer<'_, Failure> = variant.as_str().into_deserializer();
                visitor.visit_enum(variant)
            }
            Value::Table(table) => {
                let mut entries = table.iter();
                match (entries.next(), entries.next()) {
                    (Some((variant, content)), None) => {
                        visitor.visit_enum(Variant { name: variant, content: self.below(variant, content) })
                    }
                    // Each may come from another source, where it was alone.
                    (Some((one, _)), Some((another, _))) => Err(<Failure as de::Error>::custom(format!(
                        "`{one}` and `{another}` exclude each other"
                    ))),
                    (None, _) => self.visit(visitor),
                }
            }
            _ => self.visit(visitor),
        };
        Self::locate(path, node, result)
    }
}

// === impl Failure ===

impl Failure {
    fn into_error(self) -> Error {
        let (mut path, origin) = self.place.unwrap_or((Vec::new(), Origin::Several));
        if let Some(field) = self.missing {
            path.push(field.to_owned());
            return Error::Missing { variable: environment::variable(&path), key: path.join(".") };
        }
        Error::Invalid { key: path.join("."), origin, message: self.message }
    }
}

impl de::Error for Failure {
    fn custom<T: Display>(message: T) -> Self {
        Self { message: message.to_string(), missing: None, place: None }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { message: format!("missing field `{field}`"), missing: Some(field), place: None }
    }
}
