//! What is said about a body that is no object of the right kind. People search for these words.

use serde_json::{Map, Value};

use crate::catalogue::{Catalogue, Resource};
use crate::status::Failure;

/// More of a body is not quoted.
const LONGEST: usize = 1024;

/// A body in which not even a kind can be found.
pub(super) fn unrecognized(resource: &Resource, body: &[u8], why: &str) -> Failure {
    let kind = &resource.kind;
    Failure::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why} ({})",
        summary(body)
    ))
}

/// What the parser found wrong.
pub(super) fn in_words(error: &serde_json::Error) -> String {
    if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() }
}

pub(super) fn no_object(value: &Value) -> String {
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) | Value::Object(_) => "array",
    };
    format!(
        "json: cannot unmarshal {given} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

/// An object of another kind: one that there is, or one that nobody knows.
pub(super) fn another_kind(known: &Catalogue, resource: &Resource, object: &Map<String, Value>) -> Failure {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let expected = &resource.kind;
    let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
    let there_is = known.resources().any(|one| one.kind == kind && one.api_version() == api_version);
    let why = match there_is {
        true => {
            let group = resource.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
            format!("converting ({version}.{kind}) to ({group}.{expected}): unknown conversion")
        }
        false => format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:110\""
        ),
    };
    Failure::bad_request(format!("{kind} in version {version:?} cannot be handled as a {expected}: {why}"))
}

fn summary(body: &[u8]) -> String {
    let start = &body[..body.len().min(LONGEST)];
    let more = if body.len() > LONGEST { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => {
            let digits: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{digits}{more}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalogue::built_in;

    #[test]
    fn a_body_of_another_kind_is_named_with_its_reason() {
        let (known, maps) = (Catalogue::built_in(34), built_in("", "configmaps"));
        for (object, expected) in [
            (
                json!({ "apiVersion": "v1", "kind": "Secret" }),
                "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
            ),
            (
                json!({ "apiVersion": "x/v2", "kind": "ConfigMap" }),
                "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"x/v2\" in scheme \"pkg/runtime/scheme.go:110\"",
            ),
        ] {
            let failure = another_kind(&known, &maps, object.as_object().unwrap());
            assert_eq!((failure.code, failure.message.as_str()), (400, expected));
        }
    }

    #[test]
    fn a_body_without_a_kind_is_quoted_as_far_as_it_can_be_read() {
        let maps = built_in("", "configmaps");
        for (body, quoted) in [(&b""[..], "(<empty>)"), (b"{x", "({x)"), (b"[]", "(5b5d)")] {
            let failure = unrecognized(&maps, body, "why");
            assert!(
                failure.message.ends_with(&format!("json parse error: why {quoted}")),
                "{}",
                failure.message
            );
        }
    }
}
