use serde_json::{Value, json};

use crate::schema::Structural;

fn schema(spec: Value) -> Structural {
    Structural::parse(&json!({ "type": "object", "properties": { "spec": spec } }))
}

fn object(spec: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "K", "metadata": { "name": "x" }, "spec": spec })
}

fn lines(schema: &Structural, new: Value, old: Option<Value>) -> Vec<String> {
    let causes = schema.validate(&object(new), old.map(object).as_ref());
    causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn rules_of_items_that_have_a_key_know_their_old_value_wherever_it_was() {
    let schema = schema(json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
        "items": {
            "type": "object",
            "properties": { "id": { "type": "string" }, "size": { "type": "integer" } },
            "x-kubernetes-validations": [{ "rule": "self.size >= oldSelf.size", "message": "shrinks" }],
        },
    }));
    let old = json!([{ "id": "a", "size": 1 }, { "id": "b", "size": 5 }]);
    let new = json!([{ "id": "b", "size": 4 }, { "id": "a", "size": 1 }, { "id": "c", "size": 0 }]);
    assert_eq!(lines(&schema, new, Some(old)), ["spec[0]: Invalid value: \"object\": shrinks"]);
}

#[test]
fn rules_about_a_change_wait_for_one_unless_they_say_otherwise() {
    let schema = schema(json!({
        "type": "object",
        "properties": {
            "fixed": { "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf" }] },
            "first": { "type": "integer", "x-kubernetes-validations": [
                { "rule": "oldSelf.hasValue() || self == 1", "optionalOldSelf": true, "message": "starts at one" },
            ] },
        },
    }));
    assert_eq!(lines(&schema, json!({ "fixed": "a", "first": 1 }), None), [""; 0]);
    assert_eq!(
        lines(&schema, json!({ "first": 2 }), None),
        ["spec.first: Invalid value: \"integer\": starts at one"]
    );
    assert_eq!(
        lines(&schema, json!({ "fixed": "b", "first": 7 }), Some(json!({ "fixed": "a", "first": 1 }))),
        ["spec.fixed: Invalid value: \"string\": failed rule: self == oldSelf"]
    );
    // What was not there before has no old value either.
    assert_eq!(lines(&schema, json!({ "fixed": "a" }), Some(json!({}))), [""; 0]);
}

#[test]
fn what_did_not_change_is_not_held_against_a_rule_that_came_later() {
    let schema = schema(json!({
        "type": "object",
        "properties": {
            "a": { "type": "string", "x-kubernetes-validations": [{ "rule": "self != 'bad'" }] },
            "b": { "type": "string" },
        },
    }));
    let old = json!({ "a": "bad", "b": "x" });
    assert_eq!(lines(&schema, json!({ "a": "bad", "b": "y" }), Some(old.clone())), [""; 0]);
    assert_eq!(lines(&schema, json!({ "a": "bad" }), None).len(), 1);
}

#[test]
fn a_rule_that_costs_too_much_is_an_error_and_the_last_one() {
    let schema = schema(json!({
        "type": "array", "items": { "type": "integer" },
        "x-kubernetes-validations": [
            { "rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", "message": "sums" },
            { "rule": "false" },
        ],
    }));
    let many: Value = (0..2_000).collect();
    assert_eq!(
        lines(&schema, many, None),
        [
            "spec: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: sums"
        ]
    );
}

#[test]
fn all_rules_of_one_request_share_a_budget() {
    let one = json!({ "rule": "self.all(a, self.all(b, a + b >= 0))" });
    let rules: Vec<Value> = std::iter::repeat_n(one, 40).collect();
    let schema = schema(json!({
        "type": "array", "items": { "type": "integer" }, "x-kubernetes-validations": rules,
    }));
    let many: Value = (0..300).collect();
    assert_eq!(
        lines(&schema, many, None),
        [
            "spec: Invalid value: \"array\": validation failed due to running out of cost budget, no further validation rules will be run"
        ]
    );
}

#[test]
fn a_rule_that_relies_on_the_schema_waits_until_it_holds() {
    let schema = schema(json!({
        "type": "object",
        "properties": { "a": { "type": "integer" } },
        "x-kubernetes-validations": [{ "rule": "self.a > 1" }],
    }));
    let found = lines(&schema, json!({ "a": "text" }), None);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[1].starts_with("<nil>: Invalid value: null: some validation rules were not checked"),
        "{found:?}"
    );
}

#[test]
fn mistakes_in_rules_are_told_to_the_author() {
    let problems = |spec: Value| -> Vec<String> {
        let schema = json!({ "type": "object", "properties": { "spec": spec } });
        Structural::problems(&schema, "s")
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    };
    let rule = |rule: Value| json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "x-kubernetes-validations": [rule] });
    assert_eq!(problems(rule(json!({ "rule": "self.a > 1" }))), [""; 0]);
    assert_eq!(
        problems(rule(json!({ "rule": "self.b > 1" }))),
        [
            "s.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.b \\u003e 1\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b > 1\n | ....^"
        ]
    );
    assert_eq!(
        problems(rule(json!({ "rule": "self.a > 1", "fieldPath": ".b" }))),
        [
            "s.properties[spec].x-kubernetes-validations[0].fieldPath: Invalid value: \".b\": must be a valid path"
        ]
    );
    let list = json!({ "type": "array", "items": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self == oldSelf" }] } });
    assert_eq!(
        problems(list),
        [
            "s.properties[spec].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[spec]"
        ]
    );
}

#[test]
fn rules_that_could_cost_too_much_are_refused() {
    let problems = |spec: Value| -> Vec<String> {
        let schema = json!({ "type": "object", "properties": { "spec": spec } });
        let causes = Structural::problems(&schema, "s");
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    };
    let twice = |most: Value| {
        json!({
            "type": "object",
            "properties": { "a": { "type": "array", "items": { "type": "integer" }, "maxItems": most } },
            "x-kubernetes-validations": [{ "rule": "self.a.all(x, self.a.all(y, x != y))" }],
        })
    };
    assert_eq!(problems(twice(json!(1000))), [""; 0]);
    let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    let rule = "s.properties[spec].x-kubernetes-validations[0].rule";
    assert_eq!(
        problems(twice(json!(2000))),
        [format!("{rule}: Forbidden: estimated rule cost exceeds budget by factor of 2.0x {advice}")]
    );
    assert_eq!(
        problems(twice(Value::Null)),
        [
            format!(
                "{rule}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {advice}"
            ),
            format!(
                "{rule}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            ),
            format!(
                "s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x {advice}"
            ),
        ]
    );
    // A cheap rule on every item of a list without an end costs what all of them cost.
    let item = json!({ "type": "object", "properties": { "a": { "type": "string", "maxLength": 1000 } }, "x-kubernetes-validations": [{ "rule": "self.a == self.a" }] });
    let many = problems(json!({ "type": "array", "items": item }));
    assert!(many[0].contains("by factor of 42.4x"), "{many:?}");
    let few = problems(json!({ "type": "array", "items": item, "maxItems": 100 }));
    assert_eq!(few, [""; 0]);
}
