use serde_json::json;

use super::*;

fn file(change: impl FnOnce(&mut Value)) -> String {
    let mut file = json!({
        "apiVersion": "apiserver.config.k8s.io/v1beta1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{
            "issuer": { "url": "https://issuer.test", "audiences": ["kitchen"] },
            "claimMappings": { "username": { "claim": "sub", "prefix": "" } },
        }],
    });
    change(&mut file);
    file.to_string()
}

fn issuers(change: impl FnOnce(&mut Value)) -> Result<TokenIssuers, String> {
    TokenIssuers::parse(&file(|file| {
        change(&mut file["jwt"][0]);
    }))
    .map_err(|error| error.to_string())
}

/// The user that claims come to, or why they come to none.
fn user(change: impl FnOnce(&mut Value), claims: &Value) -> Result<User, String> {
    let issuers = issuers(change)?;
    let issuer = &issuers.0[0];
    issuer.claim_rules.iter().try_for_each(|rule| rule.check(claims))?;
    let user = issuer.mapping.user(claims)?;
    issuer.user_rules.iter().try_for_each(|rule| rule.check(&user))?;
    Ok(user)
}

#[test]
fn claims_become_a_user_as_the_file_maps_them() {
    let claims = json!({ "sub": "7", "email": "ada@team.test", "teams": ["crew", "cooks"], "team": "crew" });
    let plain = user(|_| {}, &claims).unwrap();
    assert_eq!((plain.name.as_str(), plain.groups.len()), ("7", 0));

    let prefixed = user(
        |jwt| {
            jwt["claimMappings"] = json!({
                "username": { "claim": "email", "prefix": "team:" },
                "groups": { "claim": "teams", "prefix": "g:" },
                "uid": { "claim": "sub" },
            });
        },
        &claims,
    )
    .unwrap();
    assert_eq!((prefixed.name.as_str(), prefixed.uid.as_str()), ("team:ada@team.test", "7"));
    assert_eq!(prefixed.groups, ["g:crew", "g:cooks"]);
    // One group may be text, and none may be nothing.
    for (claim, expected) in [("team", vec!["crew".to_owned()]), ("nothing", Vec::new())] {
        let groups = json!({ "claim": claim, "prefix": "" });
        let user = user(|jwt| jwt["claimMappings"]["groups"] = groups, &claims).unwrap();
        assert_eq!(user.groups, expected);
    }

    let expressed = user(
        |jwt| {
            jwt["claimMappings"] = json!({
                "username": { "expression": "'user-' + claims.sub" },
                "groups": { "expression": "claims.teams.map(team, 'g:' + team)" },
                "extra": [{ "key": "example.com/team", "valueExpression": "claims.team" }],
            });
        },
        &claims,
    )
    .unwrap();
    assert_eq!((expressed.name.as_str(), expressed.groups.len()), ("user-7", 2));
    assert_eq!(expressed.extra["example.com/team"], ["crew"]);
}

#[test]
fn claims_that_break_a_rule_come_to_nobody() {
    let with = |claims: Value, change: &dyn Fn(&mut Value)| user(change, &claims).unwrap_err();
    let tenant = |jwt: &mut Value| {
        jwt["claimValidationRules"] = json!([{ "claim": "tid", "requiredValue": "ours" }]);
    };
    assert_eq!(with(json!({ "sub": "7", "tid": "theirs" }), &tenant), "the claim `tid` is not `ours`");
    assert_eq!(with(json!({ "sub": "7" }), &tenant), "the claim `tid` is not `ours`");
    let short = |jwt: &mut Value| {
        let rule = json!({ "expression": "claims.exp - claims.nbf <= 60", "message": "lives too long" });
        jwt["claimValidationRules"] = json!([rule]);
    };
    assert_eq!(with(json!({ "sub": "7", "exp": 100, "nbf": 0 }), &short), "lives too long");
    let nobody_of_ours = |jwt: &mut Value| {
        let rule = json!({ "expression": "!user.username.startsWith('system:')", "message": "is reserved" });
        jwt["userValidationRules"] = json!([rule]);
    };
    assert_eq!(with(json!({ "sub": "system:admin" }), &nobody_of_ours), "is reserved");
    let email = |jwt: &mut Value| jwt["claimMappings"]["username"]["claim"] = json!("email");
    let unverified = json!({ "email": "ada@team.test", "email_verified": false });
    assert_eq!(with(unverified, &email), "the email address is not verified");
    for wrong in [json!({}), json!({ "sub": "" }), json!({ "sub": 7 })] {
        assert_eq!(with(wrong, &|_| {}), "the claim `sub` is no name");
    }
    let groups = |jwt: &mut Value| jwt["claimMappings"]["groups"] = json!({ "claim": "teams", "prefix": "" });
    let odd = json!({ "sub": "7", "teams": [7] });
    assert_eq!(with(odd, &groups), "the claim `teams` is neither text nor a list of text");
}

#[test]
fn a_file_that_cannot_be_carried_out_is_refused_with_its_field() {
    let issuer = |other: Value| {
        let mut issuer = json!({ "url": "https://issuer.test", "audiences": ["a"] });
        for (name, value) in other.as_object().unwrap() {
            issuer[name] = value.clone();
        }
        ("issuer", issuer)
    };
    let mappings =
        |username: Value, extra: Value| ("claimMappings", json!({ "username": username, "extra": extra }));
    let named = json!({ "claim": "sub", "prefix": "" });
    let none = || json!([]);
    let of_kubernetes = json!([{ "key": "a.k8s.io/b", "valueExpression": "'a'" }]);
    let cases = [
        (issuer(json!({ "url": "http://issuer.test" })), "jwt[0].issuer.url: "),
        (issuer(json!({ "url": "https://issuer.test?a=b" })), "jwt[0].issuer.url: "),
        (issuer(json!({ "discoveryURL": "https://issuer.test/" })), "jwt[0].issuer.discoveryURL: "),
        (issuer(json!({ "audiences": [] })), "jwt[0].issuer.audiences: "),
        (issuer(json!({ "audiences": ["a", "b"] })), "jwt[0].issuer.audienceMatchPolicy: must be `MatchAny`"),
        (issuer(json!({ "certificateAuthority": "PEM" })), "jwt[0].issuer.certificateAuthority: "),
        (mappings(json!({ "claim": "sub" }), none()), "jwt[0].claimMappings.username.prefix: "),
        (mappings(json!({}), none()), "jwt[0].claimMappings.username: "),
        (
            mappings(json!({ "expression": "claims." }), none()),
            "jwt[0].claimMappings.username.expression: ERROR",
        ),
        (
            mappings(json!({ "expression": "claims.email" }), none()),
            "jwt[0].claimMappings.username.expression: uses `claims.email`",
        ),
        (mappings(named, of_kubernetes), "jwt[0].claimMappings.extra[0].key: "),
        (("claimValidationRules", json!([{ "message": "no" }])), "jwt[0].claimValidationRules[0]: "),
        (("somethingElse", json!(true)), "AuthenticationConfiguration: "),
    ];
    for ((member, value), expected) in cases {
        let refused = issuers(|jwt| jwt[member] = value).unwrap_err();
        assert!(refused.starts_with(expected), "{refused}");
    }
}

#[test]
fn an_issuer_is_there_once_and_is_not_the_cluster_itself() {
    let twice = file(|file| {
        let first = file["jwt"][0].clone();
        file["jwt"].as_array_mut().unwrap().push(first);
    });
    let refused = TokenIssuers::parse(&twice).unwrap_err().to_string();
    assert!(refused.starts_with("jwt[1].issuer.url: "), "{refused}");
    let issuers = TokenIssuers::parse(&file(|_| {})).unwrap();
    issuers.check_against("https://kubernetes.default.svc").unwrap();
    issuers.check_against("https://issuer.test").unwrap_err();
    for wrong in ["{}", "", "kind: AuthenticationConfiguration\napiVersion: v1\n"] {
        TokenIssuers::parse(wrong).unwrap_err();
    }
}
