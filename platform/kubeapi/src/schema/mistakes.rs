//! What is wrong with the rules of a definition, said when the definition is written.

use pilothouse_cel::{Program, Type};
use serde_json::{Value, json};

use super::declared;
use super::expressions::{OLD, field_path, variables};
use crate::status::Cause;

const REASONS: [&str; 4] =
    ["FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden", "FieldValueDuplicate"];

/// Looks at every rule of a schema that is structural.
pub(super) fn find(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    visit(schema, path, true, None, causes);
}

fn visit(schema: &Value, path: &str, resource: bool, uncorrelated: Option<&str>, causes: &mut Vec<Cause>) {
    let embedded = |schema: &Value| schema["x-kubernetes-embedded-resource"] == true;
    // What is below is looked at first, and complained about first.
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        visit(inner, &format!("{path}.properties[{name}]"), embedded(inner), uncorrelated, causes);
    }
    let inner = &schema["additionalProperties"];
    if inner.is_object() {
        visit(inner, &format!("{path}.additionalProperties"), embedded(inner), uncorrelated, causes);
    }
    let inner = &schema["items"];
    if inner.is_object() {
        let below = format!("{path}.items");
        let correlated = schema["x-kubernetes-list-type"] == "map";
        let uncorrelated = uncorrelated.or_else(|| (!correlated).then_some(path));
        visit(inner, &below, embedded(inner), uncorrelated, causes);
    }
    let rules: Vec<&Value> = schema["x-kubernetes-validations"].as_array().into_iter().flatten().collect();
    if rules.is_empty() {
        return;
    }
    let before = causes.len();
    for (place, rule) in rules.iter().enumerate() {
        form(rule, schema, &format!("{path}.x-kubernetes-validations[{place}]"), causes);
    }
    if causes.len() > before {
        return;
    }
    let Some(kind) = declared::declared(schema, resource) else {
        let why = "Internal error: failed to convert to declType for CEL validation rules";
        causes.push(Cause::new("InternalError", why, format!("{path}.x-kubernetes-validations")));
        return;
    };
    for (place, rule) in rules.iter().enumerate() {
        compiled(rule, &kind, &format!("{path}.x-kubernetes-validations[{place}]"), uncorrelated, causes);
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

fn compiled(rule: &Value, kind: &Type, path: &str, uncorrelated: Option<&str>, causes: &mut Vec<Cause>) {
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
        Err(error) => causes.push(refuse("rule", format!("compilation failed: {error}"))),
        Ok(program) if !matches!(program.kind(), Type::Bool) => {
            causes.push(refuse("rule", "cel expression must evaluate to a bool".to_owned()));
        }
        Ok(program) => {
            uses_old = program.uses(OLD);
            if let Some(text) = rule["messageExpression"].as_str().filter(|text| !text.is_empty()) {
                match Program::compile(text, &variables) {
                    Err(error) => causes.push(refuse(
                        "messageExpression",
                        format!("messageExpression compilation failed: {error}"),
                    )),
                    Ok(program) if !matches!(program.kind(), Type::String) => {
                        let why = "messageExpression must evaluate to a string".to_owned();
                        causes.push(refuse("messageExpression", why));
                    }
                    Ok(_) => {}
                }
            }
        }
    }
    match (uses_old, uncorrelated) {
        (true, Some(outer)) => {
            let why =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {outer}");
            causes.push(Cause::invalid(format!("{path}.rule"), &rule["rule"], why));
        }
        (false, _) if rule["optionalOldSelf"].is_boolean() => {
            let why = "may not be set if oldSelf is not used in rule";
            causes.push(Cause::invalid(format!("{path}.optionalOldSelf"), &rule["optionalOldSelf"], why));
        }
        _ => {}
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
