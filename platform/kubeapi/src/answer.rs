//! What goes back, in the form the client asked for.

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::catalogue::Resource;
use crate::protobuf;
use crate::request::Parameters;
use crate::status::Failure;
use crate::storage;
use crate::table::{self, IncludeObject};

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";

/// How objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Object,
    /// As rows.
    Table(IncludeObject),
    /// Only their metadata.
    Metadata,
}

impl Form {
    /// The first form among the accepted ones that this server has. Others that the client lists are skipped: it
    /// lists what it would rather have first.
    pub(crate) fn negotiate(headers: &HeaderMap, query: &Parameters) -> Result<Self, Failure> {
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
        let include = match query.get("includeObject") {
            Some("None") => IncludeObject::None,
            Some("Object") => IncludeObject::Object,
            _ => IncludeObject::Metadata,
        };
        accept
            .split(',')
            .find_map(|clause| {
                let mut parts = clause.split(';').map(str::trim);
                let media = parts.next()?;
                if !matches!(media, "" | "*/*" | "application/*" | JSON) {
                    return None;
                }
                let parameter =
                    |name: &str| parts.clone().find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
                // All these forms are of one version.
                let known = parameter("v").is_none_or(|version| version == "v1")
                    && parameter("g").is_none_or(|group| group == "meta.k8s.io");
                match parameter("as") {
                    None => Some(Self::Object),
                    Some(_) if !known => None,
                    Some("Table") => Some(Self::Table(include)),
                    Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Self::Metadata),
                    Some(_) => None,
                }
            })
            .ok_or_else(|| match accept.split(',').any(is_known) {
                true => Failure::not_acceptable(),
                false => Failure::nothing_acceptable(),
            })
            .and_then(|form| match (form, query.get("includeObject")) {
                (Self::Table(_), Some(other)) if !matches!(other, "None" | "Object" | "Metadata") => {
                    let why = "must be 'Metadata', 'Object', 'None', or empty";
                    Err(Failure::bad_request(format!(
                        "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: {why}"
                    )))
                }
                (form, _) => Ok(form),
            })
    }

    /// One object in this form.
    pub(crate) fn show(self, resource: &Resource, object: Value, now: Timestamp) -> Value {
        match self {
            Self::Object => object,
            Self::Metadata => table::metadata_only(&object),
            Self::Table(include) => {
                let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
                table::render(resource, std::iter::once(&object), now, include, metadata)
            }
        }
    }

    /// One encoded object in this form. Objects as they are are not even parsed.
    pub(crate) fn show_bytes(self, resource: &Resource, object: &Bytes, now: Timestamp) -> Bytes {
        match self {
            Self::Object => object.clone(),
            _ => serde_json::from_slice(object)
                .map_or_else(|_| object.clone(), |value| encode(&self.show(resource, value, now))),
        }
    }

    /// A list in this form.
    pub(crate) fn list(
        self,
        resource: &Resource,
        objects: &[Bytes],
        metadata: Value,
        now: Timestamp,
    ) -> Bytes {
        let parsed = || objects.iter().filter_map(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        match self {
            Self::Object => {
                let mut text =
                    BytesMut::with_capacity(objects.iter().map(|one| one.len() + 1).sum::<usize>() + 256);
                let head = format!(
                    "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
                    json!(resource.list_kind),
                    json!(resource.api_version()),
                );
                text.put_slice(head.as_bytes());
                // The list says what its items are, except where only a definition does.
                let known = if resource.custom { String::new() } else { storage::head(resource) };
                for (index, object) in objects.iter().enumerate() {
                    if index > 0 {
                        text.put_u8(b',');
                    }
                    match object.strip_prefix(known.as_bytes()) {
                        Some(rest) if !known.is_empty() => {
                            text.put_u8(b'{');
                            text.put_slice(rest);
                        }
                        _ => text.put_slice(object),
                    }
                }
                text.put_slice(b"]}");
                text.freeze()
            }
            Self::Metadata => encode(&json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": parsed().map(|object| table::metadata_only(&object)).collect::<Vec<_>>(),
            })),
            Self::Table(include) => {
                let objects: Vec<_> = parsed().collect();
                encode(&table::render(resource, objects.iter(), now, include, metadata))
            }
        }
    }
}

/// Whether a media type is one that somebody here understands, if not as a form of every answer.
fn is_known(clause: &str) -> bool {
    let media = clause.split(';').next().unwrap_or(clause).trim();
    matches!(media, "" | "*/*" | "application/*" | JSON | YAML | protobuf::MEDIA_TYPE)
}

pub(crate) fn encode(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

/// A document.
pub(crate) fn document(status: StatusCode, text: Bytes) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub(crate) fn json(status: StatusCode, value: &Value) -> Response {
    document(status, encode(value))
}

pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Response {
    let mut response = Response::new(Body::from(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// A path under which there never was anything. Only what speaks of resources is answered with a `Status`.
pub(crate) fn no_page() -> Response {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Whether a client would rather have YAML than anything else that is served.
pub(crate) fn wants_yaml(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut known = accept.split(',').map(|clause| clause.split(';').next().unwrap_or(clause).trim());
    known.find(|media| matches!(*media, "*/*" | "application/*" | JSON | YAML)) == Some(YAML)
}

/// The same document in YAML. What is no document stays as it is.
pub(crate) async fn in_yaml(response: Response) -> Response {
    if response.headers().get(CONTENT_TYPE) != Some(&HeaderValue::from_static(JSON)) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(collected) = body.collect().await else { return no_page() };
    let text = collected.to_bytes();
    let yaml =
        serde_json::from_slice::<Value>(&text).ok().and_then(|value| serde_saphyr::to_string(&value).ok());
    match yaml {
        Some(yaml) => {
            parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(YAML));
            Response::from_parts(parts, Body::from(yaml))
        }
        None => Response::from_parts(parts, Body::from(text)),
    }
}

/// A stream of documents, or of text.
pub(crate) fn stream(media: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub(crate) fn failure(failure: &Failure) -> Response {
    let status = StatusCode::from_u16(failure.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, &failure.to_value());
    if let Some(seconds) = failure.details.as_ref().and_then(|details| details.retry_after_seconds) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Says something beside the answer; `kubectl` prints it.
pub(crate) fn warn(response: &mut Response, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiated(accept: &'static str) -> Result<Form, Failure> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
        Form::negotiate(&headers, &Parameters::default())
    }

    #[tokio::test]
    async fn yaml_is_for_those_who_ask_for_it_first() {
        for (accept, expected) in [
            ("application/yaml", true),
            ("text/html, application/yaml;q=0.9, application/json", true),
            ("application/json, application/yaml", false),
            ("*/*", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(wants_yaml(&headers), expected, "{accept}");
        }
        let object = json!({ "kind": "Pod", "items": ["1", true, null, "no"] });
        let response = in_yaml(json(StatusCode::OK, &object)).await;
        assert_eq!(response.headers()[CONTENT_TYPE], YAML);
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let read: Value = serde_saphyr::from_str(std::str::from_utf8(&text).unwrap()).unwrap();
        assert_eq!(read, object);
    }

    #[test]
    fn the_first_form_that_exists_is_taken() {
        let table = Form::Table(IncludeObject::Metadata);
        for (accept, form) in [
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", table),
            ("application/json", Form::Object),
            ("*/*", Form::Object),
            ("application/vnd.kubernetes.protobuf, */*", Form::Object),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
                Form::Metadata,
            ),
        ] {
            assert_eq!(negotiated(accept).unwrap(), form, "{accept}");
        }
        assert_eq!(negotiated("application/vnd.kubernetes.protobuf").unwrap_err().code, 406);
    }
}
