use rstest::rstest;

use super::*;

fn configuration(change: impl FnOnce(&mut Value)) -> Value {
    let mut provider = json!({
        "name": "entra",
        "issuer": { "issuerURL": "https://issuer.test", "audiences": ["a", "b"] },
        "claimMappings": { "username": { "claim": "sub" } },
        "oidcClients": [{ "componentName": "console", "clientID": "a" }],
    });
    change(&mut provider);
    json!({ "authentication": { "type": "OIDC", "oidcProviders": [provider] } })
}

fn read(change: impl FnOnce(&mut Value)) -> Result<Option<Providers>, String> {
    let read = Providers::read(&configuration(change), "https://kubernetes.default.svc");
    read.map_err(|refusal| refusal.message)
}

fn file(change: impl FnOnce(&mut Value)) -> Value {
    let file = read(change).unwrap().unwrap().file(&Sources::default()).unwrap();
    serde_json::from_str::<Value>(&file).unwrap()["jwt"][0].take()
}

#[test]
fn providers_become_the_file_that_an_api_server_reads() {
    let written = file(|provider| {
        provider["claimMappings"]["groups"] = json!({ "claim": "groups", "prefix": "g:" });
        let required = json!({ "claim": "tid", "requiredValue": "ours" });
        provider["claimValidationRules"] = json!([{ "type": "RequiredClaim", "requiredClaim": required }]);
    });
    assert_eq!(
        written["issuer"],
        json!({ "url": "https://issuer.test", "audiences": ["a", "b"], "audienceMatchPolicy": "MatchAny" })
    );
    assert_eq!(
        written["claimMappings"],
        json!({
            "username": { "claim": "sub", "prefix": "https://issuer.test#" },
            "groups": { "claim": "groups", "prefix": "g:" },
        })
    );
    assert_eq!(written["claimValidationRules"], json!([{ "claim": "tid", "requiredValue": "ours" }]));
    assert_eq!(written["userValidationRules"].as_array().unwrap().len(), 2);
}

#[rstest]
#[case(json!({ "claim": "sub" }), "https://issuer.test#")]
#[case(json!({ "claim": "email", "prefixPolicy": "" }), "")]
#[case(json!({ "claim": "sub", "prefixPolicy": "NoPrefix" }), "")]
#[case(json!({ "claim": "sub", "prefixPolicy": "Prefix", "prefix": { "prefixString": "p:" } }), "p:")]
fn a_name_has_the_prefix_that_the_policy_says(#[case] username: Value, #[case] prefix: &str) {
    let written = file(|provider| provider["claimMappings"]["username"] = username);
    assert_eq!(written["claimMappings"]["username"]["prefix"], prefix);
}

#[test]
fn no_file_is_written_without_the_authorities_of_an_issuer() {
    let named = |provider: &mut Value| {
        provider["issuer"]["issuerCertificateAuthority"] = json!({ "name": "my-authorities" });
    };
    assert_eq!(read(named).unwrap().unwrap().file(&Sources::default()), None);
}

#[rstest]
#[case("/issuer/issuerURL", json!("http://issuer.test"), "issuer.issuerURL: `http://issuer.test` is no `https` address")]
#[case("/issuer/issuerURL", json!("https://kubernetes.default.svc"), "issuer.issuerURL: is spec.issuerURL")]
#[case("/issuer/audiences", json!([]), "issuer.audiences: ")]
#[case("/claimMappings/username", json!({ "claim": "" }), "claimMappings.username.claim: ")]
#[case("/claimMappings/username", json!({ "claim": "sub", "prefixPolicy": "Prefix" }), "claimMappings.username.prefix: ")]
#[case("/claimMappings/username", json!({ "claim": "sub", "prefixPolicy": "Some" }), "claimMappings.username.prefixPolicy: ")]
#[case("/oidcClients", json!([]), "claimValidationRules[0]: ")]
fn what_cannot_be_carried_out_is_refused_with_its_field(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] expected: &str,
) {
    let refused = read(|provider| {
        *provider.pointer_mut(pointer).unwrap() = value;
        if expected.starts_with("claimValidationRules") {
            provider["claimValidationRules"] = json!([{ "type": "CEL" }]);
        }
    })
    .unwrap_err();
    let expected = format!("spec.configuration.authentication.oidcProviders[0].{expected}");
    assert!(refused.starts_with(&expected), "{refused}");
}

#[test]
fn providers_go_with_their_type_and_with_nothing_that_is_not_known() {
    let none = |configuration: Value| Providers::read(&configuration, "https://own").unwrap();
    assert_eq!(none(json!({})), None);
    assert_eq!(none(json!({ "authentication": { "type": "IntegratedOAuth" } })), None);
    let mut other = configuration(|_| {});
    other["authentication"]["type"] = json!("None");
    Providers::read(&other, "https://own").unwrap_err();
    let refused = read(|provider| provider["userValidationRules"] = json!([])).unwrap_err();
    assert!(refused.contains("userValidationRules"), "{refused}");
}
