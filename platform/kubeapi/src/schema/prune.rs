//! Dropping what a schema does not know.

use serde_json::Value;

use super::{Additional, Node};

/// Every object has these, whatever its schema says.
const ALWAYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub(super) fn root(node: &Node, object: &mut Value, dropped: &mut Vec<String>) {
    fields(node, object, "", true, dropped);
}

pub(super) fn value(node: &Node, value: &mut Value, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(_) => fields(node, value, path, node.embedded_resource, dropped),
        Value::Array(items) => {
            let Some(schema) = node.item() else { return };
            for (place, item) in items.iter_mut().enumerate() {
                self::value(schema, item, &format!("{path}[{place}]"), dropped);
            }
        }
        _ => {}
    }
}

fn fields(node: &Node, object: &mut Value, path: &str, resource: bool, dropped: &mut Vec<String>) {
    let Some(map) = object.as_object_mut() else { return };
    let free = node.preserve_unknown || matches!(node.additional, Additional::Any);
    map.retain(|name, inner| {
        if resource && ALWAYS.contains(&name.as_str()) {
            return true;
        }
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match node.field(name) {
            Some(schema) => {
                value(schema, inner, &path, dropped);
                true
            }
            None if free => true,
            None => {
                dropped.push(path);
                false
            }
        }
    });
}
