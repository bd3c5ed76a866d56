use std::error::Error as _;

use pilothouse_pki::{Authority, Bundle, Credential, Identity, Kubeconfig};

use crate::support::{authority, client_request, clock};

/// No line of a key may appear in anything that is printed for people.
#[test]
fn nothing_that_is_printed_contains_a_key() {
    let (clock, _) = clock();
    let top = authority("region", &clock);
    let leaf = top.issue(&client_request(), &clock).unwrap();
    let bundle = Bundle::from(top.certificate());
    let kubeconfig = Kubeconfig {
        cluster: "a",
        user: "b",
        context: "c",
        server: "https://127.0.0.1:6443",
        tls_server_name: None,
        authorities: &bundle,
        namespace: None,
        credential: Credential::Certificate(&leaf),
    };
    let key = leaf.key().to_pem();
    let broken_key = key.replace("-----END", "-----FIN");
    let broken = Identity::from_pem(leaf.chain_pem().as_bytes(), broken_key.as_bytes()).unwrap_err();
    let mismatch = Authority::from_pem(top.identity().chain_pem().as_bytes(), key.as_bytes()).unwrap_err();
    let printed = [
        format!("{:?} {:#?}", leaf.key(), leaf.key()),
        format!("{leaf:?} {leaf:#?}"),
        format!("{top:?}"),
        format!("{kubeconfig:?}"),
        format!("{broken} {broken:?} {:?}", broken.source()),
        format!("{mismatch} {mismatch:?}"),
    ];
    for secret in [leaf.key().to_pem(), top.identity().key().to_pem()] {
        for line in secret.lines().filter(|line| !line.starts_with("--")) {
            for text in &printed {
                assert!(!text.contains(line), "a key shows in: {text}");
            }
        }
    }
    assert_eq!(printed[0].lines().next().unwrap(), "PrivateKey { algorithm: EcdsaP256, .. } PrivateKey {");
}
