//! OpenSSL as a reader we did not write.

use std::path::{Path, PathBuf};
use std::process::Command;

use pilothouse_pki::{Authority, AuthorityRequest, Bundle, Identity, KeyAlgorithm, SigningRequest};
use pilothouse_test_support::requirement::Requirement;

use crate::support::{authority, client_request, clock, output, server_request, subject};

const OPENSSL: Requirement = Requirement::new("openssl", "openssl");

fn file(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn openssl(arguments: &[&str]) -> (bool, String) {
    output(Command::new("openssl").args(arguments))
}

#[test]
fn openssl_reads_every_field() {
    if OPENSSL.find().is_none() {
        return;
    }
    let (clock, _) = clock();
    let directory = tempfile::tempdir().unwrap();
    let top = authority("region", &clock);
    let server = top.issue(&server_request(), &clock).unwrap();
    let client = top.issue(&client_request(), &clock).unwrap();
    let text = |identity: &Identity| {
        let path = file(directory.path(), "leaf.pem", &identity.chain_pem());
        openssl(&["x509", "-noout", "-text", "-in", path.to_str().unwrap()]).1
    };
    let seen = text(&server);
    for part in [
        "Version: 3",
        "Issuer: CN = region",
        "Subject: CN = frontend",
        "Not Before: Mar  1 11:55:00 2026 GMT",
        "Not After : Mar  8 12:00:00 2026 GMT",
        "DNS:api.first.pilothouse.test, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1, \
         URI:spiffe://region/frontend",
        "TLS Web Server Authentication",
        "Digital Signature",
        "X509v3 Subject Key Identifier",
        "X509v3 Authority Key Identifier",
        "CA:FALSE",
    ] {
        assert!(seen.contains(part), "no `{part}` in {seen}");
    }
    assert!(!seen.contains("Subject Alternative Name: critical"), "{seen}");
    let seen = text(&client);
    assert!(seen.contains("Subject: O = system:masters, O = ops, O = dev, CN = ada"), "{seen}");
    let seen = text(top.identity());
    assert!(seen.contains("CA:TRUE, pathlen:0") && seen.contains("Certificate Sign, CRL Sign"), "{seen}");
}

#[test]
fn openssl_verifies_chains_and_refuses_strangers_and_late_comers() {
    if OPENSSL.find().is_none() {
        return;
    }
    let (clock, _) = clock();
    let directory = tempfile::tempdir().unwrap();
    let request = AuthorityRequest::new(subject("top")).with_path_length(Some(1));
    let top = Authority::self_signed(&request, &clock).unwrap();
    let request = AuthorityRequest::new(subject("middle")).with_key_algorithm(KeyAlgorithm::Rsa2048);
    let middle = top.intermediate(&request, &clock).unwrap();
    let leaf = middle.issue(&server_request(), &clock).unwrap();
    let top_file = file(directory.path(), "top.pem", &Bundle::from(top.certificate()).to_pem());
    let stranger = authority("top", &clock);
    let stranger_file = file(directory.path(), "stranger.pem", &stranger.identity().chain_pem());
    let middle_file = file(directory.path(), "middle.pem", &middle.certificate().to_pem());
    let leaf_file = file(directory.path(), "leaf.pem", &leaf.certificate().to_pem());
    let verify = |trusted: &Path, seconds: i64, name: &str| {
        let at = (clock.now().as_second() + seconds).to_string();
        openssl(&[
            "verify",
            "-x509_strict",
            "-purpose",
            "sslserver",
            "-attime",
            &at,
            "-verify_hostname",
            name,
            "-CAfile",
            trusted.to_str().unwrap(),
            "-untrusted",
            middle_file.to_str().unwrap(),
            leaf_file.to_str().unwrap(),
        ])
    };
    let name = "api.first.pilothouse.test";
    let (accepted, said) = verify(&top_file, 0, name);
    assert!(accepted, "{said}");
    assert!(!verify(&stranger_file, 0, name).0);
    assert!(!verify(&top_file, 0, "other.test").0);
    let (accepted, said) = verify(&top_file, 8 * 86_400, name);
    assert!(!accepted && said.contains("expired"), "{said}");
}

/// An authority made with another tool, with attributes we never write, a PKCS#1 key and no path length.
#[test]
fn an_authority_made_by_openssl_can_be_brought_along() {
    if OPENSSL.find().is_none() {
        return;
    }
    let clock = pilothouse_runtime::Clock::system();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key, older) = (path("ca.pem"), path("ca.key"), path("ca.older.key"));
    let (made, said) = openssl(&[
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "30",
        "-keyout",
        &key,
        "-out",
        &certificate,
        "-subj",
        "/DC=test/DC=example/O=Example/OU=One/OU=Two/CN=Example Root",
        "-multivalue-rdn",
    ]);
    assert!(made, "{said}");
    let (made, said) = openssl(&["rsa", "-traditional", "-in", &key, "-out", &older]);
    assert!(made, "{said}");
    let text = std::fs::read(&older).unwrap();
    assert!(text.starts_with(b"-----BEGIN RSA PRIVATE KEY"));
    let top = Authority::from_pem(&std::fs::read(&certificate).unwrap(), &text).unwrap();
    let leaf = top.issue(&server_request(), &clock).unwrap();
    let leaf_file = file(directory.path(), "leaf.pem", &leaf.chain_pem());
    let (accepted, said) = openssl(&["verify", "-CAfile", &certificate, leaf_file.to_str().unwrap()]);
    assert!(accepted, "{said}");
    assert!(leaf.certificate().is_signed_by(top.certificate()));
}

#[test]
fn signing_requests_go_both_ways() {
    if OPENSSL.find().is_none() {
        return;
    }
    let (clock, _) = clock();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (made, said) = openssl(&[
        "req",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        &path("key"),
        "-out",
        &path("theirs.csr"),
        "-subj",
        "/O=system:nodes/CN=system:node:worker-0",
        "-addext",
        "subjectAltName=DNS:worker-0,IP:10.0.0.7",
    ]);
    assert!(made, "{said}");
    let theirs = SigningRequest::from_pem(&std::fs::read(path("theirs.csr")).unwrap()).unwrap();
    assert_eq!(theirs.subject().to_string(), "CN=system:node:worker-0, O=system:nodes");
    assert_eq!(theirs.names().len(), 2);

    let leaf = authority("region", &clock).issue(&client_request(), &clock).unwrap();
    let ours = SigningRequest::write(client_request().subject(), [], leaf.key()).unwrap();
    let ours = file(directory.path(), "ours.csr", &ours);
    let (accepted, said) = openssl(&["req", "-verify", "-noout", "-subject", "-in", ours.to_str().unwrap()]);
    assert!(accepted && said.contains("O = system:masters, O = ops, O = dev, CN = ada"), "{said}");
    let key = file(directory.path(), "ours.key", &leaf.key().to_pem());
    let (accepted, said) = openssl(&["pkey", "-check", "-noout", "-in", key.to_str().unwrap()]);
    assert!(accepted, "{said}");
}
