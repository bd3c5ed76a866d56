//! OpenSSL as an issuer we did not write.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pilothouse_access::{Denial, Fault};
use pilothouse_test_support::requirement::Requirement;
use serde_json::{Value, json};

use crate::support::{Rig, claims, identify, part};

const OPENSSL: Requirement = Requirement::new("openssl", "openssl");

fn openssl(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("openssl").args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A token signed by a command that reads `message` and writes the signature to standard output.
fn signed(folder: &Path, header: &Value, sign: &[&str]) -> String {
    let message = format!("{}.{}", part(header), part(&claims()));
    std::fs::write(folder.join("message"), &message).unwrap();
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(openssl(folder, sign)))
}

#[tokio::test]
async fn tokens_signed_by_openssl_are_understood() {
    if OPENSSL.find().is_none() {
        return;
    }
    let mut rig = Rig::new();
    let folder = rig.folder.path().to_owned();
    openssl(
        &folder,
        &["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "rsa.pem"],
    );
    openssl(&folder, &["genpkey", "-algorithm", "ED25519", "-out", "ed.pem"]);
    let modulus =
        String::from_utf8(openssl(&folder, &["rsa", "-in", "rsa.pem", "-noout", "-modulus"])).unwrap();
    let hex = modulus.trim().strip_prefix("Modulus=").unwrap();
    let modulus: Vec<u8> =
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    // The last 32 bytes of the public key are the point.
    let point = openssl(&folder, &["pkey", "-in", "ed.pem", "-pubout", "-outform", "DER"]);
    let point = &point[point.len() - 32..];
    rig.publish(&[
        json!({"kty": "RSA", "kid": "rsa", "use": "sig", "n": URL_SAFE_NO_PAD.encode(&modulus), "e": "AQAB",
               "x5t": "ignored", "issuer": "https://else.test"}),
        json!({"kty": "OKP", "crv": "Ed25519", "kid": "ed", "alg": "EdDSA", "x": URL_SAFE_NO_PAD.encode(point)}),
        json!({"kty": "RSA", "kid": "for-encryption", "use": "enc", "n": URL_SAFE_NO_PAD.encode(&modulus), "e": "AQAB"}),
        json!({"kty": "from the future", "kid": "other"}),
    ]);
    let access = rig.access();
    let rsa = ["dgst", "-sha256", "-sign", "rsa.pem", "message"];
    let ed = ["pkeyutl", "-sign", "-rawin", "-inkey", "ed.pem", "-in", "message"];
    let good = signed(&folder, &json!({"alg": "RS256", "kid": "rsa"}), &rsa);
    assert_eq!(identify(&access, &good).await.unwrap().name(), "ada@team.test");
    identify(&access, &signed(&folder, &json!({"alg": "EdDSA", "kid": "ed"}), &ed)).await.unwrap();
    for (header, sign, expected) in [
        (json!({"alg": "RS256", "kid": "ed"}), &rsa[..], Fault::Signature),
        (json!({"alg": "EdDSA", "kid": "rsa"}), &ed[..], Fault::Signature),
        (json!({"alg": "RS384", "kid": "rsa"}), &rsa[..], Fault::Algorithm),
        (json!({"alg": "PS256", "kid": "rsa"}), &rsa[..], Fault::Algorithm),
        (json!({"alg": "RS256", "kid": "for-encryption"}), &rsa[..], Fault::UnknownKey),
    ] {
        let refused = identify(&access, &signed(&folder, &header, sign)).await.unwrap_err();
        assert_eq!(refused, Denial::Token(expected), "{header}");
    }
}
