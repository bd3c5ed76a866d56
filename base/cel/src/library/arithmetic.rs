//! Numbers and times that are added up. What does not fit is an error and never wraps.

use super::Outcome;
use crate::error::EvaluationError;
use crate::evaluate::Evaluator;
use crate::value::Value;

pub(super) fn call<'a>(
    evaluator: &mut Evaluator<'a>,
    function: &str,
    arguments: &[Value<'a>],
) -> Option<Outcome<'a>> {
    Some(match (function, arguments) {
        ("!_", [Value::Bool(value)]) => Ok(Value::Bool(!value)),
        ("-_", [Value::Int(value)]) => integer(value.checked_neg()),
        ("-_", [Value::Double(value)]) => Ok(Value::Double(-value)),
        // Which operator it was is not told.
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [one, other]) => binary(evaluator, function, one, other)
            .unwrap_or(Err(EvaluationError::NoSuchOverload { function: None })),
        _ => return None,
    })
}

fn binary<'a>(
    evaluator: &mut Evaluator<'a>,
    function: &str,
    one: &Value<'a>,
    other: &Value<'a>,
) -> Option<Outcome<'a>> {
    Some(match (function, one, other) {
        ("_/_", Value::Int(_) | Value::Uint(_), Value::Int(0) | Value::Uint(0)) => {
            Err(EvaluationError::failed("division by zero"))
        }
        ("_%_", Value::Int(_) | Value::Uint(_), Value::Int(0) | Value::Uint(0)) => {
            Err(EvaluationError::failed("modulus by zero"))
        }
        (_, Value::Int(one), Value::Int(other)) => integer(match function {
            "_+_" => one.checked_add(*other),
            "_-_" => one.checked_sub(*other),
            "_*_" => one.checked_mul(*other),
            "_/_" => one.checked_div(*other),
            _ => one.checked_rem(*other),
        }),
        (_, Value::Uint(one), Value::Uint(other)) => {
            let value = match function {
                "_+_" => one.checked_add(*other),
                "_-_" => one.checked_sub(*other),
                "_*_" => one.checked_mul(*other),
                "_/_" => one.checked_div(*other),
                _ => one.checked_rem(*other),
            };
            value.map(Value::Uint).ok_or_else(|| EvaluationError::failed("unsigned integer overflow"))
        }
        (_, Value::Double(one), Value::Double(other)) => Ok(Value::Double(match function {
            "_+_" => one + other,
            "_-_" => one - other,
            "_*_" => one * other,
            "_/_" => one / other,
            _ => return None,
        })),
        ("_+_", Value::String(one), Value::String(other)) => {
            Ok(Value::text([one.as_str(), other.as_str()].concat()))
        }
        ("_+_", Value::Bytes(one), Value::Bytes(other)) => {
            Ok(Value::Bytes([one.as_ref(), other.as_ref()].concat().into()))
        }
        ("_+_", Value::List(one), Value::List(other)) => evaluator.joined(one, other),
        ("_+_", Value::Duration(one), Value::Duration(other)) => duration(one.checked_add(*other)),
        ("_-_", Value::Duration(one), Value::Duration(other)) => duration(one.checked_sub(*other)),
        ("_+_", Value::Timestamp(moment), Value::Duration(span))
        | ("_+_", Value::Duration(span), Value::Timestamp(moment)) => {
            timestamp(moment.checked_add(*span).ok())
        }
        ("_-_", Value::Timestamp(moment), Value::Duration(span)) => timestamp(moment.checked_sub(*span).ok()),
        ("_-_", Value::Timestamp(one), Value::Timestamp(other)) => {
            Ok(Value::Duration(one.duration_since(*other)))
        }
        _ => return None,
    })
}

fn integer<'a>(value: Option<i64>) -> Outcome<'a> {
    value.map(Value::Int).ok_or_else(|| EvaluationError::failed("integer overflow"))
}

fn duration<'a>(value: Option<jiff::SignedDuration>) -> Outcome<'a> {
    value.map(Value::Duration).ok_or_else(|| EvaluationError::failed("duration overflow"))
}

fn timestamp<'a>(value: Option<jiff::Timestamp>) -> Outcome<'a> {
    value.map(Value::Timestamp).ok_or_else(|| EvaluationError::failed("timestamp overflow"))
}
