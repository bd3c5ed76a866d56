//! Conditions that a work asks for by rules: pure.
//!
//! A rule names a condition and says in expressions when it holds. It is evaluated over the object as it is; what came of it
//! is among the conditions of the manifest, and what came of all rules for one condition among those of the work.
//!
//! A rule that cannot be read is no reason to refuse its work: it says so in its own condition.

use std::sync::LazyLock;

use pilothouse_cel::{Answer, Program, Type, Variable};
use pilothouse_crds::{ConditionStatus, ManifestConfig};
use serde::Deserialize;
use serde_json::Value;

/// What one expression may cost, as for the rules of custom resources.
const COST: u64 = 1_000_000;
/// What the reasons of all conditions begin with that rules make.
pub(crate) const REASON: &str = "ConditionRule";
/// The reason of the conditions of a work.
pub(crate) const AGGREGATED: &str = "ConditionRulesAggregated";
/// Whoever has this condition is left alone.
pub(crate) const COMPLETE: &str = "Complete";

/// What came of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) type_: String,
    pub(crate) status: ConditionStatus,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// A rule as a work writes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    condition: String,
    #[serde(default, rename = "type")]
    type_: String,
    #[serde(default)]
    cel_expressions: Vec<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    message_expression: String,
}

static RESULT: LazyLock<Value> = LazyLock::new(|| Value::Bool(true));
static NO_RESULT: LazyLock<Value> = LazyLock::new(|| Value::Bool(false));

/// The rules of a configuration.
pub(crate) fn rules(config: &ManifestConfig) -> &[Value] {
    config.other.get("conditionRules").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What comes of rules over an object; `None` if there is no object to look at.
pub(crate) fn evaluate(rules: &[Value], version: &str, kind: &str, object: Option<&Value>) -> Vec<Verdict> {
    rules.iter().map(|rule| one(rule, version, kind, object)).collect()
}

/// What holds of a work of whose manifests these are the verdicts, of one condition.
pub(crate) fn aggregate(condition: &str, verdicts: &[ConditionStatus]) -> ConditionStatus {
    let any = |status| verdicts.contains(&status);
    match (condition, any(ConditionStatus::False), any(ConditionStatus::Unknown)) {
        // Something moves as long as any part of it does.
        ("Progressing", ..) if any(ConditionStatus::True) => ConditionStatus::True,
        (_, true, _) => ConditionStatus::False,
        (_, _, true) => ConditionStatus::Unknown,
        _ => ConditionStatus::True,
    }
}

fn one(rule: &Value, version: &str, kind: &str, object: Option<&Value>) -> Verdict {
    let named = rule.get("condition").and_then(Value::as_str).filter(|name| !name.is_empty());
    let invalid = |problem: String| Verdict {
        type_: named.unwrap_or("Invalid").to_owned(),
        status: ConditionStatus::Unknown,
        reason: "ConditionRuleInvalid",
        message: problem,
    };
    let rule: Rule = match serde_json::from_value(rule.clone()) {
        Ok(rule) => rule,
        Err(error) => return invalid(format!("the rule cannot be read: {error}")),
    };
    let rule = match rule.type_.as_str() {
        "CEL" if rule.condition.is_empty() => return invalid("the rule names no condition".to_owned()),
        "CEL" if rule.cel_expressions.is_empty() => return invalid("the rule has no expressions".to_owned()),
        "CEL" => rule,
        "WellKnownConditions" => match well_known(rule, version, kind) {
            Some(rule) => rule,
            None => return invalid(format!("there is no well-known condition of `{kind}` in `{version}`")),
        },
        other => {
            return invalid(format!("`{other}` is no type of rules; there are CEL and WellKnownConditions"));
        }
    };
    let verdict =
        |status, reason, message| Verdict { type_: rule.condition.clone(), status, reason, message };
    let Some(object) = object else {
        let message = "there is no object to look at".to_owned();
        return verdict(ConditionStatus::Unknown, "ConditionRuleInternalError", message);
    };
    let mut holds = true;
    for expression in &rule.cel_expressions {
        match answer(expression, object, None) {
            Ok(Answer::Bool(true)) => {}
            Ok(Answer::Bool(false)) => {
                holds = false;
                break;
            }
            Ok(other) => {
                let message = format!("`{expression}` came to {other:?}, which is neither true nor false");
                return verdict(ConditionStatus::False, "ConditionRuleExpressionError", message);
            }
            Err(message) => return verdict(ConditionStatus::False, "ConditionRuleExpressionError", message),
        }
    }
    verdict(holds.into(), "ConditionRuleEvaluated", message(&rule, object, holds))
}

/// Rules that everybody agrees on.
fn well_known(rule: Rule, version: &str, kind: &str) -> Option<Rule> {
    let (expression, message) = match (version, kind) {
        ("batch/v1", "Job") => (
            "has(object.status) && has(object.status.conditions) && object.status.conditions.exists(c, \
             c.type in ['Complete', 'Failed'] && c.status == 'True')",
            "result ? 'Job is finished' : 'Job is not finished'",
        ),
        ("v1", "Pod") => {
            ("object.status.phase in ['Succeeded', 'Failed']", "'Pod is in phase ' + object.status.phase")
        }
        _ => return None,
    };
    let or = |text: String, default: &str| if text.is_empty() { default.to_owned() } else { text };
    let message = if rule.message.is_empty() { message } else { "" };
    Some(Rule {
        condition: or(rule.condition, COMPLETE),
        type_: rule.type_,
        cel_expressions: vec![expression.to_owned()],
        message: rule.message,
        message_expression: or(rule.message_expression, message),
    })
}

fn message(rule: &Rule, object: &Value, holds: bool) -> String {
    if !rule.message_expression.is_empty() {
        match answer(&rule.message_expression, object, Some(holds)) {
            Ok(Answer::Text(text)) if !text.is_empty() => return text,
            Ok(Answer::Text(_)) => {}
            Ok(other) => {
                return format!("`{}` came to {other:?}, which is no text", rule.message_expression);
            }
            Err(problem) => return problem,
        }
    }
    match (rule.message.as_str(), holds) {
        ("", true) => format!("Manifest is {}", rule.condition),
        ("", false) => format!("Manifest is not {}", rule.condition),
        (message, _) => message.to_owned(),
    }
}

fn answer(expression: &str, object: &Value, result: Option<bool>) -> Result<Answer, String> {
    let mut types = vec![("object", Type::Dyn)];
    let mut values = vec![("object", Variable::Value(object, &Type::Dyn))];
    if let Some(result) = result {
        types.push(("result", Type::Bool));
        let value: &Value = if result { &RESULT } else { &NO_RESULT };
        values.push(("result", Variable::Value(value, &Type::Bool)));
    }
    let program = Program::compile_for_works(expression, &types).map_err(|error| error.to_string())?;
    program.evaluate(&values, COST).answer.map_err(|error| format!("`{expression}`: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(rule: Value, object: &Value) -> (String, ConditionStatus, &'static str, String) {
        let found = one(&rule, "v1", "Pod", Some(object));
        (found.type_, found.status, found.reason, found.message)
    }

    #[test]
    fn all_expressions_of_a_rule_have_to_hold() {
        let object = json!({"status": {"phase": "Running", "ready": 2}, "spec": {"replicas": 2}});
        let rule =
            |expressions: Value| json!({"condition": "Ready", "type": "CEL", "celExpressions": expressions});
        let (type_, status, reason, message) = verdict(
            rule(json!(["object.status.ready == object.spec.replicas", "has(object.status)"])),
            &object,
        );
        assert_eq!(
            (type_.as_str(), status, reason),
            ("Ready", ConditionStatus::True, "ConditionRuleEvaluated")
        );
        assert_eq!(message, "Manifest is Ready");
        let (_, status, reason, message) =
            verdict(rule(json!(["object.status.ready > 1", "object.status.ready > 2"])), &object);
        assert_eq!((status, reason), (ConditionStatus::False, "ConditionRuleEvaluated"));
        assert_eq!(message, "Manifest is not Ready");
        for odd in ["object.status.", "object.status.ready", "object.status.missing == 1", "nobody == 1"] {
            let (_, status, reason, _) = verdict(rule(json!([odd])), &object);
            assert_eq!((status, reason), (ConditionStatus::False, "ConditionRuleExpressionError"), "{odd}");
        }
    }

    /// As the original has it for jobs.
    #[test]
    fn a_rule_may_ask_whether_there_are_conditions_at_all() {
        let holds = |object: Value| {
            let expression = "hasConditions(object.status) ? object.status.conditions.exists(c, c.status == 'True') : false";
            let rule = json!({"condition": "Done", "type": "CEL", "celExpressions": [expression]});
            let (_, status, reason, _) = verdict(rule, &object);
            (status, reason)
        };
        let evaluated = |status| (status, "ConditionRuleEvaluated");
        let done = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        assert_eq!(holds(done), evaluated(ConditionStatus::True));
        for none in [
            json!({"status": {}}),
            json!({"status": {"conditions": []}}),
            json!({"status": {"conditions": null}}),
            json!({"status": {"conditions": "many"}}),
            json!({"status": "well"}),
            json!({"status": null}),
        ] {
            assert_eq!(holds(none.clone()), evaluated(ConditionStatus::False), "{none}");
        }
        // Who has no status cannot be asked for it.
        assert_eq!(holds(json!({})), (ConditionStatus::False, "ConditionRuleExpressionError"));
    }

    #[test]
    fn message_is_said_by_the_rule() {
        let object = json!({"status": {"ready": 2}});
        let mut rule = json!({"condition": "Ready", "type": "CEL", "celExpressions": ["object.status.ready > 1"],
            "message": "plain", "messageExpression": "(result ? 'yes, ' : 'no, ') + string(object.status.ready)"});
        assert_eq!(verdict(rule.clone(), &object).3, "yes, 2");
        rule["messageExpression"] = json!("");
        assert_eq!(verdict(rule.clone(), &object).3, "plain");
        rule["messageExpression"] = json!("object.nothing");
        assert_eq!(verdict(rule, &object).1, ConditionStatus::True, "what is said is not what holds");
    }

    #[test]
    fn pods_and_jobs_are_complete_when_everybody_says_so() {
        let rule = json!({"type": "WellKnownConditions", "condition": "Complete"});
        let pod = json!({"status": {"phase": "Succeeded"}});
        assert_eq!(verdict(rule.clone(), &pod).3, "Pod is in phase Succeeded");
        let job = |conditions: Value| {
            let job = json!({"status": {"conditions": conditions}});
            one(&rule, "batch/v1", "Job", Some(&job)).status
        };
        assert_eq!(job(json!([{"type": "Failed", "status": "True"}])), ConditionStatus::True);
        assert_eq!(job(json!([{"type": "Complete", "status": "False"}])), ConditionStatus::False);
        assert_eq!(one(&rule, "batch/v1", "Job", Some(&json!({}))).status, ConditionStatus::False);
        let unknown = one(&rule, "v1", "Secret", Some(&pod));
        assert_eq!((unknown.status, unknown.reason), (ConditionStatus::Unknown, "ConditionRuleInvalid"));
    }

    #[test]
    fn rule_that_cannot_be_read_says_so() {
        for odd in [
            json!({}),
            json!("text"),
            json!({"condition": "A", "type": "Rego"}),
            json!({"condition": "A", "type": "CEL"}),
            json!({"type": "CEL", "celExpressions": ["true"]}),
            json!({"condition": "A", "type": "CEL", "celExpressions": "true"}),
        ] {
            let found = one(&odd, "v1", "Pod", Some(&json!({})));
            assert_eq!(
                (found.status, found.reason),
                (ConditionStatus::Unknown, "ConditionRuleInvalid"),
                "{odd}"
            );
        }
    }

    #[test]
    fn one_that_does_not_hold_outweighs_all_others() {
        use ConditionStatus::{False, True, Unknown};
        assert_eq!(aggregate("Ready", &[True, Unknown, False]), False);
        assert_eq!(aggregate("Ready", &[True, Unknown]), Unknown);
        assert_eq!(aggregate("Ready", &[True, True]), True);
        assert_eq!(aggregate("Progressing", &[False, True]), True);
        assert_eq!(aggregate("Progressing", &[False, Unknown]), False);
    }
}
