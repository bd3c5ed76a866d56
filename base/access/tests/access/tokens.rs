use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use pilothouse_access::{Denial, Fault, Scheme};
use pilothouse_arm::IdentityType;
use serde_json::{Value, json};
use std::time::Duration;

use crate::support::{AUDIENCE, NOW, Rig, SigningKey, TENANT, claims, identify, part, with};

#[tokio::test]
async fn a_good_token_says_who_its_bearer_is() {
    let mut rig = Rig::new();
    let access = rig.access();
    let ada = identify(&access, &rig.key.sign(&claims())).await.unwrap();
    assert_eq!((ada.name(), ada.identity_type()), ("ada@team.test", IdentityType::User));
    assert_eq!((ada.tenant_id(), ada.app_id()), (Some(TENANT), Some("some-app")));
    assert!(!ada.is_arm() && !ada.is_administrator() && !ada.believes_headers());
    assert_eq!(ada.how(), "token of app some-app");

    // A program has neither a user's name nor a delegated scope.
    let program = with(json!({"preferred_username": null, "appid": "nightly", "azp": null}));
    let program = identify(&access, &rig.key.sign(&program)).await.unwrap();
    assert_eq!((program.name(), program.identity_type()), ("nightly", IdentityType::Application));
    let delegated = with(json!({"preferred_username": null, "scp": "user_impersonation"}));
    let delegated = identify(&access, &rig.key.sign(&delegated)).await.unwrap();
    assert_eq!(delegated.identity_type(), IdentityType::User);
}

#[tokio::test]
async fn what_is_wrong_with_a_token_is_said() {
    let mut rig = Rig::new();
    rig.config.jwt.as_mut().unwrap().allowed_app_ids = vec!["Some-App".to_owned()];
    let access = rig.access();
    let good = rig.key.sign(&claims());
    identify(&access, &good).await.unwrap();
    let sign = |changes: Value| rig.key.sign(&with(changes));
    let header = |header: Value| rig.key.sign_with(&header, &claims());
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let other = SigningKey::new("first").sign(&claims());
    for (token, expected) in [
        (sign(json!({"exp": NOW - 61})), Fault::Expired),
        (sign(json!({"exp": null})), Fault::NoExpiry),
        (sign(json!({"nbf": NOW + 61})), Fault::NotYetValid),
        (sign(json!({"aud": "https://else.test"})), Fault::Audience),
        (sign(json!({"aud": null})), Fault::Audience),
        (sign(json!({"aud": ["https://else.test"]})), Fault::Audience),
        (sign(json!({"iss": "https://else.test/"})), Fault::Issuer),
        (sign(json!({"iss": null})), Fault::Issuer),
        (sign(json!({"azp": "other-app"})), Fault::Application),
        (sign(json!({"azp": null})), Fault::Application),
        (sign(json!({"exp": "tomorrow"})), Fault::Malformed),
        // Nobody signed it, or somebody else.
        (header(json!({"alg": "none", "kid": "first"})), Fault::Algorithm),
        (format!("{}.{}.", part(&json!({"alg": "none"})), part(&claims())), Fault::Algorithm),
        (header(json!({"alg": "HS256", "kid": "first"})), Fault::Algorithm),
        (header(json!({"alg": "ES384", "kid": "first"})), Fault::Algorithm),
        (header(json!({"alg": "RS256", "kid": "first"})), Fault::Signature),
        (header(json!({"alg": "EdDSA", "kid": "first"})), Fault::Signature),
        (header(json!({"alg": "ES256"})), Fault::NoKeyId),
        (header(json!({"alg": "ES256", "kid": "second"})), Fault::UnknownKey),
        (header(json!({"alg": "ES256", "kid": "first", "crit": ["b64"], "b64": false})), Fault::Malformed),
        (other, Fault::Signature),
        (format!("{signed}.{}", &signature[..20]), Fault::Signature),
        (
            format!(
                "{}.{}.{signature}",
                part(&json!({"alg": "ES256", "kid": "first"})),
                part(&with(json!({"tid": "x"})))
            ),
            Fault::Signature,
        ),
        (signed.to_owned(), Fault::Malformed),
        (format!("{good}.{signature}"), Fault::Malformed),
        ("".to_owned(), Fault::Malformed),
        ("ä.ö.ü".replace(|letter: char| !letter.is_ascii(), "?"), Fault::Malformed),
    ] {
        let refused = identify(&access, &token).await.unwrap_err();
        assert_eq!(refused, Denial::Token(expected), "{token}");
        let error = refused.error();
        assert_eq!((error.status(), error.details().code.as_str()), (401, "AuthenticationFailed"));
    }
    identify(&access, &rig.key.sign(&with(json!({"aud": ["https://else.test", AUDIENCE]})))).await.unwrap();
}

/// A public key that is taken for a shared secret would let anybody sign.
#[tokio::test]
async fn a_public_key_is_no_shared_secret() {
    let mut rig = Rig::new();
    let access = rig.access();
    let secret = rig.key.public().to_string();
    let message = format!("{}.{}", part(&json!({"alg": "HS256", "kid": "first"})), part(&claims()));
    let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
    let signature =
        jsonwebtoken::crypto::sign(message.as_bytes(), &key, jsonwebtoken::Algorithm::HS256).unwrap();
    let refused = identify(&access, &format!("{message}.{signature}")).await.unwrap_err();
    assert_eq!(refused, Denial::Token(Fault::Algorithm));

    // Nor is one that the issuer itself publishes as such.
    rig.publish(&[json!({"kty": "oct", "kid": "shared", "alg": "HS256", "k": "c2VjcmV0"}), rig.key.public()]);
    let access = rig.access();
    identify(&access, &rig.key.sign(&claims())).await.unwrap();
    let refused = identify(&access, &format!("{message}.{signature}").replace("first", "shared")).await;
    assert_eq!(refused.unwrap_err(), Denial::Token(Fault::Algorithm));
}

#[tokio::test]
async fn clocks_may_differ_by_the_skew_and_no_more() {
    let mut rig = Rig::new();
    let access = rig.access();
    let token = rig.key.sign(&with(json!({"exp": NOW + 10, "nbf": NOW + 5})));
    for (seconds, expected) in [
        (-55, None),
        (-56, Some(Fault::NotYetValid)),
        (69, None),
        (70, Some(Fault::Expired)),
        (71, Some(Fault::Expired)),
    ] {
        rig.time.set(jiff::Timestamp::from_second(NOW + seconds).unwrap());
        let found = identify(&access, &token).await.err();
        assert_eq!(found, expected.map(Denial::Token), "{seconds} s");
    }
    rig.config.jwt.as_mut().unwrap().clock_skew = Duration::ZERO.into();
    let strict = rig.access();
    rig.time.set(jiff::Timestamp::from_second(NOW + 10).unwrap());
    assert_eq!(identify(&strict, &token).await.unwrap_err(), Denial::Token(Fault::Expired));
}

#[tokio::test]
async fn only_one_bearer_token_counts() {
    let mut rig = Rig::new();
    let access = rig.access();
    assert_eq!(access.identify(&HeaderMap::new(), None).await.unwrap_err(), Denial::Missing(Scheme::Token));
    let token = rig.key.sign(&claims());
    for values in [
        vec![format!("Basic {token}")],
        vec![token.clone()],
        vec!["Bearer".to_owned()],
        vec![format!("Bearer {token}"), format!("Bearer {token}")],
    ] {
        let mut headers = HeaderMap::new();
        for value in &values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        let refused = access.identify(&headers, None).await.unwrap_err();
        assert_eq!(refused, Denial::Token(Fault::Malformed), "{values:?}");
    }
    let headers =
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(&format!("bearer {token}")).unwrap())]);
    access.identify(&headers, None).await.unwrap();
}
