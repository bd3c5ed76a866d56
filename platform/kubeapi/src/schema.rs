//! The structural schema of a custom resource: what its objects may contain.
//!
//! A definition's OpenAPI schema is read once into a compact tree, which then serves four purposes: fields it does not know are
//! pruned, absent ones get their defaults, what remains is validated, and patches learn which lists are sets or maps.
//! Rules in the expression language (`x-kubernetes-validations`) are compiled with it, and evaluated where the rest holds.

use std::sync::OnceLock;

use pilothouse_cel::Pattern as Regex;
use serde_json::Value;

use self::expressions::Checks;
use crate::status::Cause;

mod budget;
mod declared;
mod defaults;
mod expressions;
mod extent;
mod format;
mod mistakes;
mod parse;
mod prune;
mod structure;
#[cfg(test)]
mod tests;
mod validate;

/// A parsed schema.
#[derive(Debug)]
pub(crate) struct Structural {
    root: Node,
    /// Most schemas have no rules.
    checks: Option<Box<Checks>>,
}

/// The schema of one value.
#[derive(Debug, Default)]
pub(crate) struct Node {
    kind: Option<Kind>,
    nullable: bool,
    /// Sorted by name.
    properties: Vec<(Box<str>, Node)>,
    additional: Additional,
    items: Option<Box<Node>>,
    preserve_unknown: bool,
    embedded_resource: bool,
    int_or_string: bool,
    list_type: ListType,
    atomic_map: bool,
    default: Option<Box<Value>>,
    /// Most values have none, so they stand apart.
    rules: Option<Box<Rules>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// What properties that are not named may be.
#[derive(Debug, Default)]
enum Additional {
    #[default]
    None,
    Any,
    Of(Box<Node>),
}

/// How the items of a list are told apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<Box<str>>),
}

/// Everything beyond the type.
#[derive(Debug, Default)]
struct Rules {
    format: Option<Box<str>>,
    one_of: Vec<Node>,
    any_of: Vec<Node>,
    all_of: Vec<Node>,
    not: Option<Box<Node>>,
    required: Vec<Box<str>>,
    allowed: Vec<Value>,
    pattern: Option<Pattern>,
    minimum: Option<f64>,
    exclusive_minimum: bool,
    maximum: Option<f64>,
    exclusive_maximum: bool,
    multiple_of: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
}

/// Compiled when first used: most patterns of a large schema never are.
#[derive(Debug)]
struct Pattern {
    text: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

// === impl Structural ===

impl Structural {
    /// Reads a schema. What it cannot say is left out; [`Structural::problems`] tells an author what is wrong.
    pub(crate) fn parse(schema: &Value) -> Self {
        Self { root: parse::node(schema), checks: Checks::compile(schema).map(Box::new) }
    }

    /// Why a schema is not structural; empty when it is.
    pub(crate) fn problems(schema: &Value, path: &str) -> Vec<Cause> {
        let mut causes = structure::problems(schema, path);
        // Rules over a schema that is wrong itself would only be reported for what is wrong with that.
        if causes.is_empty() {
            mistakes::find(schema, path, &mut causes);
        }
        causes
    }

    /// Formats that are not checked, each once.
    pub(crate) fn unknown_formats(schema: &Value) -> Vec<String> {
        let mut found = Vec::new();
        format::unknown(schema, &mut found);
        found
    }

    /// Drops what the schema does not know, and names each dropped field.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        prune::root(&self.root, object, &mut dropped);
        dropped
    }

    /// Fills in defaults, and drops nulls that mean "absent".
    pub(crate) fn default(&self, object: &mut Value) {
        defaults::fill(&self.root, object);
    }

    /// What is wrong with an object. Parts that are as they were in `old` are not complained about: a definition that
    /// became stricter must not freeze the objects it already has.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = validate::object(&self.root, object, old);
        let Some(checks) = &self.checks else { return causes };
        // A rule may rely on what the rest of the schema says.
        match causes.iter().any(Cause::blocks_rules) {
            true => causes.push(Cause::rules_not_checked()),
            false => causes.extend(checks.run(object, old)),
        }
        causes
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }
}

// === impl Node ===

impl Node {
    fn property(&self, name: &str) -> Option<&Self> {
        let place = self.properties.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()?;
        Some(&self.properties[place].1)
    }

    /// The schema of a field, named or not.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.property(name).or(match &self.additional {
            Additional::Of(node) => Some(node),
            Additional::None | Additional::Any => None,
        })
    }

    pub(crate) fn item(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    pub(crate) fn list_type(&self) -> &ListType {
        &self.list_type
    }

    pub(crate) fn is_atomic_map(&self) -> bool {
        self.atomic_map
    }

    pub(crate) fn is_nullable(&self) -> bool {
        self.nullable
    }

    pub(crate) fn default_value(&self) -> Option<&Value> {
        self.default.as_deref()
    }
}

// === impl Pattern ===

impl Pattern {
    /// A pattern beyond the engine's syntax accepts everything.
    fn matches(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| Regex::new(&self.text).ok());
        compiled.as_ref().is_none_or(|regex| regex.is_match(text))
    }
}
