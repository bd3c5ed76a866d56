//! Requests for a credential that name the wrong user, or are none.

use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

use super::row::{Row, in_ready, post};

const USER: &str = "system:customer-break-glass:system-admin";
const ORGANISATION: &str = "system:masters";
const TARGET: &str = "certificateSigningRequest";

/// What has to be asked for.
pub(crate) fn right() -> Value {
    json!({ (TARGET): signing_request(USER, &[ORGANISATION]) })
}

pub(super) fn rows() -> Vec<Row> {
    let ask = |what: &str, body: &Value| post(what, &in_ready("requestAdminCredential"), body);
    let wrong = |what: &str, value: Value| ask(what, &json!({ (TARGET): value })).wrong(TARGET);
    let right = signing_request(USER, &[ORGANISATION]);
    let certificate = CertificateParams::default().self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    vec![
        ask("no request", &json!({})).wrong(TARGET),
        wrong("a request that is null", Value::Null),
        wrong("a request that is a number", json!(1)),
        wrong("an empty request", json!("")),
        wrong("a request that is a sentence", json!("let me in")),
        wrong("half a request", json!(right[..right.len() / 2])),
        wrong("a certificate instead of a request", json!(certificate)),
        wrong("a request whose signature is not its key's", json!(forged(&right))),
        wrong("a request of another user", json!(signing_request("somebody", &[ORGANISATION]))),
        wrong(
            "a request of a user in capitals",
            json!(signing_request(&USER.to_uppercase(), &[ORGANISATION])),
        ),
        wrong("a request of no user", json!(signing_request("", &[ORGANISATION]))),
        wrong("a request of another organisation", json!(signing_request(USER, &["system:nodes"]))),
        wrong("a request of no organisation", json!(signing_request(USER, &[]))),
        wrong(
            "a request of one organisation too many",
            json!(signing_request(USER, &[ORGANISATION, "system:nodes"])),
        ),
        ask("no body", &json!({})).raw("").wrong(TARGET),
        ask("a list of requests", &json!([])).is(400, "InvalidRequestContent"),
        ask("no request in the first version that needs one", &json!({}))
            .version("2026-09-01-preview")
            .wrong(TARGET),
    ]
}

fn signing_request(user: &str, organisations: &[&str]) -> String {
    let mut parameters = CertificateParams::default();
    if !user.is_empty() {
        parameters.distinguished_name.push(DnType::CommonName, user);
    }
    for organisation in organisations {
        parameters.distinguished_name.push(DnType::OrganizationName, *organisation);
    }
    parameters.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

/// The same with one bit of the signature, which comes last, turned round.
fn forged(request: &str) -> String {
    let mut lines: Vec<String> = request.lines().map(str::to_owned).collect();
    let last = lines.len() - 2;
    // The first letter of the last line of base64 is six whole bits, whatever the length of the line.
    let turned = if lines[last].starts_with('A') { 'B' } else { 'A' };
    lines[last].replace_range(0..1, &turned.to_string());
    lines.join("\n") + "\n"
}
