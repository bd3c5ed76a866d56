//! An expression that was read and checked.

use serde_json::Value as Json;

use crate::ast::{Expression, Kind, Literal};
use crate::check::Checker;
use crate::error::{CompileError, EvaluationError, Problem};
use crate::estimate::{self, Extent};
use crate::evaluate::Evaluator;
use crate::library::conversions;
use crate::parser;
use crate::pattern::Pattern;
use crate::types::Type;
use crate::value::{List, Text, Value};

/// An expression, ready to be evaluated any number of times.
#[derive(Debug)]
pub struct Program {
    root: Expression,
    kind: Type,
    used: Vec<String>,
}

/// What a variable stands for.
#[derive(Debug, Clone, Copy)]
pub enum Variable<'a> {
    /// A value of this type.
    Value(&'a Json, &'a Type),
    /// A value that may be missing.
    Optional(Option<&'a Json>, &'a Type),
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(String),
    /// A list of nothing but text.
    Texts(Vec<String>),
    /// Something else, of this type.
    Other(&'static str),
}

/// What came out, and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The value, or why there is none.
    pub answer: Result<Answer, EvaluationError>,
    /// In Kubernetes' units.
    pub cost: u64,
}

impl Program {
    /// Reads an expression over variables of these types.
    pub fn compile(text: &str, variables: &[(&str, Type)]) -> Result<Self, CompileError> {
        Self::check(text, Checker::new(variables))
    }

    /// The same for rules about the conditions of a `ManifestWork`, which have a function more: `hasConditions(status)`.
    pub fn compile_for_works(text: &str, variables: &[(&str, Type)]) -> Result<Self, CompileError> {
        Self::check(text, Checker::new(variables).for_works())
    }

    fn check(text: &str, mut checker: Checker) -> Result<Self, CompileError> {
        let refused = |problems: Vec<Problem>| CompileError::new(text, problems);
        let mut root = parser::parse(text).map_err(|problem| refused(vec![problem]))?;
        let kind = checker.run(&mut root).map_err(refused)?;
        Ok(Self { root, kind, used: checker.used })
    }

    /// The type of what comes out.
    pub fn kind(&self) -> &Type {
        &self.kind
    }

    /// Why the expression can never have a value, where that shows without any: a text that is no number, or no pattern.
    pub fn instantiation_error(&self) -> Option<String> {
        instantiation(&self.root)
    }

    /// Whether the expression mentions a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.used.iter().any(|used| used == variable)
    }

    /// What an evaluation may cost at most, in Kubernetes' units, where the variables are as large as `root` says.
    pub fn estimate(&self, root: &Extent) -> u64 {
        estimate::cost(&self.root, root)
    }

    /// Evaluates the expression, and gives up beyond the limit.
    pub fn evaluate<'a>(&'a self, variables: &[(&'a str, Variable<'a>)], limit: u64) -> Evaluation {
        let mut given = Vec::with_capacity(variables.len());
        for (name, variable) in variables {
            let value = match variable {
                Variable::Value(json, kind) => Value::lift(json, kind),
                Variable::Optional(None, _) => Ok(Value::Optional(None)),
                Variable::Optional(Some(json), kind) => Value::lift(json, kind).map(Value::some),
            };
            match value {
                Ok(value) => given.push((*name, value)),
                Err(error) => return Evaluation { answer: Err(error), cost: 0 },
            }
        }
        let mut evaluator = Evaluator::new(given, limit);
        let answer = evaluator.value(&self.root).map(|value| match value {
            Value::Bool(value) => Answer::Bool(value),
            Value::String(text) => Answer::Text(text.as_str().to_owned()),
            Value::List(list) => texts(&list).map_or(Answer::Other("list"), Answer::Texts),
            other => Answer::Other(other.type_name()),
        });
        Evaluation { answer, cost: evaluator.cost() }
    }
}

/// The items of a list, if all of them are text.
fn texts(list: &List<'_>) -> Option<Vec<String>> {
    let text = |item| match item {
        Value::String(text) => Some(text.as_str().to_owned()),
        _ => None,
    };
    list.items().ok()?.into_iter().map(text).collect()
}

fn instantiation(expression: &Expression) -> Option<String> {
    let inner = || expression.parts().into_iter().find_map(instantiation);
    let Kind::Call { function, arguments, .. } = &expression.kind else { return inner() };
    let texts: Vec<_> = arguments
        .iter()
        .map_while(|argument| match &argument.kind {
            Kind::Literal(Literal::String(text)) => Some(text),
            _ => None,
        })
        .collect();
    match (function.as_ref(), texts.as_slice()) {
        ("bool" | "int" | "uint" | "double", [text]) => {
            let given = [Value::String(Text::Borrowed(text))];
            conversions::call(function, &given)?.err().map(|error| error.to_string())
        }
        ("find" | "findAll", [pattern]) => Pattern::new(pattern).err().map(|error| error.to_string()),
        _ => inner(),
    }
}
