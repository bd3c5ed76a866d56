//! The Common Expression Language as Kubernetes speaks it.
//!
//! Custom resource definitions carry rules in this language. A rule is read and checked once ([`Program::compile`]) against the
//! types that follow from the schema, and then evaluated for every write ([`Program::evaluate`]). Both are bounded: the
//! depth and the length of an expression when it is read, and what an evaluation may cost when it runs. What it may cost at most
//! is told beforehand ([`Program::estimate`]). The prices, and the words of the messages, are those of Kubernetes, because people
//! write rules against them.
//!
//! Everything here is pure. Values of the object are read where they are; nothing is copied to be looked at.
//!
//! The libraries are those a cluster offers to rules: text, lists, sets, regular expressions, URLs, addresses, quantities,
//! versions, named formats, times and optional values. See `docs/decisions/0010-expression-language.md` for why this is our own.

mod ast;
mod check;
mod equality;
mod error;
mod estimate;
mod evaluate;
mod lexer;
mod library;
mod parser;
mod pattern;
mod program;
mod quantity;
mod signatures;
#[cfg(test)]
mod tests;
mod types;
mod value;

pub use error::{CompileError, EvaluationError};
pub use estimate::{Extent, Parts};
pub use pattern::{Pattern, PatternError};
pub use program::{Answer, Evaluation, Program, Variable};
pub use quantity::{Quantity, QuantityError};
pub use types::{Field, Identity, ListType, ObjectType, Type};
