use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;
use pilothouse_pki::{KeyAlgorithm, PrivateKey, Subject};
use rstest::rstest;

use super::*;

fn request(user: &str, names: &[&str]) -> CertificateSigningRequest {
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
    let subject = Subject::try_new("system:node:w1").unwrap().with_organizations([NODES]).unwrap();
    let names = names.iter().map(|name| name.parse().unwrap());
    let text = SigningRequest::write(&subject, names, &key).unwrap();
    CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            request: ByteString(text.into_bytes()),
            signer_name: KUBELET_SERVING.to_owned(),
            username: Some(user.to_owned()),
            groups: Some(vec![NODES.to_owned()]),
            usages: Some(vec!["digital signature".to_owned(), "server auth".to_owned()]),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    }
}

#[rstest]
#[case(&["w1", "10.200.0.7"], true)]
#[case(&["10.200.0.7"], true)]
#[case(&["w2", "10.200.0.7"], false)]
#[case(&["w1", "10.200.0.8"], false)]
#[case(&["w1", "10.200.0.7", "10.200.0.8"], false)]
fn a_node_gets_its_own_name_and_address_and_no_other(#[case] names: &[&str], #[case] own: bool) {
    let address = Some("10.200.0.7".parse().unwrap());
    let request = request("system:node:w1", names);
    assert_eq!(is_its_own(&request, "w1", address), own);
    assert!(!is_its_own(&request, "w2", address), "it is another node's");
    assert!(!is_its_own(&request, "w1", None) || names.is_empty(), "nobody knows where it is");
}

#[test]
fn only_what_shows_visitors_who_the_node_is_is_approved() {
    let address = Some("10.200.0.7".parse().unwrap());
    let changed = |change: &dyn Fn(&mut CertificateSigningRequestSpec)| {
        let mut request = request("system:node:w1", &["w1"]);
        change(&mut request.spec);
        is_its_own(&request, "w1", address)
    };
    assert!(changed(&|_| {}));
    assert!(!changed(&|spec| spec.groups = Some(vec!["system:authenticated".to_owned()])));
    assert!(!changed(&|spec| spec.usages = Some(vec!["server auth".to_owned(), "client auth".to_owned()])));
    assert!(!changed(&|spec| spec.signer_name = "kubernetes.io/kube-apiserver-client".to_owned()));
    assert!(!changed(&|spec| spec.request = ByteString(b"none".to_vec())));
}

#[rstest]
#[case("hypershift.openshift.io/nodePool", false)]
#[case("zone", false)]
#[case("node.kubernetes.io/instance-type", false)]
#[case("node-role.kubernetes.io/worker", true)]
#[case("kubernetes.io/anything", true)]
#[case("notkubernetes.io/anything", false)]
fn labels_that_attract_pods_are_not_the_nodes_own_choice(#[case] label: &str, #[case] reserved: bool) {
    assert_eq!(is_reserved(label), reserved);
}
