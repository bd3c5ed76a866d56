//! Values that may be missing.

use super::Outcome;
use crate::error::EvaluationError;
use crate::value::Value;

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(match (function, arguments) {
        ("optional.none", []) => Value::Optional(None),
        ("optional.of", [value]) => Value::some(value.clone()),
        ("optional.ofNonZeroValue", [value]) if value.is_zero() => Value::Optional(None),
        ("optional.ofNonZeroValue", [value]) => Value::some(value.clone()),
        ("hasValue", [Value::Optional(inner)]) => Value::Bool(inner.is_some()),
        ("value", [Value::Optional(Some(inner))]) => inner.as_ref().clone(),
        ("value", [Value::Optional(None)]) => {
            return Some(Err(EvaluationError::failed("optional.none() dereference")));
        }
        ("or", [one @ Value::Optional(Some(_)), _]) => one.clone(),
        ("or", [Value::Optional(None), other]) => other.clone(),
        ("orValue", [Value::Optional(Some(inner)), _]) => inner.as_ref().clone(),
        ("orValue", [Value::Optional(None), other]) => other.clone(),
        _ => return None,
    }))
}
