//! Checking an object against its schema, with the words Kubernetes uses.

use serde_json::{Value, json};

use super::{Kind, ListType, Node, Rules, format};
use crate::status::Cause;

pub(super) fn object(root: &Node, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut check = Check { causes: Vec::new() };
    if let Some(rules) = &root.rules {
        check.rules(rules, object, "");
    }
    // Identity and metadata are validated for every kind alike, elsewhere.
    for (name, value) in object.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata")
            && let Some(node) = root.field(name)
        {
            check.node(node, value, old.and_then(|old| old.get(name)), name);
        }
    }
    check.causes
}

struct Check {
    causes: Vec<Cause>,
}

impl Check {
    fn node(&mut self, node: &Node, value: &Value, old: Option<&Value>, path: &str) {
        if old == Some(value) || (value.is_null() && node.nullable) {
            return;
        }
        if !self.kind(node, value, path) {
            return;
        }
        if let Some(rules) = &node.rules {
            self.rules(rules, value, path);
        }
        match value {
            Value::Object(fields) => {
                for (name, inner) in fields {
                    if node.embedded_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                        continue;
                    }
                    if let Some(schema) = node.field(name) {
                        self.node(
                            schema,
                            inner,
                            old.and_then(|old| old.get(name)),
                            &format!("{path}.{name}"),
                        );
                    }
                }
            }
            Value::Array(items) => {
                self.unique(node, items, path);
                let Some(schema) = node.item() else { return };
                for (place, item) in items.iter().enumerate() {
                    let before = counterpart(&node.list_type, item, old);
                    self.node(schema, item, before, &format!("{path}[{place}]"));
                }
            }
            _ => {}
        }
    }

    fn kind(&mut self, node: &Node, value: &Value, path: &str) -> bool {
        if node.int_or_string {
            let fits = value.is_string() || is_integer(value);
            if !fits {
                self.wrong_type(value, path, "integer,string");
            }
            return fits;
        }
        let (fits, expected) = match node.kind {
            None => return true,
            Some(Kind::Object) => (value.is_object(), "object"),
            Some(Kind::Array) => (value.is_array(), "array"),
            Some(Kind::String) => (value.is_string(), "string"),
            Some(Kind::Integer) => (is_integer(value), "integer"),
            Some(Kind::Number) => (value.is_number(), "number"),
            Some(Kind::Boolean) => (value.is_boolean(), "boolean"),
        };
        if !fits {
            self.wrong_type(value, path, expected);
        }
        fits
    }

    fn wrong_type(&mut self, value: &Value, path: &str, expected: &str) {
        let found = json!(type_name(value));
        let why = format!("{path} in body must be of type {expected}: {found}");
        self.causes.push(Cause::wrong_type(path, &found, why));
    }

    fn rules(&mut self, rules: &Rules, value: &Value, path: &str) {
        self.allowed(rules, value, path);
        match value {
            Value::String(text) => self.text(rules, text, value, path),
            Value::Number(number) => self.number(rules, number.as_f64().unwrap_or_default(), value, path),
            Value::Array(items) => self.items(rules, items.len(), path),
            Value::Object(fields) => {
                for name in rules.required.iter().filter(|name| !fields.contains_key(name.as_ref())) {
                    let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
                    self.causes.push(Cause::required(path, ""));
                }
                self.properties(rules, fields.len(), path);
            }
            Value::Null | Value::Bool(_) => {}
        }
        self.combinations(rules, value, path);
    }

    fn allowed(&mut self, rules: &Rules, value: &Value, path: &str) {
        if rules.allowed.is_empty() || rules.allowed.contains(value) {
            return;
        }
        let shown: Vec<_> = rules
            .allowed
            .iter()
            .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
            .collect();
        self.causes.push(Cause::not_supported(path, value, shown.iter().map(String::as_str)));
    }

    fn text(&mut self, rules: &Rules, text: &str, value: &Value, path: &str) {
        let length = text.chars().count() as u64;
        if let Some(most) = rules.max_length.filter(|most| length > *most) {
            self.causes.push(Cause::too_long(path, most));
        } else if let Some(least) = rules.min_length.filter(|least| length < *least) {
            self.invalid(value, path, format!("should be at least {least} chars long"));
        } else if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
            self.invalid(value, path, format!("should match '{}'", pattern.text));
        }
        if let Some(format) = rules.format.as_deref().filter(|format| !format::matches(format, text)) {
            self.invalid(value, path, format!("must be of type {format}: {value}"));
        }
    }

    fn number(&mut self, rules: &Rules, number: f64, value: &Value, path: &str) {
        if let Some(most) = rules.maximum {
            if rules.exclusive_maximum && number >= most {
                self.invalid(value, path, format!("should be less than {most}"));
            } else if number > most {
                self.invalid(value, path, format!("should be less than or equal to {most}"));
            }
        }
        if let Some(least) = rules.minimum {
            if rules.exclusive_minimum && number <= least {
                self.invalid(value, path, format!("should be greater than {least}"));
            } else if number < least {
                self.invalid(value, path, format!("should be greater than or equal to {least}"));
            }
        }
        if let Some(step) = rules.multiple_of.filter(|step| *step > 0.0 && number % step != 0.0) {
            self.invalid(value, path, format!("should be a multiple of {step}"));
        }
        if rules.format.as_deref() == Some("int32")
            && i32::try_from(value.as_i64().unwrap_or_default()).is_err()
        {
            self.invalid(value, path, format!("must be of type int32: {value}"));
        }
    }

    fn items(&mut self, rules: &Rules, count: usize, path: &str) {
        if let Some(most) = rules.max_items.filter(|most| count as u64 > *most) {
            self.causes.push(Cause::too_many(path, count, most));
        }
        if let Some(least) = rules.min_items.filter(|least| (count as u64) < *least) {
            self.invalid(&json!(count), path, format!("should have at least {least} items"));
        }
    }

    fn properties(&mut self, rules: &Rules, count: usize, path: &str) {
        if let Some(most) = rules.max_properties.filter(|most| count as u64 > *most) {
            self.causes.push(Cause::too_many(path, count, most));
        }
        if let Some(least) = rules.min_properties.filter(|least| (count as u64) < *least) {
            self.invalid(&json!(count), path, format!("should have at least {least} properties"));
        }
    }

    fn combinations(&mut self, rules: &Rules, value: &Value, path: &str) {
        let holding = |nodes: &[Node]| nodes.iter().filter(|node| holds(node, value, path)).count();
        let name = if path.is_empty() { "<nil>" } else { path };
        if !rules.one_of.is_empty() {
            match holding(&rules.one_of) {
                1 => {}
                0 => self.combined(
                    value,
                    path,
                    format!("\"{name}\" must validate one and only one schema (oneOf). Found none valid"),
                ),
                several => self.combined(
                    value,
                    path,
                    format!("\"{name}\" must validate one and only one schema (oneOf). Found {several} valid alternatives"),
                ),
            }
        }
        if !rules.any_of.is_empty() && holding(&rules.any_of) == 0 {
            self.combined(value, path, format!("\"{name}\" must validate at least one schema (anyOf)"));
        }
        for node in &rules.all_of {
            self.node(node, value, None, path);
        }
        if rules.not.as_ref().is_some_and(|node| holds(node, value, path)) {
            self.combined(value, path, format!("\"{name}\" must not validate the schema (not)"));
        }
    }

    fn unique(&mut self, node: &Node, items: &[Value], path: &str) {
        let mut seen: Vec<Value> = Vec::new();
        for (place, item) in items.iter().enumerate() {
            let identity = match &node.list_type {
                ListType::Atomic => return,
                ListType::Set => item.clone(),
                ListType::Map(keys) => {
                    keys.iter().map(|key| (key.to_string(), item[key.as_ref()].clone())).collect()
                }
            };
            if seen.contains(&identity) {
                self.causes.push(Cause::duplicate(format!("{path}[{place}]"), &identity));
            } else {
                seen.push(identity);
            }
        }
    }

    fn invalid(&mut self, value: &Value, path: &str, why: String) {
        self.causes.push(Cause::invalid(path, value, format!("{path} in body {why}")));
    }

    fn combined(&mut self, value: &Value, path: &str, why: String) {
        self.causes.push(Cause::invalid(path, &json!(type_name(value)), why));
    }
}

/// What is wrong with a default, which has no path of its own.
pub(super) fn default(node: &Node, value: &Value) -> Vec<Cause> {
    let mut check = Check { causes: Vec::new() };
    check.node(node, value, None, "");
    check.causes
}

fn holds(node: &Node, value: &Value, path: &str) -> bool {
    let mut check = Check { causes: Vec::new() };
    check.node(node, value, None, path);
    check.causes.is_empty()
}

/// The item of the old list that this one continues; only keyed lists can tell.
fn counterpart<'a>(list: &ListType, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    let items = old?.as_array()?;
    match list {
        ListType::Map(keys) => {
            items.iter().find(|one| keys.iter().all(|key| one[key.as_ref()] == item[key.as_ref()]))
        }
        ListType::Set => items.iter().find(|one| *one == item),
        ListType::Atomic => None,
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
