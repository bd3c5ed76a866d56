use k8s_openapi::api::certificates::v1::{CertificateSigningRequestSpec, CertificateSigningRequestStatus};
use kube::api::ObjectMeta;
use pilothouse_pki::{AuthorityRequest, KeyAlgorithm, PrivateKey, Subject, Usage};
use serde_json::json;

use super::*;

const NODE: &str = "system:node:one";

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

/// A request of `user` for this subject.
fn request(
    signer: &str,
    user: &str,
    subject: (&str, &[&str]),
    names: &[&str],
    usages: &[&str],
) -> CertificateSigningRequest {
    let key = PrivateKey::generate(KeyAlgorithm::default()).unwrap();
    let (name, organizations) = subject;
    let subject = Subject::try_new(name).unwrap().with_organizations(organizations.iter().copied()).unwrap();
    let names = names.iter().map(|name| name.parse().unwrap());
    let pem = SigningRequest::write(&subject, names, &key).unwrap();
    CertificateSigningRequest {
        metadata: ObjectMeta {
            name: Some("csr".to_owned()),
            creation_timestamp: Some(Time(now())),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: signer.to_owned(),
            usages: Some(usages.iter().map(|usage| (*usage).to_owned()).collect()),
            username: Some(user.to_owned()),
            groups: Some(vec!["system:nodes".to_owned()]),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    }
}

fn of_client(user: &str) -> CertificateSigningRequest {
    request(check::NODE_CLIENT, user, (NODE, &["system:nodes"]), &[], &["digital signature", "client auth"])
}

fn of_server(names: &[&str]) -> CertificateSigningRequest {
    let usages = &["digital signature", "server auth"];
    request(check::NODE_SERVING, NODE, (NODE, &["system:nodes"]), names, usages)
}

fn said(mut request: CertificateSigningRequest, kind: &str, at: Timestamp) -> CertificateSigningRequest {
    let condition = CertificateSigningRequestCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        last_update_time: Some(Time(at)),
        ..CertificateSigningRequestCondition::default()
    };
    let conditions = Some(vec![condition]);
    request.status = Some(CertificateSigningRequestStatus { conditions, ..Default::default() });
    request
}

fn node(name: &str, addresses: &[(&str, &str)]) -> Arc<Node> {
    let addresses: Vec<_> =
        addresses.iter().map(|(kind, address)| json!({ "type": kind, "address": address })).collect();
    let node = json!({ "metadata": { "name": name }, "status": { "addresses": addresses } });
    Arc::new(serde_json::from_value(node).unwrap())
}

fn planned(request: &CertificateSigningRequest, nodes: &[Arc<Node>]) -> Plan {
    plan(request, nodes, true, now())
}

#[test]
fn who_asks_decides_which_permission_is_asked_for() {
    let which = |request: &CertificateSigningRequest| match planned(request, &[]) {
        Plan::Ask(permissions) => permissions.into_iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    };
    assert_eq!(which(&of_client("system:bootstrap:abcdef")), ["nodeclient"]);
    assert_eq!(which(&of_client(NODE)), ["selfnodeclient", "nodeclient"]);
    // What the signer would refuse is not approved either.
    let usages = &["digital signature", "server auth"];
    let odd = request(check::NODE_CLIENT, NODE, (NODE, &["system:nodes"]), &[], usages);
    assert!(which(&odd).is_empty());
    assert!(which(&said(of_client(NODE), DENIED, now())).is_empty());
}

#[test]
fn serving_certificate_is_approved_for_the_addresses_of_the_node_that_asks() {
    let own = node("one", &[("InternalIP", "10.0.0.1"), ("Hostname", "one")]);
    let asked = of_server(&["10.0.0.1", "one"]);
    let pending = Plan::Keep(now().checked_add(UNANSWERED).ok());
    assert!(matches!(planned(&asked, std::slice::from_ref(&own)), Plan::Approve(_)));
    assert_eq!(plan(&asked, std::slice::from_ref(&own), false, now()), pending, "switched off");
    assert_eq!(planned(&asked, &[]), pending, "no such node yet");
    assert_eq!(planned(&of_server(&["10.0.0.1", "two"]), std::slice::from_ref(&own)), pending);
    let other = node("two", &[("InternalIP", "10.0.0.1")]);
    assert_eq!(planned(&asked, &[own.clone(), other]), pending, "two nodes say they are there");
    let mut stranger = of_server(&["10.0.0.1"]);
    stranger.spec.username = Some("system:node:two".to_owned());
    assert_eq!(planned(&stranger, std::slice::from_ref(&own)), pending, "for somebody else");
    let mut user = of_server(&["10.0.0.1"]);
    user.spec.groups = Some(vec!["system:authenticated".to_owned()]);
    assert_eq!(planned(&user, &[own]), pending, "not a node");
}

#[test]
fn signer_signs_what_its_name_allows_and_says_why_it_does_not() {
    let nodes: &[&str] = &["system:nodes"];
    let (sign, encipher) = ("digital signature", "key encipherment");
    let table = [
        (check::NODE_CLIENT, (NODE, nodes), &[][..], &[sign, "client auth"][..], None),
        (check::NODE_CLIENT, (NODE, nodes), &[], &[sign, encipher, "client auth"], None),
        (
            check::NODE_CLIENT,
            (NODE, nodes),
            &[],
            &["client auth"],
            Some("usages did not match [client auth digital signature key encipherment]"),
        ),
        (
            check::NODE_CLIENT,
            (NODE, &["system:nodes", "system:masters"]),
            &[],
            &[sign, "client auth"],
            Some("subject organization is not system:nodes"),
        ),
        (
            check::NODE_CLIENT,
            (NODE, nodes),
            &["10.0.0.1"],
            &[sign, "client auth"],
            Some("IP subjectAltNames are not allowed"),
        ),
        (
            check::NODE_CLIENT,
            ("one", nodes),
            &[],
            &[sign, "client auth"],
            Some("subject common name does not begin with system:node: "),
        ),
        (check::NODE_SERVING, (NODE, nodes), &["one"], &[sign, encipher, "server auth"], None),
        (
            check::NODE_SERVING,
            (NODE, nodes),
            &[],
            &[sign, "server auth"],
            Some("DNS or IP subjectAltName is required"),
        ),
        (
            check::NODE_SERVING,
            (NODE, nodes),
            &["one", "spiffe://one"],
            &[sign, "server auth"],
            Some("URI subjectAltNames are not allowed"),
        ),
        (
            check::NODE_SERVING,
            (NODE, nodes),
            &["one"],
            &[sign, "server auth", "client auth"],
            Some("usages did not match [digital signature key encipherment server auth]"),
        ),
        (check::CLIENT, ("ada", &["developers"]), &[], &["client auth"], None),
        (
            check::CLIENT,
            ("ada", &[]),
            &[],
            &[sign],
            Some("missing required usage for client certificate: client auth"),
        ),
        (
            check::CLIENT,
            ("ada", &[]),
            &[],
            &["client auth", "server auth"],
            Some("invalid usage for client certificate: server auth"),
        ),
    ];
    for (signer, subject, names, usages, problem) in table {
        let approved = said(request(signer, "somebody", subject, names, usages), APPROVED, now());
        let expected = problem.map_or(Plan::Sign, |problem| Plan::Fail(problem.to_owned()));
        assert_eq!(planned(&approved, &[]), expected, "{signer} {subject:?} {names:?} {usages:?}");
    }
    let elsewhere = request("example.com/signer", "ada", ("ada", &[]), &[], &["client auth"]);
    assert_eq!(planned(&said(elsewhere, APPROVED, now()), &[]), Plan::Keep(None), "somebody else's");
}

#[test]
fn certificate_says_what_was_asked_for_and_lives_no_longer_than_allowed() {
    let (clock, _) = Clock::manual(now());
    let authority =
        Authority::self_signed(&AuthorityRequest::new(Subject::try_new("cluster").unwrap()), &clock).unwrap();
    let year = Duration::from_secs(365 * 24 * 3600);
    let signed = |mut request: CertificateSigningRequest, seconds: Option<i32>| {
        request.spec.expiration_seconds = seconds;
        let asked = SigningRequest::from_pem(&request.spec.request.0).unwrap();
        authority.sign_request(&asked, &granted(&request, &asked, year), &clock).unwrap().swap_remove(0)
    };
    let life = |seconds| {
        let certificate = signed(of_client(NODE), seconds);
        certificate.not_after().duration_since(now()).as_secs()
    };
    assert_eq!(life(None), 365 * 24 * 3600);
    assert_eq!(life(Some(3600)), 3600);
    assert_eq!(life(Some(1)), 600);
    assert_eq!(life(Some(i32::MAX)), 365 * 24 * 3600);

    let client = signed(of_client(NODE), None);
    assert_eq!(client.subject().to_string(), "CN=system:node:one, O=system:nodes");
    assert_eq!(client.usages().iter().collect::<Vec<_>>(), [&Usage::Client]);
    let server = signed(of_server(&["10.0.0.1", "one"]), None);
    let names: Vec<_> = server.names().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["one", "10.0.0.1"]);
    assert_eq!(server.usages().iter().collect::<Vec<_>>(), [&Usage::Server]);
}

#[test]
fn requests_go_an_hour_after_their_answer_and_a_day_without_one() {
    let later = |hours| now() + SignedDuration::from_hours(hours);
    let at = |request: &CertificateSigningRequest, moment| plan(request, &[], true, moment);
    let pending = request("example.com/signer", "ada", ("ada", &[]), &[], &["client auth"]);
    assert_eq!(at(&pending, later(23)), Plan::Keep(Some(later(24))));
    assert_eq!(at(&pending, later(24)), Plan::Delete);
    for kind in [DENIED, FAILED] {
        let answered = said(pending.clone(), kind, now());
        assert_eq!(at(&answered, now()), Plan::Keep(Some(later(1))), "{kind}");
        assert_eq!(at(&answered, later(1)), Plan::Delete, "{kind}");
    }
    // Approved and not signed is not yet answered.
    let mut approved = said(pending, APPROVED, now());
    assert_eq!(at(&approved, later(48)), Plan::Keep(None));
    approved.status.as_mut().unwrap().certificate = Some(ByteString(b"anything".to_vec()));
    assert_eq!(at(&approved, later(1)), Plan::Delete);
}
