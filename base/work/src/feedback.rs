//! What the rules of a manifest find on its object: pure.

use pilothouse_crds::{FeedbackRule, FeedbackRuleType, FeedbackValue, FieldValue};
use serde_json::Value;

use crate::path::Path;

/// What rules found, and what was wrong with some of them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) values: Vec<FeedbackValue>,
    pub(crate) problems: Vec<String>,
}

/// Applies rules to an object. `version` is the API version the object was read in; `limit` is how long a value written as
/// JSON may be.
pub(crate) fn collect(
    rules: &[FeedbackRule],
    version: &str,
    kind: &str,
    object: &Value,
    limit: usize,
) -> Found {
    let mut found = Found::default();
    for rule in rules {
        match rule.type_ {
            FeedbackRuleType::JsonPaths => {
                // A rule may be meant for another version of the resource.
                let paths = rule.json_paths.iter();
                for path in paths.filter(|path| path.version.is_empty() || path.version == version) {
                    found.add(&path.name, &path.path, object, limit);
                }
            }
            FeedbackRuleType::WellKnownStatus => match well_known(kind) {
                Some(paths) => paths.iter().for_each(|(name, path)| found.add(name, path, object, limit)),
                None => found.problems.push(format!("there is no well-known status of `{kind}`")),
            },
        }
    }
    found
}

fn well_known(kind: &str) -> Option<&'static [(&'static str, &'static str)]> {
    Some(match kind {
        "Deployment" => &[
            ("ReadyReplicas", ".status.readyReplicas"),
            ("Replicas", ".status.replicas"),
            ("AvailableReplicas", ".status.availableReplicas"),
        ],
        "DaemonSet" => &[
            ("NumberReady", ".status.numberReady"),
            ("DesiredNumberScheduled", ".status.desiredNumberScheduled"),
            ("NumberAvailable", ".status.numberAvailable"),
        ],
        "Job" => &[
            ("JobComplete", r#".status.conditions[?(@.type=="Complete")].status"#),
            ("JobSucceeded", ".status.succeeded"),
        ],
        "Pod" => {
            &[("PodReady", r#".status.conditions[?(@.type=="Ready")].status"#), ("PodPhase", ".status.phase")]
        }
        _ => return None,
    })
}

impl Found {
    fn add(&mut self, name: &str, path: &str, object: &Value, limit: usize) {
        let path: Path = match path.parse() {
            Ok(path) => path,
            Err(error) => return self.problems.push(error.to_string()),
        };
        let value = match path.find(object).as_slice() {
            [] => return,
            [one] => (*one).clone(),
            many => Value::Array(many.iter().map(|value| (*value).clone()).collect()),
        };
        let field_value = match value {
            Value::Null => return,
            Value::String(text) => FieldValue::string(text),
            Value::Bool(value) => FieldValue::boolean(value),
            Value::Number(number) if number.is_i64() => {
                FieldValue::integer(number.as_i64().unwrap_or_default())
            }
            other => {
                let text = other.to_string();
                if text.len() > limit {
                    let length = text.len();
                    let problem = format!("`{name}` is {length} bytes long, and {limit} is the limit");
                    return self.problems.push(problem);
                }
                FieldValue::json_raw(text)
            }
        };
        self.values.push(FeedbackValue { name: name.to_owned(), field_value });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(paths: Value) -> Vec<FeedbackRule> {
        serde_json::from_value(json!([{"type": "JSONPaths", "jsonPaths": paths}])).unwrap()
    }

    #[test]
    fn values_have_the_kind_of_what_was_found() {
        let rules = rule(
            json!([{"name": "i", "path": ".i"}, {"name": "s", "path": ".s"}, {"name": "b", "path": ".b"},
            {"name": "o", "path": ".o"}, {"name": "f", "path": ".f"}, {"name": "m", "path": ".l[*]"},
            {"name": "none", "path": ".none"}, {"name": "other", "path": ".i", "version": "v2"}]),
        );
        let object = json!({"i": 3, "s": "x", "b": true, "o": {"k": "v"}, "f": 1.5, "l": [1, 2]});
        let found = collect(&rules, "v1", "Thing", &object, 100);
        let values = serde_json::to_value(&found.values).unwrap();
        assert_eq!(
            values,
            json!([
                {"name": "i", "fieldValue": {"type": "Integer", "integer": 3}},
                {"name": "s", "fieldValue": {"type": "String", "string": "x"}},
                {"name": "b", "fieldValue": {"type": "Boolean", "boolean": true}},
                {"name": "o", "fieldValue": {"type": "JsonRaw", "jsonRaw": "{\"k\":\"v\"}"}},
                {"name": "f", "fieldValue": {"type": "JsonRaw", "jsonRaw": "1.5"}},
                {"name": "m", "fieldValue": {"type": "JsonRaw", "jsonRaw": "[1,2]"}},
            ])
        );
        assert!(found.problems.is_empty());
    }

    #[test]
    fn what_cannot_be_reported_is_named() {
        let rules = rule(json!([{"name": "long", "path": ".o"}, {"name": "odd", "path": "["}]));
        let found = collect(&rules, "v1", "Thing", &json!({"o": {"k": "vvvvvvvv"}}), 8);
        assert_eq!(found.values, []);
        assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
        let rules = serde_json::from_value(json!([{"type": "WellKnownStatus"}])).unwrap();
        let rules: Vec<FeedbackRule> = rules;
        assert_eq!(collect(&rules, "v1", "Thing", &json!({}), 8).problems.len(), 1);
        let deployment = json!({"status": {"readyReplicas": 2}});
        let found = collect(&rules, "v1", "Deployment", &deployment, 8);
        assert_eq!(found.values[0].field_value, FieldValue::integer(2));
    }
}
