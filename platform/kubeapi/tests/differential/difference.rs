//! Where two answers differ.

use serde::Serialize;
use serde_json::{Value, json};

/// One place of one step's answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// `subject/scenario/step`.
    pub(crate) step: String,
    /// Like a JSON pointer into `{code, content, warnings, body}`, with names of items instead of numbers where they have any.
    pub(crate) path: String,
    /// What the real server answers there; `None` if nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) real: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ours: Option<Value>,
}

/// All places. If already the codes differ, that is one difference, with both bodies.
pub(crate) fn between(step: &str, real: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    if real["code"] == ours["code"] {
        walk(String::new(), Some(real), Some(ours), &mut found);
    } else {
        let shown = |answer: &Value| json!({ "code": answer["code"], "body": answer["body"] });
        found.push(("/code".to_owned(), Some(shown(real)), Some(shown(ours))));
    }
    found
        .into_iter()
        .map(|(path, real, ours)| Difference { step: step.to_owned(), path, real, ours })
        .collect()
}

type Found = (String, Option<Value>, Option<Value>);

fn walk(path: String, real: Option<&Value>, ours: Option<&Value>, found: &mut Vec<Found>) {
    match (real, ours) {
        (Some(real), Some(ours)) if real == ours => {}
        (Some(Value::Object(real)), Some(Value::Object(ours))) => {
            let added = ours.keys().filter(|key| !real.contains_key(*key));
            for key in real.keys().chain(added) {
                walk(format!("{path}/{}", escaped(key)), real.get(key), ours.get(key), found);
            }
        }
        (Some(Value::Array(real)), Some(Value::Array(ours))) => items(&path, real, ours, found),
        (real, ours) => found.push((path, real.cloned(), ours.cloned())),
    }
}

fn items(path: &str, real: &[Value], ours: &[Value], found: &mut Vec<Found>) {
    let (Some(real_names), Some(our_names)) = (names(real), names(ours)) else {
        for index in 0..real.len().max(ours.len()) {
            walk(format!("{path}/{index}"), real.get(index), ours.get(index), found);
        }
        return;
    };
    let of = |items: &'_ [Value], names: &[String], name: &str| -> Option<Value> {
        names.iter().position(|one| one == name).map(|index| items[index].clone())
    };
    let added = our_names.iter().filter(|name| !real_names.contains(name));
    for name in real_names.iter().chain(added) {
        let (real, ours) = (of(real, &real_names, name), of(ours, &our_names, name));
        walk(format!("{path}/{}", escaped(name)), real.as_ref(), ours.as_ref(), found);
    }
    let common = |names: &[String], others: &[String]| -> Vec<String> {
        names.iter().filter(|name| others.contains(name)).cloned().collect()
    };
    let (real, ours) = (common(&real_names, &our_names), common(&our_names, &real_names));
    if real != ours {
        found.push((format!("{path}/<order>"), Some(json!(real)), Some(json!(ours))));
    }
}

/// The names of items, if each has one and no two the same.
fn names(items: &[Value]) -> Option<Vec<String>> {
    let name = |item: &Value| {
        ["/name", "/metadata/name", "/resource", "/subresource", "/manager"]
            .iter()
            .find_map(|pointer| item.pointer(pointer)?.as_str().map(str::to_owned))
            .map(|name| name + item.pointer("/operation").and_then(Value::as_str).unwrap_or_default())
    };
    let names = items.iter().map(name).collect::<Option<Vec<_>>>()?;
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    (unique.len() == names.len()).then_some(names)
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(real: Value, ours: Value) -> Vec<String> {
        between("step", &real, &ours).into_iter().map(|difference| difference.path).collect()
    }

    #[test]
    fn difference_is_where_it_is_and_no_higher() {
        let real = json!({ "code": 200, "body": { "a": { "b": 1 }, "c": [1, 2] } });
        let ours = json!({ "code": 200, "body": { "a": { "b": 2, "d/e": 1 }, "c": [1] } });
        assert_eq!(paths(real, ours), ["/body/a/b", "/body/a/d~1e", "/body/c/1"]);
    }

    #[test]
    fn items_with_names_are_compared_by_name_and_their_order_apart() {
        let item = |name: &str, value: u32| json!({ "name": name, "value": value });
        let real = json!({ "body": [item("a", 1), item("b", 1), item("c", 1)] });
        let ours = json!({ "body": [item("b", 1), item("a", 2)] });
        assert_eq!(paths(real, ours), ["/body/a/value", "/body/c", "/body/<order>"]);
    }

    #[test]
    fn other_code_is_one_difference() {
        let real = json!({ "code": 200, "body": { "a": 1 } });
        let ours = json!({ "code": 404, "body": { "b": 2 } });
        assert_eq!(paths(real, ours), ["/code"]);
    }
}
