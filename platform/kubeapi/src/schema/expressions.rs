//! Rules of a definition (`x-kubernetes-validations`): compiled once with the schema, evaluated on every write.
//!
//! Only those parts of the schema are in the tree that have a rule at or below them, so an object of a kind without
//! rules costs nothing here. Each rule has a bound on its work, and all rules of one write have one together.

use pilothouse_cel::{Answer, EvaluationError, Program, Type, Variable};
use serde_json::Value;

use super::declared;
use crate::status::Cause;

#[cfg(test)]
mod tests;

/// What one evaluation may cost, and all of one request. As upstream.
const PER_CALL: u64 = 1_000_000;
const PER_REQUEST: u64 = 10_000_000;
/// The longest message that an expression may make.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The rules at one place of the schema, and those below.
#[derive(Debug)]
pub(super) struct Checks {
    /// As messages name the type.
    shown: Box<str>,
    kind: Type,
    rules: Vec<Rule>,
    items: Option<Box<Checks>>,
    /// What tells the items apart, in a list that is a map.
    keys: Vec<String>,
    properties: Vec<(Box<str>, Checks)>,
    additional: Option<Box<Checks>>,
    all_of: Vec<Checks>,
}

#[derive(Debug)]
struct Rule {
    /// Why it could not be compiled, or the program.
    program: Result<Program, String>,
    text: Box<str>,
    message: Option<Box<str>>,
    message_expression: Option<(Program, Box<str>)>,
    reason: Reason,
    field: Option<String>,
    uses_old: bool,
    optional_old: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

/// What `self` and `oldSelf` are called.
pub(super) const SELF: &str = "self";
pub(super) const OLD: &str = "oldSelf";

/// The variables of a rule on a value of this type.
pub(super) fn variables(kind: &Type, optional_old: bool) -> [(&'static str, Type); 2] {
    let old = if optional_old { Type::optional(kind.clone()) } else { kind.clone() };
    [(SELF, kind.clone()), (OLD, old)]
}

// === impl Checks ===

impl Checks {
    /// Compiles the rules of a schema. Nothing if there are none.
    pub(super) fn compile(schema: &Value) -> Option<Self> {
        Self::at(schema, schema, true)
    }

    /// The rules of one schema over values that another describes: they differ within `allOf`.
    fn at(schema: &Value, node: &Value, resource: bool) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        let embedded = |schema: &Value| schema["x-kubernetes-embedded-resource"] == true;
        let kind = declared::declared(node, resource)?;
        let below = |word: &str| {
            let (inner, of) = (&schema[word], &node[word]);
            let both = inner.is_object() && of.is_object();
            both.then(|| Self::at(inner, of, embedded(of))).flatten().map(Box::new)
        };
        let properties = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, inner)| {
                let of = node["properties"].get(name)?;
                Some((name.as_str().into(), Self::at(inner, of, embedded(of))?))
            })
            .collect();
        let is_map = node["x-kubernetes-list-type"] == "map";
        let keys = list(node, "x-kubernetes-list-map-keys").filter(|_| is_map);
        Some(Self {
            shown: node["type"].as_str().unwrap_or_default().into(),
            rules: list(schema, "x-kubernetes-validations")
                .map(|rule| Rule::compile(rule, node, &kind))
                .collect(),
            items: below("items"),
            keys: keys.filter_map(|key| key.as_str().map(str::to_owned)).collect(),
            properties,
            additional: below("additionalProperties"),
            all_of: list(schema, "allOf").filter_map(|inner| Self::at(inner, node, resource)).collect(),
            kind,
        })
    }

    /// Evaluates the rules on an object.
    pub(super) fn run(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut run = Run { left: PER_REQUEST, over: false, causes: Vec::new() };
        let nearest = old.map(|old| (object, old));
        run.node(self, object, Before { value: old, nearest }, "");
        run.causes
    }
}

fn list<'a>(schema: &'a Value, word: &str) -> impl Iterator<Item = &'a Value> {
    schema[word].as_array().into_iter().flatten()
}

fn has_rules(schema: &Value) -> bool {
    list(schema, "x-kubernetes-validations").next().is_some()
        || has_rules_below(&schema["items"])
        || has_rules_below(&schema["additionalProperties"])
        || schema["properties"].as_object().into_iter().flatten().any(|(_, inner)| has_rules(inner))
        || list(schema, "allOf").any(has_rules)
}

fn has_rules_below(schema: &Value) -> bool {
    schema.is_object() && has_rules(schema)
}

// === impl Rule ===

impl Rule {
    fn compile(rule: &Value, node: &Value, kind: &Type) -> Self {
        let text = |word: &str| rule[word].as_str().map(str::trim).filter(|text| !text.is_empty());
        let optional_old = rule["optionalOldSelf"] == true;
        let variables = variables(kind, optional_old);
        let source = rule["rule"].as_str().unwrap_or_default();
        let program = Program::compile(source, &variables).map_err(|error| error.to_string());
        let message_expression = rule["messageExpression"].as_str().filter(|text| !text.is_empty());
        Self {
            uses_old: program.as_ref().is_ok_and(|program| program.uses(OLD)),
            program,
            text: source.trim().into(),
            message: text("message").map(Into::into),
            message_expression: message_expression
                .and_then(|text| Some((Program::compile(text, &variables).ok()?, text.into()))),
            reason: match rule["reason"].as_str() {
                Some("FieldValueForbidden") => Reason::Forbidden,
                Some("FieldValueRequired") => Reason::Required,
                Some("FieldValueDuplicate") => Reason::Duplicate,
                _ => Reason::Invalid,
            },
            field: text("fieldPath").and_then(|path| field_path(path, node)),
            optional_old,
        }
    }

    /// The rule in an error about it.
    fn shown(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.text)
    }

    fn default_message(&self) -> String {
        match &self.message {
            Some(message) => message.to_string(),
            None => format!("failed rule: {}", self.text),
        }
    }
}

/// A path such as `.spec['a b'].c` in the form of other paths, if it leads anywhere.
pub(super) fn field_path(path: &str, schema: &Value) -> Option<String> {
    let (mut made, mut rest, mut node) = (String::new(), path, schema);
    while !rest.is_empty() {
        let name;
        if let Some(quoted) = rest.strip_prefix("['") {
            let end = quoted.find("']")?;
            name = quoted[..end].replace("\\'", "'").replace("\\\\", "\\");
            rest = &quoted[end + 2..];
        } else {
            let plain = rest.strip_prefix('.')?;
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            if end == 0 {
                return None;
            }
            name = plain[..end].to_owned();
            rest = &plain[end..];
        }
        if node["properties"].is_object() {
            node = node["properties"].get(&name)?;
            if !made.is_empty() {
                made.push('.');
            }
            made.push_str(&name);
        } else if node["additionalProperties"].is_object() {
            node = &node["additionalProperties"];
            made.push_str(&format!("[{name}]"));
        } else {
            return None;
        }
    }
    Some(made)
}

// === impl Run ===

/// One pass over one object.
struct Run {
    left: u64,
    /// Nothing more is evaluated.
    over: bool,
    causes: Vec<Cause>,
}

/// What was there before.
#[derive(Clone, Copy)]
struct Before<'a> {
    value: Option<&'a Value>,
    /// The nearest value around whose old self is known, with that.
    nearest: Option<(&'a Value, &'a Value)>,
}

impl<'a> Before<'a> {
    /// For something inside the new value, whose old self is this.
    fn inner(self, new: &'a Value, old: Option<&'a Value>) -> Self {
        Self { value: old, nearest: old.map(|old| (new, old)).or(self.nearest) }
    }

    /// A definition that became stricter must not freeze the objects it already has.
    fn is_unchanged(self) -> bool {
        self.nearest.is_some_and(|(new, old)| new == old)
    }
}

impl Run {
    fn node<'a>(&mut self, checks: &'a Checks, value: &'a Value, before: Before<'a>, path: &str) {
        if value.is_null() || self.over {
            return;
        }
        let old = before.value.filter(|old| !old.is_null());
        for rule in &checks.rules {
            self.rule(checks, rule, value, old, before, path);
            if self.over {
                return;
            }
        }
        for inner in &checks.all_of {
            let around = Before { value: before.value, nearest: None };
            self.node(inner, value, around, path);
        }
        match value {
            Value::Object(fields) => {
                for (name, inner) in fields {
                    let below = before.inner(inner, old.and_then(|old| old.get(name)));
                    if let Some(checks) = &checks.additional {
                        self.node(checks, inner, below, &format!("{path}[{name}]"));
                    }
                    let found = checks.properties.iter().find(|(one, _)| one.as_ref() == name);
                    if let Some((_, checks)) = found {
                        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                        self.node(checks, inner, below, &path);
                    }
                }
            }
            Value::Array(items) => {
                let Some(inner) = &checks.items else { return };
                for (place, item) in items.iter().enumerate() {
                    let same = old.and_then(|old| counterpart(&checks.keys, item, old));
                    self.node(inner, item, before.inner(item, same), &format!("{path}[{place}]"));
                }
            }
            _ => {}
        }
    }

    fn rule<'a>(
        &mut self,
        checks: &'a Checks,
        rule: &'a Rule,
        value: &'a Value,
        old: Option<&'a Value>,
        before: Before<'_>,
        path: &str,
    ) {
        if self.left == 0 {
            return self.out_of_budget(checks, path);
        }
        let program = match &rule.program {
            Ok(program) => program,
            Err(error) => {
                return self.invalid(
                    checks,
                    path,
                    format!("rule compile error: compilation failed: {error}"),
                );
            }
        };
        // Rules about a transition need something to come from.
        if rule.uses_old && old.is_none() && !rule.optional_old {
            return;
        }
        let mut variables = vec![(SELF, Variable::Value(value, &checks.kind))];
        match (rule.optional_old, old) {
            (true, old) => variables.push((OLD, Variable::Optional(old, &checks.kind))),
            (false, Some(old)) => variables.push((OLD, Variable::Value(old, &checks.kind))),
            (false, None) => {}
        }
        let evaluation = program.evaluate(&variables, PER_CALL);
        if evaluation.cost > self.left {
            return self.out_of_budget(checks, path);
        }
        self.left -= evaluation.cost;
        match evaluation.answer {
            Ok(Answer::Bool(true)) => {}
            Ok(_) => {
                let message = self.message(checks, rule, &variables, path);
                if self.over || (!rule.uses_old && before.is_unchanged()) {
                    return;
                }
                self.broken(checks, rule, &message, path);
            }
            Err(EvaluationError::CostLimit) => {
                let shown = rule.shown();
                let why = format!(
                    "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}",
                    EvaluationError::CostLimit
                );
                self.invalid(checks, path, why);
                self.over = true;
            }
            Err(error @ EvaluationError::NoSuchOverload { .. }) => {
                let shown = rule.shown();
                let why = format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
                );
                self.invalid(checks, path, why);
            }
            Err(error) => {
                let shown = rule.shown();
                self.invalid(checks, path, format!("{error} evaluating rule: {shown}"));
            }
        }
    }

    /// What a broken rule says: what its expression makes, or its text, or the rule itself.
    fn message<'a>(
        &mut self,
        checks: &Checks,
        rule: &'a Rule,
        variables: &[(&'a str, Variable<'a>)],
        path: &str,
    ) -> String {
        let Some((program, _)) = &rule.message_expression else { return rule.default_message() };
        let evaluation = program.evaluate(variables, PER_CALL);
        if evaluation.cost > self.left || evaluation.answer == Err(EvaluationError::CostLimit) {
            let why = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            self.invalid(checks, path, why.to_owned());
            self.over = true;
            return String::new();
        }
        self.left -= evaluation.cost;
        match evaluation.answer {
            Ok(Answer::Text(text)) => {
                let text = text.trim();
                match text.is_empty() || text.len() > LONGEST_MESSAGE || text.contains('\n') {
                    true => rule.default_message(),
                    false => text.to_owned(),
                }
            }
            _ => rule.default_message(),
        }
    }

    fn broken(&mut self, checks: &Checks, rule: &Rule, message: &str, path: &str) {
        let path = match (&rule.field, path) {
            (Some(field), "") => field.clone(),
            (Some(field), path) => format!("{path}.{field}"),
            (None, path) => named(path),
        };
        let shown = Value::from(checks.shown.as_ref());
        self.causes.push(match rule.reason {
            Reason::Invalid => Cause::invalid(path, &shown, message),
            Reason::Forbidden => Cause::forbidden(path, message),
            Reason::Required => Cause::required(path, message),
            Reason::Duplicate => Cause::duplicate(path, &shown),
        });
    }

    fn invalid(&mut self, checks: &Checks, path: &str, why: String) {
        self.causes.push(Cause::invalid(named(path), &Value::from(checks.shown.as_ref()), why));
    }

    fn out_of_budget(&mut self, checks: &Checks, path: &str) {
        let why =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        self.invalid(checks, path, why.to_owned());
        self.over = true;
    }
}

/// The root has no path.
fn named(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

/// The item of the old list that this one continues. Only a list that is a map can tell.
fn counterpart<'a>(keys: &[String], item: &Value, old: &'a Value) -> Option<&'a Value> {
    if keys.is_empty() {
        return None;
    }
    old.as_array()?.iter().find(|one| keys.iter().all(|key| one.get(key) == item.get(key)))
}
