//! Amounts of resources: `100m`, `1.5Gi`, `2e3`.

use super::{Outcome, text};
use crate::error::EvaluationError;
use crate::quantity::Quantity;
use crate::value::Value;

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    if let ([value], "quantity" | "isQuantity") = (arguments, function) {
        let parsed = Quantity::parse(text(value)?);
        return Some(match (function, parsed) {
            ("isQuantity", parsed) => Ok(Value::Bool(parsed.is_ok())),
            (_, Ok(parsed)) => Ok(Value::Quantity(parsed)),
            (_, Err(error)) => Err(EvaluationError::failed(error.to_string())),
        });
    }
    let (Value::Quantity(subject), rest) = arguments.split_first()? else { return None };
    let subject = *subject;
    let other = match rest {
        [] => None,
        [Value::Quantity(other)] => Some(*other),
        [Value::Int(other)] if matches!(function, "add" | "sub") => Some(Quantity::whole(*other)),
        _ => return None,
    };
    Some(Ok(match (function, other) {
        ("sign", None) => Value::Int(subject.sign()),
        ("isInteger", None) => Value::Bool(subject.as_integer().is_some()),
        ("asInteger", None) => match subject.as_integer() {
            Some(value) => Value::Int(value),
            None => return Some(Err(EvaluationError::failed("cannot convert value to integer"))),
        },
        ("asApproximateFloat", None) => Value::Double(subject.as_f64()),
        ("isGreaterThan", Some(other)) => Value::Bool(subject.exceeds(other)),
        ("isLessThan", Some(other)) => Value::Bool(other.exceeds(subject)),
        ("compareTo", Some(other)) => Value::Int(subject.compare(other) as i64),
        ("add", Some(other)) => Value::Quantity(subject.plus(other)),
        ("sub", Some(other)) => Value::Quantity(subject.minus(other)),
        _ => return None,
    }))
}
