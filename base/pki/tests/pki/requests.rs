use pilothouse_pki::{
    AlternativeName, Error, Identity, KeyAlgorithm, LeafRequest, PrivateKey, SigningRequest, Subject,
};
use proptest::prelude::*;

use crate::support::{authority, clock, server_request, subject};

fn node() -> Subject {
    subject("system:node:worker-0").with_organizations(["system:nodes", "zone-a"]).unwrap()
}

#[test]
fn a_node_joins_with_a_key_that_never_leaves_it() {
    let (clock, _) = clock();
    let top = authority("cluster", &clock);
    for algorithm in [KeyAlgorithm::EcdsaP256, KeyAlgorithm::Rsa2048] {
        let key = PrivateKey::generate(algorithm).unwrap();
        let text = SigningRequest::write(&node(), ["worker-0".parse().unwrap()], &key).unwrap();
        let asked = SigningRequest::from_pem(text.as_bytes()).unwrap();
        assert_eq!(asked.subject(), &node());
        assert_eq!(asked.key_algorithm(), algorithm);
        assert!(asked.names().iter().eq(["worker-0".parse::<AlternativeName>().as_ref().unwrap()]));

        let chain = top.sign_request(&asked, &LeafRequest::client(node()), &clock).unwrap();
        let identity = Identity::from_signed(chain, key).unwrap();
        assert!(identity.certificate().is_signed_by(top.certificate()));
    }
}

#[test]
fn the_certificate_says_what_was_granted_not_what_was_asked() {
    let (clock, _) = clock();
    let top = authority("cluster", &clock);
    let key = PrivateKey::generate(KeyAlgorithm::default()).unwrap();
    let greedy = subject("mallory").with_organizations(["system:masters"]).unwrap();
    let text = SigningRequest::write(&greedy, ["kubernetes".parse().unwrap()], &key).unwrap();
    let asked = SigningRequest::from_pem(text.as_bytes()).unwrap();
    let chain = top.sign_request(&asked, &LeafRequest::client(node()), &clock).unwrap();
    assert_eq!(chain[0].subject(), &node());
    assert!(chain[0].names().is_empty());
}

#[test]
fn a_request_changed_on_the_way_is_refused() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let key = PrivateKey::generate(KeyAlgorithm::default()).unwrap();
    let text = SigningRequest::write(&node(), [], &key).unwrap();
    let body: String = text.lines().filter(|line| !line.starts_with("--")).collect();
    let mut der = STANDARD.decode(body).unwrap();
    let at = der.windows(8).position(|window| window == b"worker-0").unwrap();
    der[at + 7] = b'1';
    let text = format!(
        "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
        STANDARD.encode(der)
    );
    assert!(matches!(SigningRequest::from_pem(text.as_bytes()), Err(Error::UnprovenRequest)));
}

#[test]
fn an_answer_for_another_key_is_refused() {
    let (clock, _) = clock();
    let top = authority("cluster", &clock);
    let chain = vec![top.issue(&server_request(), &clock).unwrap().certificate().clone()];
    let key = PrivateKey::generate(KeyAlgorithm::default()).unwrap();
    assert!(matches!(Identity::from_signed(chain, key), Err(Error::KeyMismatch(_))));
}

fn label() -> impl Strategy<Value = String> {
    "[a-z]([-a-z0-9]{0,20}[a-z0-9])?"
}

fn name() -> impl Strategy<Value = AlternativeName> {
    prop_oneof![
        prop::collection::vec(label(), 1..5)
            .prop_map(|labels| AlternativeName::dns(labels.join(".")).unwrap()),
        any::<std::net::IpAddr>().prop_map(AlternativeName::from),
        (label(), "[!-~]{0,40}")
            .prop_map(|(scheme, rest)| AlternativeName::uri(format!("{scheme}:{rest}")).unwrap()),
    ]
}

fn subjects() -> impl Strategy<Value = Subject> {
    ("[^\\p{C}]{1,60}", prop::collection::vec("[^\\p{C}]{1,60}", 0..6)).prop_map(
        |(common_name, organizations)| subject(&common_name).with_organizations(organizations).unwrap(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Through the encoder, a foreign parser and back: what was put in comes out, in certificates and in requests.
    #[test]
    fn any_subject_and_names_survive_signing(subject in subjects(), names in prop::collection::btree_set(name(), 0..8)) {
        let (clock, _) = clock();
        let top = authority("region", &clock);
        let request = LeafRequest::server(subject.clone(), names.clone());
        let leaf = top.issue(&request, &clock).unwrap();
        prop_assert_eq!(leaf.certificate().subject(), &subject);
        prop_assert_eq!(leaf.certificate().names(), &names);

        let text = SigningRequest::write(&subject, names.clone(), leaf.key()).unwrap();
        let asked = SigningRequest::from_pem(text.as_bytes()).unwrap();
        prop_assert_eq!(asked.subject(), &subject);
        prop_assert_eq!(asked.names(), &names);
    }

    /// Whatever a peer sends, the answer is a request or an error.
    #[test]
    fn garbage_is_an_error_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        use base64::Engine as _;
        let body = base64::engine::general_purpose::STANDARD.encode(&bytes);
        for label in ["CERTIFICATE REQUEST", "CERTIFICATE", "PRIVATE KEY", "EC PRIVATE KEY"] {
            let text = format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
            prop_assert!(SigningRequest::from_pem(text.as_bytes()).is_err());
            prop_assert!(PrivateKey::from_pem(text.as_bytes()).is_err());
            prop_assert!(pilothouse_pki::Bundle::from_pem(text.as_bytes()).is_err());
        }
    }
}
