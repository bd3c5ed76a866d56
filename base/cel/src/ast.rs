//! The expression as a tree. Macros are nodes of their own, so that nothing has to be unfolded to be evaluated.

use std::sync::Arc;

use crate::pattern::Pattern;
use crate::types::Type;

#[derive(Debug)]
pub(crate) struct Expression {
    /// Where it stands, in characters from the start: what an error points at.
    pub(crate) at: usize,
    pub(crate) kind: Kind,
    /// The type of its value, as far as the check could tell.
    pub(crate) result: Type,
}

impl Expression {
    pub(crate) fn new(at: usize, kind: Kind) -> Self {
        Self { at, kind, result: Type::Dyn }
    }

    /// What stands directly inside.
    pub(crate) fn parts(&self) -> Vec<&Self> {
        match &self.kind {
            Kind::Literal(_) | Kind::Identifier(_) => Vec::new(),
            Kind::Select { operand, .. } => vec![operand],
            Kind::Index { operand, index, .. } => vec![operand, index],
            Kind::Call { target, arguments, .. } => target.as_deref().into_iter().chain(arguments).collect(),
            Kind::And(terms) | Kind::Or(terms) => terms.iter().collect(),
            Kind::Conditional(parts) => parts.iter().collect(),
            Kind::List(items) => items.iter().map(|(_, item)| item).collect(),
            Kind::Map(entries) => entries.iter().flat_map(|(_, key, value)| [key, value]).collect(),
            Kind::Fold(fold) => {
                std::iter::once(&fold.range).chain(&fold.filter).chain(&fold.transform).collect()
            }
            Kind::Optional { operand, body, .. } => vec![operand, body],
        }
    }
}

#[derive(Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    Identifier(Box<str>),
    Select {
        operand: Box<Expression>,
        field: Box<str>,
        access: Access,
    },
    Index {
        operand: Box<Expression>,
        index: Box<Expression>,
        optional: bool,
    },
    Call {
        function: Box<str>,
        target: Option<Box<Expression>>,
        arguments: Vec<Expression>,
        /// Of a pattern that is written out, compiled once.
        regex: Option<Arc<Pattern>>,
    },
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Conditional(Box<[Expression; 3]>),
    /// With whether an item is optional.
    List(Vec<(bool, Expression)>),
    Map(Vec<(bool, Expression, Expression)>),
    Fold(Box<Fold>),
    /// `optMap` and `optFlatMap`.
    Optional {
        operand: Box<Expression>,
        variable: Box<str>,
        body: Box<Expression>,
        flat: bool,
    },
}

/// How a field is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// `a.b`
    Value,
    /// `has(a.b)`
    Presence,
    /// `a.?b`
    Optional,
}

#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Arc<[u8]>),
}

/// A walk over a list or a map.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) kind: FoldKind,
    pub(crate) range: Expression,
    pub(crate) variable: Box<str>,
    /// The value, or the item, where the first is the key, or the place.
    pub(crate) second: Option<Box<str>>,
    /// What decides whether an element counts.
    pub(crate) filter: Option<Expression>,
    /// What becomes of it.
    pub(crate) transform: Option<Expression>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// `map`, `filter` and `transformList`.
    List,
    /// `transformMap`.
    Map,
    /// `transformMapEntry`.
    Entries,
}
