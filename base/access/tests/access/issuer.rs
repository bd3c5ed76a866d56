use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use pilothouse_access::{Access, Denial, Fault, LocalIssuer, LocalRole, TokenRequest};
use pilothouse_runtime::Clock;
use prometheus_client::registry::Registry;
use secrecy::ExposeSecret as _;

use crate::support::{NOW, TENANT, identify};

fn request() -> TokenRequest {
    TokenRequest {
        name: Some("ada".into()),
        tenant: Some(TENANT.parse().unwrap()),
        app_id: None,
        role: None,
        lifetime: Duration::from_secs(60),
    }
}

#[tokio::test]
async fn tokens_of_the_local_issuer_are_good_where_it_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("issuer");
    let issuer = LocalIssuer::open(&place).unwrap();
    let (clock, time) = Clock::manual(jiff::Timestamp::from_second(NOW).unwrap());
    let access = Access::build(issuer.config(), clock.clone(), &mut Registry::default()).unwrap();
    let bearer = async |request: &TokenRequest| {
        identify(&access, issuer.issue(request, clock.now()).unwrap().expose_secret()).await
    };
    let ada = bearer(&request()).await.unwrap();
    assert_eq!((ada.name(), ada.tenant_id()), ("ada", Some(TENANT)));
    assert!(!ada.is_arm() && !ada.is_administrator());
    assert_eq!(
        bearer(&request()).await.unwrap().object_id(),
        ada.object_id(),
        "the same caller, the same id"
    );
    let arm = bearer(&TokenRequest { role: Some(LocalRole::Arm), ..request() }).await.unwrap();
    assert!(arm.is_arm() && !arm.is_administrator());
    assert_ne!(arm.app_id(), ada.app_id());
    let administrator =
        bearer(&TokenRequest { role: Some(LocalRole::Administrator), ..request() }).await.unwrap();
    assert!(administrator.is_administrator() && !administrator.is_arm());
    let program = TokenRequest { name: None, app_id: Some("nightly".into()), ..request() };
    assert_eq!(bearer(&program).await.unwrap().name(), "nightly");

    let token = issuer.issue(&request(), clock.now()).unwrap();
    time.advance(Duration::from_secs(120));
    let refused = identify(&access, token.expose_secret()).await.unwrap_err();
    assert_eq!(refused, Denial::Token(Fault::Expired));

    // The key is kept, and kept to oneself.
    let again = LocalIssuer::open(&place).unwrap();
    identify(&access, again.issue(&request(), clock.now()).unwrap().expose_secret()).await.unwrap();
    let mode = |name: &str| place.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("key.pem"), mode("keys.json")), (0o600, 0o644));
    let published = std::fs::read_to_string(again.keys_file()).unwrap();
    let private = std::fs::read_to_string(place.join("key.pem")).unwrap();
    assert!(!published.contains("\"d\"") && private.contains("PRIVATE KEY"));
    assert!(!format!("{again:?}{token:?}").contains(token.expose_secret()));

    // Another issuer of the same name is another issuer.
    let other = LocalIssuer::open(&folder.path().join("other")).unwrap();
    let foreign = other.issue(&request(), clock.now()).unwrap();
    let refused = identify(&access, foreign.expose_secret()).await.unwrap_err();
    assert_eq!(refused, Denial::Token(Fault::UnknownKey));
}
