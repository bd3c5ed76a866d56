//! The first version leaves out numbers that are zero and switches that are off.
//!
//! So a caller who sends back what it was shown does not say them, and they must not turn into their defaults.

use serde_json::Value;

fn is_zero(value: &Value) -> bool {
    value == 0 || *value == false
}

/// Leaves out what is zero, everywhere but in lists and what is the owner's own.
pub(crate) fn omit(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|_, member| !is_zero(member));
        members.values_mut().for_each(omit);
    }
}

/// Puts back what `stored` has as zero, where the object it belongs to is there and does not say otherwise.
pub(crate) fn restore(value: &mut Value, stored: &Value) {
    let (Value::Object(members), Value::Object(stored)) = (value, stored) else { return };
    for (name, stored) in stored {
        match members.get_mut(name) {
            None | Some(Value::Null) if is_zero(stored) => {
                members.insert(name.clone(), stored.clone());
            }
            Some(member) => restore(member, stored),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_left_out_comes_back_and_nothing_else() {
        let full = json!({"a": 0, "b": false, "c": 1, "d": {"e": 0, "f": "x"}, "g": [0], "h": {"i": 0}});
        let mut shown = full.clone();
        omit(&mut shown);
        assert_eq!(shown, json!({"c": 1, "d": {"f": "x"}, "g": [0], "h": {}}));
        restore(&mut shown, &full);
        assert_eq!(shown, full);
        let mut other = json!({"a": 3, "d": {}});
        restore(&mut other, &full);
        assert_eq!(other, json!({"a": 3, "b": false, "d": {"e": 0}}));
    }
}
