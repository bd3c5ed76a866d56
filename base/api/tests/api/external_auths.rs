//! External authentications: every rule with a value that keeps it and one that does not.

use pilothouse_api::{Target, Version};
use serde_json::json;

use crate::{Row, check, external_auth, external_auth_body, external_auth_target, problems};

fn rows(rows: &[Row<'_>]) {
    for version in Version::ALL {
        check(external_auth_body, rows, |body| version.external_auth_put(body, &external_auth_target("sso")));
    }
}

#[test]
fn an_issuer_is_reached_safely_and_issues_for_somebody() {
    let certificate = rcgen::generate_simple_self_signed(["login.test".to_owned()]).unwrap().cert.pem();
    let url = "properties.issuer.url";
    let audiences = "properties.issuer.audiences";
    rows(&[
        ("/properties/issuer/url", json!("https://login.test"), None),
        (
            "/properties/issuer/url",
            json!("http://login.test"),
            Some((url, "Invalid value: \"http://login.test\": must match '^https://'")),
        ),
        (
            "/properties/issuer/url",
            json!("https://login.test/?a=b"),
            Some((
                url,
                "Invalid value: \"https://login.test/?a=b\": must be an address without a query and a fragment",
            )),
        ),
        ("/properties/issuer/url", json!(null), Some((url, "Required value"))),
        ("/properties/issuer", json!(null), Some(("properties.issuer", "Required value"))),
        (
            "/properties/issuer/audiences",
            json!([]),
            Some((audiences, "Invalid value: 0: must have at least 1 item")),
        ),
        (
            "/properties/issuer/audiences",
            json!(vec!["web"; 11]),
            Some((audiences, "Too many: 11: must have at most 10 items")),
        ),
        (
            "/properties/issuer/audiences",
            json!(["web", "cli", ""]),
            Some(("properties.issuer.audiences[2]", "Required value")),
        ),
        ("/properties/issuer/ca", json!(certificate), None),
        (
            "/properties/issuer/ca",
            json!("trust me"),
            Some(("properties.issuer.ca", "Invalid value: \"(certificates)\": must be certificates as PEM")),
        ),
    ]);
}

#[test]
fn clients_are_known_to_the_issuer_and_only_the_console_keeps_secrets() {
    let client = |name: &str, kind: &str| json!({"component": {"name": name, "authClientNamespace": "openshift-console"}, "clientId": "web", "type": kind});
    let many: Vec<_> = (0..21).map(|number| client(&format!("c{number}"), "Public")).collect();
    rows(&[
        ("/properties/clients", json!([]), None),
        ("/properties/clients", json!([client("console", "Confidential"), client("cli", "Public")]), None),
        (
            "/properties/clients",
            json!(many),
            Some(("properties.clients", "Too many: 21: must have at most 20 items")),
        ),
        (
            "/properties/clients",
            json!([client("cli", "Public"), client("cli", "Public")]),
            Some(("properties.clients[1].component", "Duplicate value: \"openshift-console/cli\"")),
        ),
        (
            "/properties/clients",
            json!([client("console", "Public")]),
            Some((
                "properties.clients[0].type",
                "Invalid value: \"Public\": must be 'Confidential' for the component console in openshift-console",
            )),
        ),
        (
            "/properties/clients",
            json!([client("cli", "Confidential")]),
            Some((
                "properties.clients[0].type",
                "Invalid value: \"Confidential\": may be 'Confidential' only for the component console in openshift-console",
            )),
        ),
        (
            "/properties/clients/0/clientId",
            json!("stranger"),
            Some((
                "properties.clients[0].clientId",
                "Invalid value: \"stranger\": must be one of properties.issuer.audiences",
            )),
        ),
        (
            "/properties/clients/0/component/name",
            json!("n".repeat(257)),
            Some(("properties.clients[0].component.name", "Too long: may not be more than 256 characters")),
        ),
        (
            "/properties/clients/0/component/authClientNamespace",
            json!("n".repeat(64)),
            Some((
                "properties.clients[0].component.authClientNamespace",
                "Too long: may not be more than 63 characters",
            )),
        ),
    ]);
}

#[test]
fn claims_name_the_user() {
    let prefix = "properties.claim.mappings.username.prefix";
    rows(&[
        ("/properties/claim/mappings/username", json!({"claim": "email", "prefixPolicy": "NoPrefix"}), None),
        (
            "/properties/claim/mappings/username",
            json!({"claim": "email", "prefixPolicy": "Prefix", "prefix": "sso:"}),
            None,
        ),
        (
            "/properties/claim/mappings/username",
            json!({"claim": "email", "prefixPolicy": "Prefix"}),
            Some((prefix, "Required value: prefixPolicy is 'Prefix'")),
        ),
        (
            "/properties/claim/mappings/username",
            json!({"claim": "email", "prefix": "sso:"}),
            Some((prefix, "Forbidden: may only be given when prefixPolicy is 'Prefix'")),
        ),
        (
            "/properties/claim/mappings/username/claim",
            json!(""),
            Some(("properties.claim.mappings.username.claim", "Required value")),
        ),
        (
            "/properties/claim/mappings/groups/claim",
            json!("c".repeat(257)),
            Some(("properties.claim.mappings.groups.claim", "Too long: may not be more than 256 characters")),
        ),
        (
            "/properties/claim/validationRules",
            json!([{"type": "RequiredClaim"}]),
            Some((
                "properties.claim.validationRules[0].requiredClaim",
                "Required value: the type is 'RequiredClaim'",
            )),
        ),
        (
            "/properties/claim/validationRules",
            json!([{"requiredClaim": {"claim": "a"}}]),
            Some(("properties.claim.validationRules[0].requiredClaim.requiredValue", "Required value")),
        ),
    ]);
}

#[test]
fn a_patch_changes_what_it_says_and_cannot_take_away_what_is_needed() {
    let existing = external_auth();
    let patch = |body: serde_json::Value| {
        let target = Target { existing: Some(&existing), ..external_auth_target("sso") };
        Version::V20261001.external_auth_patch(body.to_string().as_bytes(), &target)
    };
    let changed =
        patch(json!({"properties": {"issuer": {"ca": null, "url": "https://other.test"}}})).unwrap();
    assert_eq!(changed.spec.issuer.url, "https://other.test");
    assert_eq!(changed.spec.clients, existing.spec.clients);
    assert!(patch(json!({"properties": {"clients": null}})).unwrap().spec.clients.is_empty());
    assert_eq!(
        problems(patch(json!({"properties": {"issuer": {"url": null}, "claim": null}}))),
        [
            ("properties.claim".to_owned(), "Required value: field cannot be null".to_owned()),
            ("properties.issuer.url".to_owned(), "Required value: field cannot be null".to_owned()),
        ]
    );
}
