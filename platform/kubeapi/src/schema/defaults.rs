//! Filling in what the author of a definition chose for whoever says nothing.

use serde_json::Value;

use super::Node;

pub(super) fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, schema) in &node.properties {
                let absent = match map.get(name.as_ref()) {
                    None => true,
                    // A null that the schema does not allow is somebody's way of writing "absent".
                    Some(Value::Null) if !schema.nullable => {
                        map.remove(name.as_ref());
                        true
                    }
                    Some(_) => false,
                };
                if absent && let Some(default) = &schema.default {
                    map.insert(name.to_string(), default.as_ref().clone());
                }
            }
            for (name, inner) in map.iter_mut() {
                if let Some(schema) = node.field(name) {
                    fill(schema, inner);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = node.item() else { return };
            for item in items {
                if item.is_null()
                    && !schema.nullable
                    && let Some(default) = &schema.default
                {
                    *item = default.as_ref().clone();
                }
                fill(schema, item);
            }
        }
        _ => {}
    }
}
