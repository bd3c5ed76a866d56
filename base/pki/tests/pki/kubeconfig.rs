use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_pki::{Bundle, Credential, Identity, Kubeconfig};
use pilothouse_test_support::requirement::Requirement;
use serde_json::Value;

use crate::support::{authority, client_request, clock, output};

fn kubeconfig<'a>(authorities: &'a Bundle, credential: Credential<'a>) -> Kubeconfig<'a> {
    Kubeconfig {
        cluster: "first",
        user: "ada",
        context: "ada@first",
        server: "https://127.0.0.1:9443",
        tls_server_name: Some("api.first.pilothouse.test"),
        authorities,
        namespace: Some("default"),
        credential,
    }
}

fn made() -> (Bundle, Identity) {
    let (clock, _) = clock();
    let top = authority("region", &clock);
    (Bundle::from(top.certificate()), top.issue(&client_request(), &clock).unwrap())
}

#[test]
fn the_file_looks_as_kubectl_expects() {
    let (bundle, identity) = made();
    let text = kubeconfig(&bundle, Credential::Certificate(&identity)).to_yaml().unwrap();
    let text = text
        .replace(&STANDARD.encode(bundle.to_pem()), "<authorities>")
        .replace(&STANDARD.encode(identity.chain_pem()), "<chain>")
        .replace(&STANDARD.encode(identity.key().to_pem().as_bytes()), "<key>");
    insta::assert_snapshot!("client_certificate", text);
    let text = kubeconfig(&bundle, Credential::TokenFile("/run/token".into())).to_yaml().unwrap();
    insta::assert_snapshot!("token_file", text.replace(&STANDARD.encode(bundle.to_pem()), "<authorities>"));
    let text = kubeconfig(&bundle, Credential::Token("abcdef.0123456789abcdef")).to_yaml().unwrap();
    let read: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(read["users"][0]["user"]["token"], "abcdef.0123456789abcdef");
}

#[test]
fn the_text_is_yaml_whatever_the_names_contain() {
    let (bundle, identity) = made();
    for odd in ["yes", "0x10", "a: b", "- a", "#x", "1.5", "'", "\"", "null", "ada@first/админ"] {
        let config =
            Kubeconfig { context: odd, user: odd, ..kubeconfig(&bundle, Credential::Certificate(&identity)) };
        let read: Value = serde_saphyr::from_str(&config.to_yaml().unwrap()).unwrap();
        assert_eq!(read["current-context"], odd);
        assert_eq!(read["contexts"][0]["context"]["user"], odd);
        let key = read["users"][0]["user"]["client-key-data"].as_str().unwrap();
        assert_eq!(STANDARD.decode(key).unwrap(), identity.key().to_pem().as_bytes());
        assert_eq!(read["clusters"][0]["cluster"]["tls-server-name"], "api.first.pilothouse.test");
    }
}

#[test]
fn the_file_is_for_its_owner_and_kubectl_reads_it() {
    let (bundle, identity) = made();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    kubeconfig(&bundle, Credential::Certificate(&identity)).write(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let Some(kubectl) = Requirement::new("kubectl", "kubernetes-client").find() else { return };
    let (accepted, said) = output(
        Command::new(kubectl).args(["config", "view", "--raw", "-o", "json", "--kubeconfig"]).arg(&path),
    );
    assert!(accepted, "{said}");
    let seen: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(seen["current-context"], "ada@first");
    assert_eq!(seen["clusters"][0]["cluster"]["tls-server-name"], "api.first.pilothouse.test");
    assert_eq!(seen["contexts"][0]["context"]["namespace"], "default");
    let chain = seen["users"][0]["user"]["client-certificate-data"].as_str().unwrap();
    assert_eq!(STANDARD.decode(chain).unwrap(), identity.chain_pem().as_bytes());
}
