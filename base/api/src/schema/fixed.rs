//! What may not change once it was said.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::member_path;
use super::form::{Form, Kind, Node};
use crate::invalid::Problems;

const WHY: &str = "field is immutable";

impl Form {
    /// Reports every field that may be said only once and is not what it was: each once, by its own path.
    pub(crate) fn check_fixed(&self, new: &Value, old: &Value, problems: &mut Problems) {
        compare(&self.root, new, old, "", problems);
    }
}

fn compare(node: &Node, new: &Value, old: &Value, path: &str, problems: &mut Problems) {
    match &node.kind {
        Kind::Object(members) => {
            for member in members {
                let (new, old) = (&new[&member.name], &old[&member.name]);
                compare(&member.node, new, old, &member_path(path, &member.name), problems);
            }
        }
        Kind::Map(values) => {
            let keys = |value: &Value| {
                value.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect::<BTreeSet<_>>()
            };
            for key in keys(new).union(&keys(old)) {
                compare(values, &new[key], &old[key], &format!("{path}[{key}]"), problems);
            }
        }
        Kind::Anything | Kind::List { .. } | Kind::Text(_) | Kind::Integer { .. } | Kind::Boolean => {
            if node.fixed && !is_same(node, new, old) {
                problems.forbidden(path, WHY);
            }
        }
    }
}

fn is_same(node: &Node, new: &Value, old: &Value) -> bool {
    match (&node.kind, new, old) {
        (Kind::Text(text), Value::String(new), Value::String(old)) if text.is_id => {
            new.eq_ignore_ascii_case(old)
        }
        _ => new == old,
    }
}
