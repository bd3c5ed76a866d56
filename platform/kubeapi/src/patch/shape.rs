//! How the parts of an object merge: which lists are keyed, which are sets, which maps are one value.
//!
//! For custom resources the schema says so. For built-in kinds the exceptions stand in a table; whatever is not in it
//! merges field by field if it is a map, and as one value if it is a list.

use serde_json::{Map, Value};

use crate::catalogue::Resource;
use crate::schema::{ListType, Node};

mod builtin;

/// The shape of one value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'a> {
    Built(&'static Type),
    Custom(&'a Node),
    /// A whole custom resource: its metadata is not its schema's business. Without a schema, nothing else is known.
    Resource(Option<&'a Node>),
    /// Nothing is known: maps merge, lists do not.
    Free,
}

/// The exceptional fields of a built-in type.
#[derive(Debug)]
pub(super) struct Type {
    fields: &'static [Field],
    /// One value as a whole.
    atomic: bool,
}

/// A field that does not merge like any other, or contains such.
#[derive(Debug)]
pub(super) struct Field {
    name: &'static str,
    /// Of the value, or of the items if it is a list.
    of: &'static Type,
    list: List,
    patch: Patch,
}

/// How server-side apply sees a list.
#[derive(Debug, Clone, Copy, PartialEq)]
enum List {
    Atomic,
    Set,
    Map(&'static [Key]),
}

/// A key of a keyed list, with the value it has when it is not given.
type Key = (&'static str, Option<&'static str>);

/// How a strategic merge sees a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patch {
    Replace,
    /// Items with the same value of this key are the same.
    Merge(&'static str),
    /// A list of plain values to which a patch adds.
    Union,
}

/// How the items of a list are told apart.
#[derive(Debug, PartialEq)]
pub(super) enum Items {
    Atomic,
    Set,
    Map,
}

// === impl Shape ===

impl<'a> Shape<'a> {
    pub(super) fn of(resource: &'a Resource) -> Self {
        match &resource.schema {
            Some(schema) => Self::Resource(Some(schema.root())),
            None if resource.custom => Self::Resource(None),
            None => Self::Built(builtin::root(&resource.group, &resource.plural)),
        }
    }

    /// The schema that describes this, if one does.
    fn node(self) -> Option<&'a Node> {
        match self {
            Self::Custom(node) => Some(node),
            Self::Resource(node) => node,
            Self::Built(_) | Self::Free => None,
        }
    }

    pub(super) fn field(self, name: &str) -> Self {
        match self {
            Self::Built(kind) => match kind.field(name) {
                Some(field) => Self::Built(field.of),
                None => Self::Free,
            },
            Self::Resource(_) if name == "metadata" => Self::Built(builtin::metadata()),
            Self::Custom(_) | Self::Resource(_) => {
                self.node().and_then(|node| node.field(name)).map_or(Self::Free, Self::Custom)
            }
            Self::Free => Self::Free,
        }
    }

    /// The shape of the items of a list that is the field `name` of this.
    pub(super) fn items_of(self, name: &str) -> Self {
        match self {
            Self::Built(_) | Self::Free => self.field(name),
            Self::Custom(_) | Self::Resource(_) => {
                self.node().and_then(|node| node.field(name)?.item()).map_or(Self::Free, Self::Custom)
            }
        }
    }

    pub(super) fn is_atomic_map(self) -> bool {
        match self {
            Self::Built(kind) => kind.atomic,
            Self::Custom(node) => node.is_atomic_map(),
            Self::Resource(_) | Self::Free => false,
        }
    }

    /// Whether null is a value here rather than a way to say nothing.
    pub(super) fn is_nullable(self) -> bool {
        matches!(self, Self::Custom(node) if node.is_nullable())
    }

    /// How the list that is the field `name` of this merges under server-side apply.
    pub(super) fn list(self, name: &str) -> Items {
        match self {
            Self::Built(kind) => match kind.field(name).map(|field| field.list) {
                Some(List::Map(_)) => Items::Map,
                Some(List::Set) => Items::Set,
                Some(List::Atomic) | None => Items::Atomic,
            },
            _ => match self.node().and_then(|node| node.field(name)).map(Node::list_type) {
                Some(ListType::Map(_)) => Items::Map,
                Some(ListType::Set) => Items::Set,
                Some(ListType::Atomic) | None => Items::Atomic,
            },
        }
    }

    /// The keys of an item of the keyed list `name`, with defaults for those it does not give.
    pub(super) fn key_of(self, name: &str, item: &Value) -> Map<String, Value> {
        match self {
            Self::Built(kind) => {
                let Some(List::Map(keys)) = kind.field(name).map(|field| field.list) else {
                    return Map::new();
                };
                keys.iter()
                    .filter_map(|(key, default)| {
                        let value = item.get(key).cloned().or_else(|| default.map(Value::from))?;
                        Some(((*key).to_owned(), value))
                    })
                    .collect()
            }
            _ => {
                let Some(list) = self.node().and_then(|node| node.field(name)) else { return Map::new() };
                let ListType::Map(keys) = list.list_type() else { return Map::new() };
                keys.iter()
                    .filter_map(|key| {
                        let default = || list.item()?.field(key)?.default_value().cloned();
                        Some((key.to_string(), item.get(key.as_ref()).cloned().or_else(default)?))
                    })
                    .collect()
            }
        }
    }

    /// The key by which a strategic merge of the list `name` finds items; `None` where it replaces.
    pub(super) fn patch_key(self, name: &str) -> Option<&'static str> {
        match self {
            Self::Built(kind) => match kind.field(name)?.patch {
                Patch::Merge(key) => Some(key),
                Patch::Replace | Patch::Union => None,
            },
            Self::Custom(_) | Self::Resource(_) | Self::Free => None,
        }
    }

    pub(super) fn is_union(self, name: &str) -> bool {
        matches!(self, Self::Built(kind) if kind.field(name).is_some_and(|field| field.patch == Patch::Union))
    }
}

// === impl Type ===

impl Type {
    fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}
