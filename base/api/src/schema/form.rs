//! A description, read once, in the shape that checking wants.

use regex_lite::Regex;
use schemars::JsonSchema;
use serde_json::{Map, Value};

/// What a body may look like.
#[derive(Debug)]
pub(crate) struct Form {
    pub(super) root: Node,
}

/// What one value may look like.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// Whether `null` stands for something, and not only for being absent.
    pub(super) nullable: bool,
    /// Whether it may be said only once.
    pub(super) fixed: bool,
}

/// What kind of value, and its limits.
#[derive(Debug)]
pub(super) enum Kind {
    Anything,
    Object(Vec<Member>),
    Map(Box<Node>),
    List { items: Box<Node>, least: usize, most: usize },
    Text(Text),
    Integer { least: Option<i64>, most: Option<i64> },
    Boolean,
}

/// A member of an object.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) node: Node,
    pub(super) required: bool,
    /// Whether a patch may not remove it.
    pub(super) never_null: bool,
}

/// What a text may look like.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) least: usize,
    pub(super) most: usize,
    pub(super) pattern: Option<Regex>,
    pub(super) choices: Vec<String>,
    pub(super) is_id: bool,
    /// The type that the named resource must have.
    pub(super) resource_type: Option<String>,
}

/// Words that are understood; a description with another would promise what nobody checks.
const WORDS: &[&str] = &[
    "additionalProperties",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
    "type",
    "writeOnly",
    "x-ms-arm-id-details",
    "x-ms-mutability",
    "x-ms-secret",
    "x-never-null",
];

impl Form {
    pub(crate) fn of<T: JsonSchema>() -> Self {
        Self::read(&super::request::<T>())
    }

    pub(super) fn read(schema: &Value) -> Self {
        Self { root: Node::read(schema, false) }
    }
}

impl Node {
    fn read(schema: &Value, fixed: bool) -> Self {
        let nothing = Map::new();
        let schema = schema.as_object().unwrap_or(&nothing);
        debug_assert!(
            schema.keys().all(|word| WORDS.contains(&word.as_str())),
            "{:?} is not understood",
            schema.keys()
        );
        let fixed = fixed || is_fixed(schema);
        let kind = match schema.get("type").and_then(Value::as_str) {
            Some("object") => match schema.get("additionalProperties") {
                Some(values @ Value::Object(_)) => Kind::Map(Box::new(Self::read(values, fixed))),
                _ => Kind::Object(members(schema, fixed)),
            },
            Some("array") => Kind::List {
                items: Box::new(Self::read(schema.get("items").unwrap_or(&Value::Null), fixed)),
                least: count(schema, "minItems").unwrap_or(0),
                most: count(schema, "maxItems").unwrap_or(usize::MAX),
            },
            Some("string") => Kind::Text(Text::read(schema)),
            Some("integer") => {
                Kind::Integer { least: number(schema, "minimum"), most: number(schema, "maximum") }
            }
            Some("boolean") => Kind::Boolean,
            _ => Kind::Anything,
        };
        Self { kind, nullable: schema.contains_key("nullable"), fixed }
    }
}

impl Text {
    fn read(schema: &Map<String, Value>) -> Self {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let choices = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        Self {
            least: count(schema, "minLength").unwrap_or(0),
            most: count(schema, "maxLength").unwrap_or(usize::MAX),
            // Patterns stand in the code; a test reads every form, so that none is malformed.
            pattern: text("pattern").and_then(|pattern| Regex::new(pattern).ok()),
            choices: choices.filter_map(Value::as_str).map(str::to_owned).collect(),
            is_id: text("format") == Some("arm-id"),
            resource_type: schema
                .get("x-ms-arm-id-details")
                .and_then(|details| details.pointer("/allowedResources/0/type"))
                .and_then(Value::as_str)
                .map(str::to_owned),
        }
    }
}

fn members(schema: &Map<String, Value>, fixed: bool) -> Vec<Member> {
    let required = |name: &str| {
        let list = schema.get("required").and_then(Value::as_array);
        list.is_some_and(|list| list.iter().any(|found| found == name))
    };
    let Some(Value::Object(members)) = schema.get("properties") else { return Vec::new() };
    let member = |(name, schema): (&String, &Value)| Member {
        name: name.clone(),
        node: Node::read(schema, fixed),
        required: required(name),
        never_null: required(name) || schema.get("default").is_some() || schema.get("x-never-null").is_some(),
    };
    members.iter().map(member).collect()
}

pub(super) fn is_fixed(schema: &Map<String, Value>) -> bool {
    let list = schema.get("x-ms-mutability").and_then(Value::as_array);
    list.is_some_and(|list| !list.iter().any(|word| word == "update"))
}

fn count(schema: &Map<String, Value>, key: &str) -> Option<usize> {
    schema.get(key).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok())
}

fn number(schema: &Map<String, Value>, key: &str) -> Option<i64> {
    schema.get(key).and_then(Value::as_i64)
}
