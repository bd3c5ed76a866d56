//! The functions, and what each costs.

use crate::error::EvaluationError;
use crate::evaluate::Evaluator;
use crate::pattern::Pattern;
use crate::value::{List, Map, Value};

mod arithmetic;
pub(crate) mod conversions;
pub(crate) mod format_text;
pub(crate) mod formats;
mod lists;
pub(crate) mod network;
mod optional;
mod patterns;
mod quantity;
pub(crate) mod semver;
mod strings;
pub(crate) mod time;
pub(crate) mod url;
mod works;

pub(crate) type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Calls a function. Each library takes what it knows; what nobody takes was not checked beforehand and is wrong.
pub(crate) fn call<'a>(
    evaluator: &mut Evaluator<'a>,
    function: &str,
    regex: Option<&Pattern>,
    arguments: &[Value<'a>],
) -> Outcome<'a> {
    let before = cost(function, arguments);
    evaluator.charge(before)?;
    if let Some(outcome) = relations(evaluator, function, arguments) {
        return outcome;
    }
    let outcome = arithmetic::call(evaluator, function, arguments)
        .or_else(|| conversions::call(function, arguments))
        .or_else(|| strings::call(evaluator, function, arguments))
        .or_else(|| patterns::call(function, regex, arguments))
        .or_else(|| lists::call(evaluator, function, arguments))
        .or_else(|| optional::call(function, arguments))
        .or_else(|| time::call(function, arguments))
        .or_else(|| quantity::call(function, arguments))
        .or_else(|| semver::call(function, arguments))
        .or_else(|| network::call(function, arguments))
        .or_else(|| url::call(function, arguments))
        .or_else(|| formats::call(function, arguments))
        .or_else(|| works::call(function, arguments));
    let value = outcome.unwrap_or_else(|| Err(EvaluationError::overload(function)))?;
    if function == "join" {
        evaluator.charge(traversal(value.size() * 2))?;
    }
    Ok(value)
}

fn traversal(size: u64) -> u64 {
    size.div_ceil(10)
}

/// What a call costs, as Kubernetes counts it.
fn cost(function: &str, arguments: &[Value<'_>]) -> u64 {
    let size = |place: usize| arguments.get(place).map_or(0, Value::size);
    let pattern = |text: usize, pattern: usize| {
        traversal(size(text).saturating_add(1)).saturating_mul(size(pattern).div_ceil(4))
    };
    match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match arguments.first() {
            Some(Value::String(_)) => traversal(size(0)),
            _ => size(0),
        },
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
        | "quantity" | "isQuantity" | "semver" | "isSemver" => traversal(size(0)),
        "ip" if matches!(arguments.first(), Some(Value::String(_))) => traversal(size(0)),
        "replace" | "split" | "ip.isCanonical" => traversal(size(0) * 2),
        "join" => 0,
        "find" | "findAll" | "matches" => pattern(0, 1),
        "containsIP" => traversal(size(0) * 2) + text_cost(arguments.get(1)),
        "containsCIDR" => traversal(size(0) * 2) + traversal(size(0)) + 1 + text_cost(arguments.get(1)),
        "validate" => traversal(size(1) + 1).saturating_mul(32),
        "startsWith" | "endsWith" | "strings.quote" | "format" => traversal(size(0)),
        "bytes" | "string" if matches!(arguments.first(), Some(Value::String(_) | Value::Bytes(_))) => {
            traversal(size(0))
        }
        "contains" => traversal(size(0)).saturating_mul(traversal(size(1))),
        "@in" if matches!(arguments.get(1), Some(Value::List(_))) => size(1),
        "_==_" | "_!=_" => traversal(size(0).min(size(1))),
        "_<_" | "_<=_" | "_>_" | "_>=_"
            if matches!(arguments.first(), Some(Value::String(_) | Value::Bytes(_))) =>
        {
            traversal(size(0).min(size(1)))
        }
        "_+_" if matches!(arguments.first(), Some(Value::String(_) | Value::Bytes(_))) => {
            traversal(size(0) + size(1))
        }
        "sets.contains" | "sets.equivalent" | "sets.intersects" => size(0).saturating_mul(size(1)) + 1,
        _ => 1,
    }
}

fn text_cost(argument: Option<&Value<'_>>) -> u64 {
    match argument {
        Some(value @ Value::String(_)) => traversal(value.size()),
        _ => 0,
    }
}

/// Equality, order and membership.
fn relations<'a>(
    evaluator: &mut Evaluator<'a>,
    function: &str,
    arguments: &[Value<'a>],
) -> Option<Outcome<'a>> {
    let [one, other] = arguments else { return None };
    let answer = match function {
        "_==_" => evaluator.equal(one, other),
        "_!=_" => evaluator.equal(one, other).map(|equal| !equal),
        "_<_" | "_<=_" | "_>_" | "_>=_" => match one.compare(other) {
            None if is_number(one) && is_number(other) => {
                Err(EvaluationError::failed("NaN values cannot be ordered"))
            }
            None => Err(EvaluationError::overload(function)),
            Some(order) => Ok(match function {
                "_<_" => order.is_lt(),
                "_<=_" => order.is_le(),
                "_>_" => order.is_gt(),
                _ => order.is_ge(),
            }),
        },
        "@in" => contains(evaluator, other, one),
        _ => return None,
    };
    Some(answer.map(Value::Bool))
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}

fn contains<'a>(
    evaluator: &mut Evaluator<'a>,
    container: &Value<'a>,
    wanted: &Value<'a>,
) -> Result<bool, EvaluationError> {
    match container {
        Value::List(list) => {
            for place in 0..list.len() {
                if let Some(item) = list.get(place)?
                    && evaluator.equal(&item, wanted)?
                {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(map.get(wanted)?.is_some()),
        _ => Err(EvaluationError::overload("@in")),
    }
}

fn text<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    match value {
        Value::String(text) => Some(text.as_str()),
        _ => None,
    }
}

fn texts<'a>(all: impl IntoIterator<Item = String>) -> Value<'a> {
    Value::list(all.into_iter().map(Value::text).collect())
}

fn map_of_lists<'a>(all: std::collections::BTreeMap<String, Vec<String>>) -> Value<'a> {
    let entries =
        all.into_iter().map(|(key, values)| (crate::value::Key::String(key.into()), texts(values))).collect();
    Value::Map(Map::Made(std::rc::Rc::new(entries)))
}

fn list<'v, 'a>(value: &'v Value<'a>) -> Option<&'v List<'a>> {
    match value {
        Value::List(list) => Some(list),
        _ => None,
    }
}
