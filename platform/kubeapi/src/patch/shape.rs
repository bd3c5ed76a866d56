//! How the parts of an object merge: which lists are keyed, which are sets, which maps are one value.
//!
//! For custom resources the schema says so, for built-in kinds the table of types. What neither mentions merges field by
//! field if it is a map, and is one value if it is a list.

use serde_json::{Map, Value};

use crate::catalogue::Resource;
use crate::schema::{ListType, Node};
use crate::types::{self, Field, Holds, List, Merge, Message, Type};

/// The shape of one value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'a> {
    Built(&'static Message),
    /// A field of a built-in type that is more than its type says: a map, or something that is one value here.
    BuiltField(&'static Field),
    Custom(&'a Node),
    /// A whole custom resource: its metadata is not its schema's business. Without a schema, nothing else is known.
    Resource(Option<&'a Node>),
    /// Nothing is known: maps merge, lists do not.
    Free,
}

/// How the items of a list are told apart.
#[derive(Debug, PartialEq)]
pub(super) enum Items {
    Atomic,
    Set,
    Map,
}

/// What nothing is known about is not looked into.
fn is_one_value(field: &Field) -> bool {
    field.list == List::Atomic || (field.holds == Holds::One && matches!(field.of, Type::Raw | Type::Json))
}

// === impl Shape ===

impl<'a> Shape<'a> {
    pub(super) fn of(resource: &'a Resource) -> Self {
        match &resource.schema {
            Some(schema) => Self::Resource(Some(schema.root())),
            None if resource.custom => Self::Resource(None),
            None => types::of_kind(&resource.group, &resource.version, &resource.kind)
                .map_or(Self::Free, Self::Built),
        }
    }

    /// The schema that describes this, if one does.
    fn node(self) -> Option<&'a Node> {
        match self {
            Self::Custom(node) => Some(node),
            Self::Resource(node) => node,
            Self::Built(_) | Self::BuiltField(_) | Self::Free => None,
        }
    }

    pub(super) fn field(self, name: &str) -> Self {
        match self {
            Self::Built(message) => match message.field(name) {
                Some(field) if field.holds == Holds::Map || is_one_value(field) => Self::BuiltField(field),
                Some(field) => field.of.message().map_or(Self::Free, Self::Built),
                None => Self::Free,
            },
            // The values of a map.
            Self::BuiltField(field) => field.of.message().map_or(Self::Free, Self::Built),
            Self::Resource(_) if name == "metadata" => {
                types::find("meta", "ObjectMeta").map_or(Self::Free, Self::Built)
            }
            Self::Custom(_) | Self::Resource(_) => {
                self.node().and_then(|node| node.field(name)).map_or(Self::Free, Self::Custom)
            }
            Self::Free => Self::Free,
        }
    }

    /// The shape of the items of a list that is the field `name` of this.
    pub(super) fn items_of(self, name: &str) -> Self {
        match self {
            Self::Built(message) => {
                message.field(name).and_then(|field| field.of.message()).map_or(Self::Free, Self::Built)
            }
            Self::BuiltField(_) | Self::Free => Self::Free,
            Self::Custom(_) | Self::Resource(_) => {
                self.node().and_then(|node| node.field(name)?.item()).map_or(Self::Free, Self::Custom)
            }
        }
    }

    pub(super) fn is_atomic_map(self) -> bool {
        match self {
            Self::Built(message) => message.atomic,
            Self::BuiltField(field) => is_one_value(field),
            Self::Custom(node) => node.is_atomic_map(),
            Self::Resource(_) | Self::Free => false,
        }
    }

    /// Whether null is a value here rather than a way to say nothing.
    pub(super) fn is_nullable(self) -> bool {
        matches!(self, Self::Custom(node) if node.is_nullable())
    }

    /// The list that is the field `name` of this, if it is a built-in type's.
    fn built_list(self, name: &str) -> Option<&'static Field> {
        match self {
            Self::Built(message) => message.field(name).filter(|field| field.holds == Holds::List),
            _ => None,
        }
    }

    /// How the list that is the field `name` of this merges under server-side apply.
    pub(super) fn list(self, name: &str) -> Items {
        if let Some(field) = self.built_list(name) {
            return match &field.list {
                List::Map(_) => Items::Map,
                List::Set => Items::Set,
                List::Atomic | List::Unsaid => Items::Atomic,
            };
        }
        match self.node().and_then(|node| node.field(name)).map(Node::list_type) {
            Some(ListType::Map(_)) => Items::Map,
            Some(ListType::Set) => Items::Set,
            Some(ListType::Atomic) | None => Items::Atomic,
        }
    }

    /// The keys of an item of the keyed list `name`, with defaults for those it does not give.
    pub(super) fn key_of(self, name: &str, item: &Value) -> Map<String, Value> {
        if let Some(field) = self.built_list(name) {
            let List::Map(keys) = &field.list else { return Map::new() };
            let default = |key: &str| field.of.message()?.field(key)?.default.map(Value::from);
            return keys
                .iter()
                .filter_map(|key| {
                    Some(((*key).to_owned(), item.get(*key).cloned().or_else(|| default(key))?))
                })
                .collect();
        }
        let Some(list) = self.node().and_then(|node| node.field(name)) else { return Map::new() };
        let ListType::Map(keys) = list.list_type() else { return Map::new() };
        keys.iter()
            .filter_map(|key| {
                let default = || list.item()?.field(key)?.default_value().cloned();
                Some((key.to_string(), item.get(key.as_ref()).cloned().or_else(default)?))
            })
            .collect()
    }

    /// The key by which a strategic merge of the list `name` finds items; `None` where it replaces.
    pub(super) fn patch_key(self, name: &str) -> Option<&'static str> {
        match self.built_list(name)?.merge {
            Merge::By(key) => Some(key),
            Merge::Replace | Merge::Union => None,
        }
    }

    pub(super) fn is_union(self, name: &str) -> bool {
        self.built_list(name).is_some_and(|field| field.merge == Merge::Union)
    }
}
