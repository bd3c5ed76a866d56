//! Config maps, secrets and limits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{ensure_object, fill, names, remove, text};
use crate::status::Cause;

/// All values of one object together.
const MOST_DATA: usize = 1024 * 1024;

/// A container that may have so much at most has so much unless it says otherwise.
pub(super) fn limit_defaults(object: &mut Value) {
    for item in super::items_mut(&mut object["spec"], "limits").filter(|item| item["type"] == "Container") {
        for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            let amounts = item[from].as_object().cloned().unwrap_or_default();
            for (name, amount) in amounts {
                ensure_object(&mut item[to]);
                fill(&mut item[to], &name, amount);
            }
        }
    }
}

pub(super) fn secret_defaults(object: &mut Value) {
    fill(object, "type", json!("Opaque"));
    // What is written in clear is stored encoded, and never given back in clear.
    if let Some(clear) = object["stringData"].as_object().cloned() {
        ensure_object(&mut object["data"]);
        for (key, value) in clear {
            object["data"][&key] = json!(STANDARD.encode(value.as_str().unwrap_or_default()));
        }
    }
    remove(object, "stringData");
}

pub(super) fn validate(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let secret = new["kind"] == "Secret";
    let mut size = 0;
    for section in ["data", "binaryData"] {
        for (key, value) in new[section].as_object().into_iter().flatten() {
            let path = format!("{section}[{key}]");
            if let Some(why) = names::data_key_problem(key) {
                causes.push(Cause::invalid(path.clone(), &json!(key), why));
            }
            match value.as_str() {
                Some(text) if (secret || section == "binaryData") && STANDARD.decode(text).is_err() => {
                    causes.push(Cause::new("FieldValueInvalid", "Invalid value: must be base64", path));
                }
                Some(text) => size += text.len(),
                None if value.is_null() => {}
                None => {
                    causes.push(Cause::new("FieldValueTypeInvalid", "Invalid value: must be a string", path))
                }
            }
        }
    }
    if let (Some(data), Some(binary)) = (new["data"].as_object(), new["binaryData"].as_object()) {
        for key in data.keys().filter(|key| binary.contains_key(*key)) {
            let why = "duplicate of key present in binaryData";
            causes.push(Cause::invalid(format!("data[{key}]"), &json!(key), why));
        }
    }
    // Secrets are measured decoded.
    let size = if secret { size / 4 * 3 } else { size };
    if size > MOST_DATA {
        causes.push(Cause::too_long(if secret { "data" } else { "" }, MOST_DATA as u64));
    }
    if secret && new["type"] == "kubernetes.io/tls" {
        for key in ["tls.crt", "tls.key"] {
            if new["data"].get(key).is_none() {
                causes.push(Cause::required(format!("data[{key}]"), ""));
            }
        }
    }
    match text(new, "/type") {
        "kubernetes.io/basic-auth"
            if secret && ["username", "password"].iter().all(|key| new["data"].get(key).is_none()) =>
        {
            causes.push(Cause::required("data[username]", ""));
            causes.push(Cause::required("data[password]", ""));
        }
        "kubernetes.io/ssh-auth" if secret && text(new, "/data/ssh-privatekey").is_empty() => {
            causes.push(Cause::required("data[ssh-privatekey]", ""));
        }
        "kubernetes.io/dockerconfigjson" if secret => docker(new, ".dockerconfigjson", &mut causes),
        "kubernetes.io/dockercfg" if secret => docker(new, ".dockercfg", &mut causes),
        _ => {}
    }
    if let Some(old) = old {
        unchanged(old, new, secret, &mut causes);
    }
    causes
}

/// Credentials for registries are JSON. What they are instead is not shown.
fn docker(secret: &Value, key: &str, causes: &mut Vec<Cause>) {
    let path = format!("data[{key}]");
    let Some(text) = secret["data"][key].as_str() else {
        causes.push(Cause::required(path, ""));
        return;
    };
    let content = STANDARD.decode(text).unwrap_or_default();
    if serde_json::from_slice::<serde::de::IgnoredAny>(&content).is_err() {
        let why = match String::from_utf8_lossy(&content).trim_start().chars().next() {
            Some(first) => format!("invalid character '{first}' looking for beginning of value"),
            None => "unexpected end of JSON input".to_owned(),
        };
        causes.push(Cause::invalid(path, &json!("<secret contents redacted>"), why));
    }
}

fn unchanged(old: &Value, new: &Value, secret: bool, causes: &mut Vec<Cause>) {
    if secret && text(old, "/type") != text(new, "/type") {
        causes.push(Cause::invalid("type", &new["type"], "field is immutable"));
    }
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        causes.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for section in ["data", "binaryData"] {
        if old[section] != new[section] {
            causes.push(Cause::forbidden(section, "field is immutable when `immutable` is set"));
        }
    }
}
