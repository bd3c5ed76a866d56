//! What is wrong with the rules of a definition, said when the definition is written.

use pilothouse_cel::{Program, Type};
use serde_json::{Value, json};

use super::budget::{Budget, Count};
use super::declared;
use super::expressions::{OLD, field_path, variables};
use super::extent;
use crate::status::Cause;

const REASONS: [&str; 4] =
    ["FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden", "FieldValueDuplicate"];

/// Looks at every rule of a schema that is structural.
pub(super) fn find(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut finder = Finder { budget: Budget::default(), causes };
    finder.visit(schema, path, &Place { resource: true, uncorrelated: None, count: Count::AtMost(1) });
    finder.budget.finish(path, causes);
}

struct Finder<'c> {
    budget: Budget,
    causes: &'c mut Vec<Cause>,
}

/// Where in the schema a value stands.
struct Place<'p> {
    resource: bool,
    /// The nearest list whose items cannot be told apart.
    uncorrelated: Option<&'p str>,
    count: Count,
}

impl Finder<'_> {
    fn visit(&mut self, schema: &Value, path: &str, place: &Place<'_>) {
        let embedded = |schema: &Value| schema["x-kubernetes-embedded-resource"] == true;
        // What is below is looked at first, and complained about first.
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            let below = Place { resource: embedded(inner), ..*place };
            self.visit(inner, &format!("{path}.properties[{name}]"), &below);
        }
        let inner = &schema["additionalProperties"];
        if inner.is_object() {
            let count = place.count.times(&schema["maxProperties"]);
            let below = Place { resource: embedded(inner), count, ..*place };
            self.visit(inner, &format!("{path}.additionalProperties"), &below);
        }
        let inner = &schema["items"];
        if inner.is_object() {
            let correlated = schema["x-kubernetes-list-type"] == "map";
            let below = Place {
                resource: embedded(inner),
                uncorrelated: place.uncorrelated.or_else(|| (!correlated).then_some(path)),
                count: place.count.times(&schema["maxItems"]),
            };
            self.visit(inner, &format!("{path}.items"), &below);
        }
        self.rules(schema, path, place);
    }

    fn rules(&mut self, schema: &Value, path: &str, place: &Place<'_>) {
        let rules: Vec<&Value> =
            schema["x-kubernetes-validations"].as_array().into_iter().flatten().collect();
        if rules.is_empty() {
            return;
        }
        let before = self.causes.len();
        for (place, rule) in rules.iter().enumerate() {
            form(rule, schema, &format!("{path}.x-kubernetes-validations[{place}]"), self.causes);
        }
        if self.causes.len() > before {
            return;
        }
        let Some(kind) = declared::declared(schema, place.resource) else {
            let why = "Internal error: failed to convert to declType for CEL validation rules";
            self.causes.push(Cause::new("InternalError", why, format!("{path}.x-kubernetes-validations")));
            return;
        };
        let extent = extent::extent(schema, place.resource);
        for (number, rule) in rules.iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{number}]");
            self.compiled(rule, &kind, &path, place, |program, what, path, finder| {
                let cost = program.estimate(&extent);
                finder.budget.take(what, path, cost, place.count, schema, finder.causes);
            });
        }
    }

    fn compiled(
        &mut self,
        rule: &Value,
        kind: &Type,
        path: &str,
        place: &Place<'_>,
        estimate: impl Fn(&Program, &str, &str, &mut Self),
    ) {
        let variables = variables(kind, rule["optionalOldSelf"] == true);
        let refuse = |field: &str, why: String| {
            Cause::new(
                "FieldValueInvalid",
                format!("Invalid value: {}: {why}", shown(rule)),
                format!("{path}.{field}"),
            )
        };
        let source = rule["rule"].as_str().unwrap_or_default();
        let mut uses_old = false;
        match Program::compile(source, &variables) {
            Err(error) => self.causes.push(refuse("rule", format!("compilation failed: {error}"))),
            Ok(program) if !matches!(program.kind(), Type::Bool) => {
                self.causes.push(refuse("rule", "cel expression must evaluate to a bool".to_owned()));
            }
            Ok(program) => {
                if let Some(why) = program.instantiation_error() {
                    self.causes.push(refuse("rule", format!("program instantiation failed: {why}")));
                    return;
                }
                uses_old = program.uses(OLD);
                estimate(&program, "rule", &format!("{path}.rule"), self);
                if let Some(text) = rule["messageExpression"].as_str().filter(|text| !text.is_empty()) {
                    match Program::compile(text, &variables) {
                        Err(error) => self.causes.push(refuse(
                            "messageExpression",
                            format!("messageExpression compilation failed: {error}"),
                        )),
                        Ok(program) if !matches!(program.kind(), Type::String) => {
                            let why = "messageExpression must evaluate to a string".to_owned();
                            self.causes.push(refuse("messageExpression", why));
                        }
                        Ok(program) => {
                            let path = format!("{path}.messageExpression");
                            estimate(&program, "messageExpression", &path, self);
                        }
                    }
                }
            }
        }
        match (uses_old, place.uncorrelated) {
            (true, Some(outer)) => {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {outer}"
                );
                self.causes.push(Cause::invalid(format!("{path}.rule"), &rule["rule"], why));
            }
            (false, _) if rule["optionalOldSelf"].is_boolean() => {
                let why = "may not be set if oldSelf is not used in rule";
                let shown = &rule["optionalOldSelf"];
                self.causes.push(Cause::invalid(format!("{path}.optionalOldSelf"), shown, why));
            }
            _ => {}
        }
    }
}

/// What can be seen without reading the expressions.
fn form(rule: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let text = |word: &str| rule[word].as_str().unwrap_or_default();
    let broken = |text: &str| text.contains(['\n', '\r']);
    let (source, message) = (text("rule").trim(), text("message").trim());
    if source.is_empty() {
        causes.push(Cause::required(format!("{path}.rule"), "rule is not specified"));
    } else if !text("message").is_empty() && message.is_empty() {
        let why = "must be non-empty if specified";
        causes.push(Cause::invalid(format!("{path}.message"), &rule["message"], why));
    } else if broken(message) {
        causes.push(Cause::invalid(
            format!("{path}.message"),
            &rule["message"],
            "must not contain line breaks",
        ));
    } else if broken(source) && message.is_empty() {
        let why = "message must be specified if rule contains line breaks";
        causes.push(Cause::required(format!("{path}.message"), why));
    }
    if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        causes.push(Cause::required(format!("{path}.messageExpression"), why));
    }
    if rule["reason"].as_str().is_some_and(|reason| !REASONS.contains(&reason)) {
        let mut known = REASONS;
        known.sort_unstable();
        causes.push(Cause::not_supported(format!("{path}.reason"), &rule["reason"], known));
    }
    let field = text("fieldPath");
    if field.is_empty() {
        return;
    }
    let at = format!("{path}.fieldPath");
    if field.trim().is_empty() {
        causes.push(Cause::invalid(at.clone(), &rule["fieldPath"], "must be non-empty if specified"));
    }
    if broken(field) {
        causes.push(Cause::invalid(at.clone(), &rule["fieldPath"], "must not contain line breaks"));
    }
    if field_path(field, schema).is_none() {
        causes.push(Cause::invalid(at, &rule["fieldPath"], "must be a valid path"));
    }
}

/// The rule as the real server shows it: all fields, in the order of its type, in the manner of Go.
fn shown(rule: &Value) -> String {
    let field = |name: &str, empty: &Value| match &rule[name] {
        Value::Null => empty.to_string(),
        value => value.to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e"),
    };
    let (text, none) = (json!(""), Value::Null);
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        field("rule", &text),
        field("message", &text),
        field("messageExpression", &text),
        field("reason", &none),
        field("fieldPath", &text),
        field("optionalOldSelf", &none),
    )
}
