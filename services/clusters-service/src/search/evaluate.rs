//! What an expression says about one cluster.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Comparison, Expression, Field, Literal, key};

/// `None` where a field that is asked about is not there.
pub(super) fn evaluate(expression: &Expression, cluster: &Value) -> Option<bool> {
    match expression {
        Expression::And(left, right) => match (evaluate(left, cluster), evaluate(right, cluster)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        Expression::Or(left, right) => match (evaluate(left, cluster), evaluate(right, cluster)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        Expression::Not(inner) => evaluate(inner, cluster).map(|answer| !answer),
        Expression::Compare(field, comparison, literal) => {
            compare(field, cluster, literal).map(|ordering| holds(*comparison, ordering))
        }
        Expression::Like { field, pattern, any_case } => {
            let text = field.of(cluster)?.as_str()?;
            if *any_case || field.ignores_case() {
                Some(is_like(&text.to_lowercase(), &pattern.to_lowercase()))
            } else {
                Some(is_like(text, pattern))
            }
        }
        Expression::In(field, literals) => {
            field.of(cluster)?;
            Some(literals.iter().any(|literal| compare(field, cluster, literal) == Some(Ordering::Equal)))
        }
        Expression::Between(field, low, high) => {
            let low = compare(field, cluster, low)?;
            let high = compare(field, cluster, high)?;
            Some(low != Ordering::Less && high != Ordering::Greater)
        }
        Expression::IsNull(field) => Some(field.of(cluster).is_none()),
    }
}

fn holds(comparison: Comparison, ordering: Ordering) -> bool {
    match comparison {
        Comparison::Equal => ordering == Ordering::Equal,
        Comparison::NotEqual => ordering != Ordering::Equal,
        Comparison::Less => ordering == Ordering::Less,
        Comparison::LessOrEqual => ordering != Ordering::Greater,
        Comparison::Greater => ordering == Ordering::Greater,
        Comparison::GreaterOrEqual => ordering != Ordering::Less,
    }
}

/// How the field compares with the literal; `None` if it is not there or of another kind.
fn compare(field: &Field, cluster: &Value, literal: &Literal) -> Option<Ordering> {
    match (field.of(cluster)?, literal) {
        (Value::String(found), Literal::Text(text)) if field.ignores_case() => {
            Some(found.to_lowercase().cmp(&text.to_lowercase()))
        }
        (Value::String(found), Literal::Text(text)) => Some(key::compare(field, found, text)),
        (Value::Bool(found), Literal::Boolean(value)) => Some(found.cmp(value)),
        // Others send booleans and numbers as text.
        (Value::Bool(found), Literal::Text(text)) => Some(found.to_string().cmp(text)),
        (Value::Number(found), Literal::Number(value)) => found.as_f64()?.partial_cmp(value),
        _ => None,
    }
}

/// SQL's patterns: `%` is any text, `_` any character. Linear in the product of both lengths at worst.
fn is_like(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut expected) = (0, 0);
    // Where the last `%` was, and what of the text it has swallowed so far.
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(expected) {
            Some('%') => {
                retry = Some((expected, at));
                expected += 1;
            }
            Some(wanted) if *wanted == '_' || *wanted == text[at] => {
                at += 1;
                expected += 1;
            }
            _ => {
                let Some((percent, swallowed)) = retry else { return false };
                retry = Some((percent, swallowed + 1));
                at = swallowed + 1;
                expected = percent + 1;
            }
        }
    }
    pattern[expected..].iter().all(|rest| *rest == '%')
}
