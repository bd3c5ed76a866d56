use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use pilothouse_pki::{AuthorityRequest, KeyAlgorithm, PrivateKey, SigningRequest, Subject};
use pilothouse_runtime::Clock;
use rstest::rstest;
use serde_json::json;

use super::request::{self, Step};
use super::*;

fn asked(user: &str, groups: &[&str], usages: &[&str], seconds: Option<i32>) -> CertificateSigningRequest {
    let key = PrivateKey::generate(KeyAlgorithm::default()).unwrap();
    let subject = Subject::try_new(user).unwrap().with_organizations(groups.iter().copied()).unwrap();
    let request = SigningRequest::write(&subject, [], &key).unwrap();
    CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            request: ByteString(request.into_bytes()),
            usages: Some(usages.iter().map(|usage| (*usage).to_owned()).collect()),
            expiration_seconds: seconds,
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    }
}

#[rstest]
#[case("system:customer-break-glass:ada", &["system:masters"], &["client auth"], None)]
#[case("system:admin", &["system:masters"], &["client auth"], Some("common name"))]
#[case("system:customer-break-glass:", &["system:masters"], &["client auth"], Some("common name"))]
#[case("system:customer-break-glass:ada", &[], &["client auth"], Some("organizations"))]
#[case("system:customer-break-glass:ada", &["system:masters", "system:nodes"], &["client auth"], Some("organizations"))]
#[case("system:customer-break-glass:ada", &["system:masters"], &["server auth"], Some("usages"))]
#[case("system:customer-break-glass:ada", &["system:masters"], &["client auth", "server auth"], Some("usages"))]
#[case("system:customer-break-glass:ada", &["system:masters"], &[], Some("usages"))]
fn only_administrators_for_a_day_are_signed_for(
    #[case] user: &str,
    #[case] groups: &[&str],
    #[case] usages: &[&str],
    #[case] refused_for: Option<&str>,
) {
    match (request::next(&asked(user, groups, usages, None)), refused_for) {
        (Step::Grant { approved: false, .. }, None) => {}
        (Step::Deny(why), Some(word)) => assert!(why.contains(word), "{why}"),
        (step, expected) => panic!("{step:?}, not {expected:?}"),
    }
}

#[test]
fn an_answer_stands() {
    let mut request = asked("system:customer-break-glass:ada", &["system:masters"], &["client auth"], None);
    let with = |status| serde_json::from_value(status).unwrap();
    request.status = with(json!({ "conditions": [{ "type": "Approved", "status": "True" }] }));
    assert!(matches!(request::next(&request), Step::Grant { approved: true, .. }));
    request.status = with(json!({ "conditions": [{ "type": "Denied", "status": "True" }] }));
    assert!(matches!(request::next(&request), Step::Answered));
    request.status = with(json!({ "certificate": "Y2VydGlmaWNhdGU=" }));
    assert!(matches!(request::next(&request), Step::Answered));
}

#[rstest]
#[case(None, 24 * 60)]
#[case(Some(60 * 60), 60)]
#[case(Some(7 * 24 * 60 * 60), 24 * 60)]
#[case(Some(1), 10)]
fn nobody_is_let_in_for_more_than_a_day(#[case] seconds: Option<i32>, #[case] minutes: i64) {
    let clock = Clock::system();
    let request = asked("system:customer-break-glass:ada", &["system:masters"], &["client auth"], seconds);
    let Step::Grant { asked, granted, .. } = request::next(&request) else { panic!("not granted") };
    let subject = Subject::try_new("signer").unwrap();
    let authority = Authority::self_signed(&AuthorityRequest::new(subject), &clock).unwrap();
    let signed = authority.sign_request(&asked, &granted, &clock).unwrap();
    let left = signed[0].not_after().duration_since(clock.now()).as_mins();
    assert!((minutes - 1..=minutes).contains(&left), "{left}");
    assert_eq!(signed[0].subject().organizations(), ["system:masters"]);
}

#[test]
fn a_signer_is_replaced_once_for_a_revocation_and_is_kept_to_be_refused() {
    let clock = Clock::system();
    let subject = Subject::try_new("signer").unwrap();
    let old = Authority::self_signed(&AuthorityRequest::new(subject), &clock).unwrap();
    let pem = |authority: &Authority| {
        let key = authority.identity().key().to_pem().as_bytes().to_vec();
        [(AUTHORITY_CERTIFICATE, authority.identity().chain_pem().into_bytes()), (AUTHORITY_KEY, key)]
    };
    let stored = crate::secrets::secret(Default::default(), "Opaque", pem(&old));
    assert!(replaces(&stored, "first"));
    assert!(revoked(&stored).unwrap().is_none());

    let change = retired(&stored, "first", json!({})).unwrap();
    let mut document = serde_json::to_value(&stored).unwrap();
    json_patch::merge(&mut document["data"], &change);
    let stored: Secret = serde_json::from_value(document).unwrap();
    assert!(!replaces(&stored, "first"), "the same revocation again");
    assert!(replaces(&stored, "second"), "another one");
    let kept = revoked(&stored).unwrap().expect("it is kept");
    assert_eq!(kept.certificate().fingerprint(), old.certificate().fingerprint());
}
