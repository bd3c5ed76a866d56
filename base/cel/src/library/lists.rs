//! Lists and sets.

use std::cmp::Ordering;

use super::{Outcome, list};
use crate::error::EvaluationError;
use crate::evaluate::Evaluator;
use crate::value::Value;

/// The longest list that `lists.range` makes.
const LONGEST: i64 = 1_000_000;

pub(super) fn call<'a>(
    evaluator: &mut Evaluator<'a>,
    function: &str,
    arguments: &[Value<'a>],
) -> Option<Outcome<'a>> {
    if let ("lists.range", [Value::Int(count)]) = (function, arguments) {
        return Some(range(evaluator, *count));
    }
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
        ("reverse", []) => Ok(Value::list(items.into_iter().rev().collect())),
        ("slice", [Value::Int(start), Value::Int(end)]) => slice(&items, *start, *end),
        ("distinct", []) => distinct(evaluator, items),
        ("sort", []) => sort(items),
        ("flatten", []) => flatten(evaluator, items, 1),
        ("flatten", [Value::Int(depth)]) => flatten(evaluator, items, *depth),
        ("sets.contains", [other]) => includes(evaluator, first, other),
        ("sets.equivalent", [other]) => match includes(evaluator, first, other) {
            Ok(Value::Bool(true)) => includes(evaluator, other, first),
            outcome => outcome,
        },
        ("sets.intersects", [other]) => intersects(evaluator, other, &items),
        _ => return None,
    })
}

fn range<'a>(evaluator: &mut Evaluator<'a>, count: i64) -> Outcome<'a> {
    if count > LONGEST {
        return Err(EvaluationError::CostLimit);
    }
    evaluator.charge(u64::try_from(count).unwrap_or_default())?;
    Ok(Value::list((0..count).map(Value::Int).collect()))
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

fn slice<'a>(items: &[Value<'a>], start: i64, end: i64) -> Outcome<'a> {
    let refused = |why: &str| Err(EvaluationError::failed(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return refused("negative indexes not supported");
    };
    if from > to {
        return refused("start index must be less than or equal to end index");
    }
    if to > items.len() {
        return refused(&format!("list is length {}", items.len()));
    }
    Ok(Value::list(items[from..to].to_vec()))
}

fn distinct<'a>(evaluator: &mut Evaluator<'a>, items: Vec<Value<'a>>) -> Outcome<'a> {
    let mut kept: Vec<Value<'a>> = Vec::new();
    for item in items {
        let mut known = false;
        for one in &kept {
            evaluator.charge(1)?;
            if evaluator.equal(one, &item)? {
                known = true;
                break;
            }
        }
        if !known {
            kept.push(item);
        }
    }
    Ok(Value::list(kept))
}

fn sort<'a>(mut items: Vec<Value<'a>>) -> Outcome<'a> {
    if items.windows(2).any(|pair| pair[0].compare(&pair[1]).is_none()) {
        return Err(EvaluationError::failed("list elements must be comparable"));
    }
    items.sort_by(|one, other| one.compare(other).unwrap_or(Ordering::Equal));
    Ok(Value::list(items))
}

fn flatten<'a>(evaluator: &mut Evaluator<'a>, items: Vec<Value<'a>>, depth: i64) -> Outcome<'a> {
    if depth < 0 {
        return Err(EvaluationError::failed("level must be non-negative"));
    }
    let mut flat = items;
    for _ in 0..depth {
        let mut next = Vec::with_capacity(flat.len());
        let mut nested = false;
        for item in flat {
            match item {
                Value::List(list) => {
                    nested = true;
                    next.extend(list.items()?);
                }
                other => next.push(other),
            }
        }
        evaluator.work(next.len() as u64)?;
        flat = next;
        if !nested {
            break;
        }
    }
    Ok(Value::list(flat))
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
