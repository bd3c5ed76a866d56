//! Lists and sets.

use std::cmp::Ordering;

use super::{Outcome, list};
use crate::error::EvaluationError;
use crate::evaluate::Evaluator;
use crate::value::Value;

pub(super) fn call<'a>(
    evaluator: &mut Evaluator<'a>,
    function: &str,
    arguments: &[Value<'a>],
) -> Option<Outcome<'a>> {
    let (first, rest) = arguments.split_first()?;
    let items = match list(first)?.items() {
        Ok(items) => items,
        Err(error) => return Some(Err(error)),
    };
    if let Err(error) = evaluator.work(items.len() as u64) {
        return Some(Err(error));
    }
    Some(match (function, rest) {
        ("isSorted", []) => sorted(&items),
        ("sum", []) => sum(evaluator, items),
        ("min", []) => extreme(items, "min", Ordering::Less),
        ("max", []) => extreme(items, "max", Ordering::Greater),
        ("indexOf", [wanted]) => place(evaluator, items.iter().enumerate(), wanted),
        ("lastIndexOf", [wanted]) => place(evaluator, items.iter().enumerate().rev(), wanted),
        ("first", []) => Ok(items.into_iter().next().map_or(Value::Optional(None), Value::some)),
        ("last", []) => Ok(items.into_iter().next_back().map_or(Value::Optional(None), Value::some)),
        ("unwrapOpt" | "optional.unwrap", []) => unwrapped(items),
        ("sets.contains", [other]) => includes(evaluator, first, other),
        ("sets.equivalent", [other]) => match includes(evaluator, first, other) {
            Ok(Value::Bool(true)) => includes(evaluator, other, first),
            outcome => outcome,
        },
        ("sets.intersects", [other]) => intersects(evaluator, other, &items),
        _ => return None,
    })
}

fn incomparable(function: &str) -> EvaluationError {
    EvaluationError::overload(function)
}

fn sorted<'a>(items: &[Value<'a>]) -> Outcome<'a> {
    for pair in items.windows(2) {
        match pair[0].compare(&pair[1]) {
            Some(Ordering::Greater) => return Ok(Value::Bool(false)),
            Some(_) => {}
            None => return Err(incomparable("isSorted")),
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(evaluator: &mut Evaluator<'a>, items: Vec<Value<'a>>) -> Outcome<'a> {
    let mut items = items.into_iter();
    let Some(mut total) = items.next() else { return Ok(Value::Int(0)) };
    for item in items {
        total = super::arithmetic::call(evaluator, "_+_", &[total, item])
            .unwrap_or_else(|| Err(EvaluationError::overload("sum")))?;
    }
    Ok(total)
}

fn extreme<'a>(items: Vec<Value<'a>>, name: &str, wanted: Ordering) -> Outcome<'a> {
    let mut items = items.into_iter();
    let Some(mut best) = items.next() else {
        return Err(EvaluationError::failed(format!("{name} called on empty list")));
    };
    for item in items {
        match item.compare(&best) {
            Some(order) if order == wanted => best = item,
            Some(_) => {}
            None => return Err(incomparable(name)),
        }
    }
    Ok(best)
}

fn place<'v, 'a: 'v>(
    evaluator: &mut Evaluator<'a>,
    items: impl Iterator<Item = (usize, &'v Value<'a>)>,
    wanted: &Value<'a>,
) -> Outcome<'a> {
    for (place, item) in items {
        if evaluator.equal(item, wanted)? {
            return Ok(Value::Int(i64::try_from(place).unwrap_or(i64::MAX)));
        }
    }
    Ok(Value::Int(-1))
}

/// The values that are there.
fn unwrapped<'a>(items: Vec<Value<'a>>) -> Outcome<'a> {
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::Optional(inner) => values.extend(inner.map(|value| value.as_ref().clone())),
            _ => return Err(EvaluationError::overload("unwrapOpt")),
        }
    }
    Ok(Value::list(values))
}

/// Whether everything of the second is in the first.
fn includes<'a>(evaluator: &mut Evaluator<'a>, container: &Value<'a>, wanted: &Value<'a>) -> Outcome<'a> {
    let wanted = list(wanted).ok_or_else(|| EvaluationError::overload("sets.contains"))?;
    for item in wanted.items()? {
        if !super::contains(evaluator, container, &item)? {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn intersects<'a>(evaluator: &mut Evaluator<'a>, container: &Value<'a>, wanted: &[Value<'a>]) -> Outcome<'a> {
    for item in wanted {
        if super::contains(evaluator, container, item)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
