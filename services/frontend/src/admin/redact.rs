//! A stored document without what must not be shown.
//!
//! Records hold no secrets by design. This is the second line: a field that is added tomorrow under a telling name, or a
//! private key wherever it ended up, is not shown either.

use serde_json::Value;

const HIDDEN: &str = "(not shown)";

/// Parts of names under which secrets are kept.
const TELLING: [&str; 6] = ["secret", "password", "kubeconfig", "privatekey", "accesskey", "bearertoken"];

/// Hides secrets, in place.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name: String = name.chars().filter(|letter| letter.is_alphanumeric()).collect();
                let name = name.to_lowercase();
                if !member.is_null() && TELLING.iter().any(|telling| name.contains(telling)) {
                    *member = HIDDEN.into();
                } else {
                    redact(member);
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(redact),
        Value::String(text) if text.contains("PRIVATE KEY-----") => *value = HIDDEN.into(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_hidden_wherever_it_is() {
        let mut document = json!({
            "name": "first", "clientSecret": "s", "pull_secret": {"auths": {}}, "kubeconfig": null,
            "list": [{"adminPassword": "p", "issuer": "https://here"}],
            "note": "-----BEGIN EC PRIVATE KEY-----\nMHc",
            "certificate": "-----BEGIN CERTIFICATE-----\nMII",
        });
        redact(&mut document);
        assert_eq!(
            document,
            json!({
                "name": "first", "clientSecret": HIDDEN, "pull_secret": HIDDEN, "kubeconfig": null,
                "list": [{"adminPassword": HIDDEN, "issuer": "https://here"}],
                "note": HIDDEN,
                "certificate": "-----BEGIN CERTIFICATE-----\nMII",
            })
        );
    }
}
