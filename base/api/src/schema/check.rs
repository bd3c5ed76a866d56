//! Holding a body against its form.
//!
//! What does not fit is reported and taken out, so that the rest can still be converted and judged.

use pilothouse_arm::ResourceId;
use serde_json::{Map, Value};

use super::form::{Form, Kind, Member, Node, Text};
use crate::invalid::Problems;

/// What is looked at, and what is known about it.
struct Check<'a> {
    problems: &'a mut Problems,
    /// Paths of required members that this request need not have.
    excused: &'a [&'a str],
}

impl Form {
    /// Reports everything in `body` that does not fit, and takes it out. Members in `excused` need not be there.
    pub(crate) fn check(&self, body: &mut Value, excused: &[&str], problems: &mut Problems) {
        if body.is_null() {
            problems.mismatch("", self.root.kind.name(), name_of(body));
        }
        Check { problems, excused }.value(&self.root, body, "");
    }

    /// Reports members of a patch that are to be removed and may not be.
    pub(crate) fn check_nulls(&self, patch: &Value, problems: &mut Problems) {
        nulls(&self.root, patch, "", problems);
    }
}

/// The path of a member.
pub(super) fn member_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn nulls(node: &Node, patch: &Value, path: &str, problems: &mut Problems) {
    let (Kind::Object(members), Value::Object(patch)) = (&node.kind, patch) else { return };
    for Member { name, node, required: _, never_null } in members {
        match patch.get(name) {
            Some(Value::Null) if *never_null => problems.null(member_path(path, name)),
            Some(value) => nulls(node, value, &member_path(path, name), problems),
            None => {}
        }
    }
}

impl Check<'_> {
    /// Whether the value may stay. `null` is as good as absent.
    fn value(&mut self, node: &Node, value: &mut Value, path: &str) -> bool {
        match (&node.kind, &mut *value) {
            (_, Value::Null) | (Kind::Anything, _) | (Kind::Boolean, Value::Bool(_)) => true,
            (Kind::Object(members), Value::Object(object)) => {
                self.members(members, object, path);
                true
            }
            (Kind::Map(values), Value::Object(object)) => {
                self.map(values, object, path);
                true
            }
            (Kind::List { items, least, most }, Value::Array(list)) => {
                self.list(items, (*least, *most), list, path)
            }
            (Kind::Text(text), Value::String(found)) => self.text(text, found, path),
            (Kind::Integer { least, most }, Value::Number(found)) if !found.is_f64() => {
                self.integer(*least, *most, found, path)
            }
            (kind, found) => {
                self.problems.mismatch(path, kind.name(), name_of(found));
                false
            }
        }
    }

    fn members(&mut self, members: &[Member], object: &mut Map<String, Value>, path: &str) {
        for Member { name, node, required, never_null: _ } in members {
            let path = member_path(path, name);
            match object.get_mut(name) {
                None | Some(Value::Null) => {
                    let known = self.excused.contains(&path.as_str()) || self.problems.is_known(&path);
                    if *required && !known {
                        self.problems.required(path);
                    }
                }
                Some(value) => {
                    if !self.value(node, value, &path) {
                        object.remove(name);
                    }
                }
            }
        }
    }

    fn map(&mut self, values: &Node, object: &mut Map<String, Value>, path: &str) {
        object.retain(|key, value| {
            let path = format!("{path}[{key}]");
            if value.is_null() && !values.nullable {
                self.problems.null(path);
                return false;
            }
            self.value(values, value, &path)
        });
    }

    /// A list is taken out as a whole: without an item, the places of the others would be others.
    fn list(&mut self, items: &Node, (least, most): (usize, usize), list: &mut [Value], path: &str) -> bool {
        let mut fits = true;
        if list.len() < least {
            let why = format!("must have at least {least} item{}", if least == 1 { "" } else { "s" });
            self.problems.invalid(path, list.len(), why);
            fits = false;
        }
        if list.len() > most {
            self.problems.too_many(path, list.len(), most);
            fits = false;
        }
        for (index, item) in list.iter_mut().enumerate() {
            let path = format!("{path}[{index}]");
            if item.is_null() && !items.nullable {
                self.problems.null(path);
                fits = false;
            } else {
                fits &= self.value(items, item, &path);
            }
        }
        fits
    }

    fn text(&mut self, text: &Text, found: &str, path: &str) -> bool {
        let Text { least, most, pattern, choices, is_id, resource_type } = text;
        let length = found.chars().count();
        if !choices.is_empty() && !choices.iter().any(|choice| choice == found) {
            self.problems.unsupported(path, found, choices);
        } else if length < *least && length == 0 {
            self.problems.required(path);
        } else if length < *least {
            self.problems.invalid(path, found, format_args!("must have at least {least} characters"));
        } else if length > *most {
            self.problems.too_long(path, *most);
        } else if let Some(pattern) = pattern.as_ref().filter(|pattern| !pattern.is_match(found)) {
            self.problems.invalid(path, found, format_args!("must match '{pattern}'"));
        } else if *is_id {
            return self.id(resource_type.as_deref(), found, path);
        } else {
            return true;
        }
        false
    }

    fn id(&mut self, resource_type: Option<&str>, found: &str, path: &str) -> bool {
        match (found.parse::<ResourceId>(), resource_type) {
            (Err(error), _) => {
                self.problems.invalid(path, found, error.problem());
                false
            }
            (Ok(id), Some(kind)) if !id.is_a(kind) => {
                let why = format!("must be the id of a resource of type {kind}");
                self.problems.invalid(path, found, why);
                false
            }
            (Ok(_), _) => true,
        }
    }

    fn integer(
        &mut self,
        least: Option<i64>,
        most: Option<i64>,
        found: &serde_json::Number,
        path: &str,
    ) -> bool {
        // Every number of the contract is an int32, whatever else it is limited to.
        let lowest = least.unwrap_or_else(|| i32::MIN.into());
        let highest = most.unwrap_or_else(|| i32::MAX.into());
        if found.as_i64().is_some_and(|number| (lowest..=highest).contains(&number)) {
            return true;
        }
        let is_low = found.as_i64().is_some_and(|number| number < lowest);
        let why = match (least, most) {
            (Some(least), Some(most)) => format!("must be between {least} and {most}"),
            _ if is_low => format!("must be at least {lowest}"),
            _ => format!("must be at most {highest}"),
        };
        self.problems.invalid(path, found, why);
        false
    }
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Anything => "anything",
            Self::Object(_) | Self::Map(_) => "an object",
            Self::List { .. } => "a list",
            Self::Text(_) => "a text",
            Self::Integer { .. } => "a whole number",
            Self::Boolean => "true or false",
        }
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
