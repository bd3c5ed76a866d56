//! Reviews in the binary form in which clients written in Go send them, and which those do not give up when it is
//! refused: `kubectl auth can-i` knows no other. Answers are JSON, which they all accept.
//!
//! Only what is asked is read. A review is not kept, so its metadata means nothing.

use prost::Message;
use serde::Serialize;
use serde_json::{Value, json};

use crate::status::Failure;

pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every object in this form begins with.
const MAGIC: &[u8] = b"k8s\0";

#[derive(Message)]
struct Envelope {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

#[derive(Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

/// A review of any kind: they differ in what they specify, so that is taken out first and read second.
#[derive(Message)]
struct Review {
    #[prost(bytes = "vec", optional, tag = "2")]
    spec: Option<Vec<u8>>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Access {
    #[prost(message, optional, tag = "1")]
    resource_attributes: Option<ResourceAttributes>,
    #[prost(message, optional, tag = "2")]
    non_resource_attributes: Option<NonResourceAttributes>,
    #[prost(string, tag = "3")]
    user: String,
    #[prost(string, repeated, tag = "4")]
    groups: Vec<String>,
    #[prost(string, tag = "6")]
    uid: String,
}

#[derive(Message, Serialize)]
struct ResourceAttributes {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, tag = "2")]
    verb: String,
    #[prost(string, tag = "3")]
    group: String,
    #[prost(string, tag = "4")]
    version: String,
    #[prost(string, tag = "5")]
    resource: String,
    #[prost(string, tag = "6")]
    subresource: String,
    #[prost(string, tag = "7")]
    name: String,
}

#[derive(Message, Serialize)]
struct NonResourceAttributes {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(string, tag = "2")]
    verb: String,
}

#[derive(Message, Serialize)]
struct Rules {
    #[prost(string, tag = "1")]
    namespace: String,
}

#[derive(Message, Serialize)]
struct Token {
    #[prost(string, tag = "1")]
    token: String,
    #[prost(string, repeated, tag = "2")]
    audiences: Vec<String>,
}

/// A review of a kind, as the value it would be in JSON.
pub(crate) fn read(kind: &str, body: &[u8]) -> Result<Value, Failure> {
    let unreadable = |why: &dyn std::fmt::Display| {
        Failure::bad_request(format!("couldn't read the body as protobuf: {why}"))
    };
    let envelope = body.strip_prefix(MAGIC).ok_or_else(|| unreadable(&"it does not begin with `k8s`"))?;
    let envelope = Envelope::decode(envelope).map_err(|error| unreadable(&error))?;
    let TypeMeta { api_version, kind: given } = envelope.type_meta.unwrap_or_default();
    let spec = match kind {
        "SelfSubjectReview" => Ok(Value::Null),
        "SelfSubjectRulesReview" => spec::<Rules>(&envelope.raw),
        "TokenReview" => spec::<Token>(&envelope.raw),
        _ => spec::<Access>(&envelope.raw),
    };
    let mut review = json!({ "apiVersion": api_version, "kind": given });
    match spec.map_err(|error| unreadable(&error))? {
        Value::Null => {}
        spec => review["spec"] = spec,
    }
    Ok(review)
}

fn spec<S: Message + Default + Serialize>(raw: &[u8]) -> Result<Value, prost::DecodeError> {
    let spec = Review::decode(raw)?.spec.map(|spec| S::decode(spec.as_slice())).transpose()?;
    Ok(spec.map_or(Value::Null, |spec| json!(spec)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(kind: &str, raw: Vec<u8>) -> Vec<u8> {
        let type_meta = TypeMeta { api_version: "authorization.k8s.io/v1".to_owned(), kind: kind.to_owned() };
        let envelope = Envelope { type_meta: Some(type_meta), raw };
        [MAGIC, &envelope.encode_to_vec()].concat()
    }

    #[test]
    fn what_is_asked_comes_out_as_it_would_in_json() {
        let wanted = ResourceAttributes {
            verb: "get".to_owned(),
            resource: "pods".to_owned(),
            ..ResourceAttributes::default()
        };
        let spec = Access { resource_attributes: Some(wanted), ..Access::default() };
        let raw = Review { spec: Some(spec.encode_to_vec()) }.encode_to_vec();
        let review = read("SelfSubjectAccessReview", &body("SelfSubjectAccessReview", raw)).unwrap();
        assert_eq!(review["kind"], "SelfSubjectAccessReview");
        assert_eq!(review["spec"]["resourceAttributes"]["resource"], "pods");
        assert!(review["spec"]["nonResourceAttributes"].is_null());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert_eq!(read("TokenReview", b"{}").unwrap_err().code, 400);
        let cut_short = body("TokenReview", vec![0x12, 0x7f]);
        assert_eq!(read("TokenReview", &cut_short).unwrap_err().code, 400);
    }
}
