//! External authentication with one thing wrong.

use serde_json::{Value, json};

use super::row::{Row, put};
use crate::bodies::{client, cluster_id, external_auth, with, without};

pub(super) fn rows() -> Vec<Row> {
    [issuers(), claims(), clients()].concat()
}

/// In a cluster that has none yet.
fn fresh(what: &str, body: &Value) -> Row {
    put(what, &format!("{}/externalAuths/fresh", cluster_id("bare")), body)
}

fn wrong(field: &str, value: Value) -> Row {
    let path = format!("properties.{field}");
    fresh(&format!("{field}: {value}"), &with(external_auth(), &path, value)).wrong(&path)
}

fn lacks(field: &str) -> Row {
    let path = format!("properties.{field}");
    fresh(&format!("no {field}"), &without(external_auth(), &path)).wrong(&path)
}

fn issuers() -> Vec<Row> {
    let audiences = |what: &str, value: Value, target: &str| {
        fresh(what, &with(external_auth(), "properties.issuer.audiences", value))
            .wrong(&format!("properties.issuer.audiences{target}"))
    };
    vec![
        lacks("issuer"),
        lacks("issuer.url"),
        lacks("issuer.audiences"),
        wrong("issuer.url", json!("http://login.example.com")),
        wrong("issuer.url", json!("login.example.com")),
        wrong("issuer.url", json!("")),
        wrong("issuer.url", json!(443)),
        wrong("issuer.ca", json!("trust me")),
        audiences("an issuer for nobody", json!([]), ""),
        audiences("an issuer for eleven", json!(vec!["audience"; 11]), ""),
        audiences("an issuer for an empty audience", json!(["audience", ""]), "[1]"),
        audiences("an issuer for a word instead of a list", json!("audience"), ""),
    ]
}

fn claims() -> Vec<Row> {
    let username = "claim.mappings.username";
    let rules = |what: &str, rule: Value, target: &str| {
        fresh(what, &with(external_auth(), "properties.claim.validationRules", json!([rule])))
            .wrong(&format!("properties.claim.validationRules[0].{target}"))
    };
    vec![
        lacks("claim"),
        lacks("claim.mappings"),
        lacks("claim.mappings.username"),
        lacks("claim.mappings.username.claim"),
        wrong("claim.mappings.username.claim", json!("")),
        wrong("claim.mappings.username.claim", json!("c".repeat(257))),
        wrong("claim.mappings.username.prefixPolicy", json!("Sometimes")),
        wrong("claim.mappings.username.prefix", json!("without-a-policy:")),
        fresh(
            "a prefix that is not said",
            &with(external_auth(), &format!("properties.{username}.prefixPolicy"), "Prefix"),
        )
        .wrong(&format!("properties.{username}.prefix")),
        wrong("claim.mappings.groups.claim", json!("")),
        wrong("claim.mappings.groups.claim", json!("c".repeat(257))),
        rules(
            "a rule of a kind that there is not",
            json!({"type": "Guess", "requiredClaim": {"claim": "c", "requiredValue": "v"}}),
            "type",
        ),
        rules(
            "a rule about no claim",
            json!({"type": "RequiredClaim", "requiredClaim": {"requiredValue": "v"}}),
            "requiredClaim.claim",
        ),
        rules(
            "a rule about no value",
            json!({"type": "RequiredClaim", "requiredClaim": {"claim": "c"}}),
            "requiredClaim.requiredValue",
        ),
    ]
}

fn clients() -> Vec<Row> {
    let path = "properties.clients";
    let all = |what: &str, clients: Value| fresh(what, &with(external_auth(), path, clients));
    let one = |what: &str, field: &str, value: Value, target: &str| {
        all(what, json!([with(client("cli", "Public"), field, value)])).wrong(&format!("{path}[0].{target}"))
    };
    let many: Vec<_> = (0..21).map(|number| client(&format!("client-{number}"), "Public")).collect();
    vec![
        all("21 clients", json!(many)).wrong(path),
        all("the same component twice", json!([client("cli", "Public"), client("cli", "Public")]))
            .wrong(&format!("{path}[1].component")),
        all("a public console", json!([client("console", "Public")])).wrong(&format!("{path}[0].type")),
        all("a confidential command line", json!([client("cli", "Confidential")]))
            .wrong(&format!("{path}[0].type")),
        one("a client of a kind that there is not", "type", json!("Secret"), "type"),
        one("a client that is no audience", "clientId", json!("stranger"), "clientId"),
        one("a component without a name", "component.name", json!(""), "component.name"),
        one("a component with a long name", "component.name", json!("n".repeat(257)), "component.name"),
        one(
            "a component in a long namespace",
            "component.authClientNamespace",
            json!("n".repeat(64)),
            "component.authClientNamespace",
        ),
        one("scopes that are a word", "extraScopes", json!("all"), "extraScopes"),
        all("a client without an id", json!([without(client("cli", "Public"), "clientId")]))
            .wrong(&format!("{path}[0].clientId")),
        all("a client without a component", json!([without(client("cli", "Public"), "component")]))
            .wrong(&format!("{path}[0].component")),
    ]
}
