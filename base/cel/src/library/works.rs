//! What is offered to rules of works only.

use super::Outcome;
use crate::value::Value;

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    match (function, arguments) {
        ("hasConditions", [status]) => Some(has_conditions(status)),
        _ => None,
    }
}

/// Whether a status has any. What is no status has none.
fn has_conditions<'a>(status: &Value<'a>) -> Outcome<'a> {
    let conditions = match status {
        Value::Map(status) => status.field("conditions")?,
        _ => None,
    };
    let some = conditions.is_some_and(|found| matches!(found, Value::List(_)) && found.size() > 0);
    Ok(Value::Bool(some))
}
