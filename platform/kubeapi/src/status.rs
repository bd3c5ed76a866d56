//! What a refused request is answered with: a Kubernetes `Status`.
//!
//! Clients branch on `reason` and `code`, people read `message`, and test suites compare its words; so the texts are
//! those every Kubernetes client knows. Nothing outside this file writes them.

use serde_json::{Value, json};

use crate::catalogue::Resource;

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Boxed, because a `Failure` is the error half of most results here.
    pub(crate) details: Option<Box<Details>>,
}

/// Which object a failure is about, and which fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Details {
    pub(crate) name: String,
    pub(crate) group: String,
    /// The plural for most failures, the kind where the content was invalid.
    pub(crate) kind: String,
    pub(crate) uid: String,
    pub(crate) causes: Vec<Cause>,
    pub(crate) retry_after_seconds: Option<u32>,
    /// Where an expired list can go on, at the price of consistency. Shown in the metadata.
    pub(crate) continue_token: Option<String>,
}

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) field: String,
}

// === impl Failure ===

impl Failure {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    pub(crate) fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Tells the client when to come back.
    pub(crate) fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    /// Offers to go on with a list whose version is no longer kept.
    pub(crate) fn with_continue(mut self, token: String) -> Self {
        self.details.get_or_insert_default().continue_token = Some(token);
        self
    }

    pub(crate) fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", resource.qualified()))
            .with_details(about(resource, name))
    }

    /// A path that leads nowhere.
    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with_details(Details::default())
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", resource.qualified()))
            .with_details(about(resource, name))
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::new(409, "Conflict", message).with_details(about(resource, name))
    }

    /// The same, where the kind is named rather than the collection.
    pub(crate) fn conflict_of_kind(resource: &Resource, name: &str, why: impl std::fmt::Display) -> Self {
        let kind = resource.kind.to_string();
        let message = format!("Operation cannot be fulfilled on {kind} \"{name}\": {why}");
        Self::new(409, "Conflict", message).with_details(Details { kind, ..about(resource, name) })
    }

    /// And where it is a part of the object that cannot be written.
    pub(crate) fn conflict_of_part(
        resource: &Resource,
        part: &str,
        name: &str,
        why: impl std::fmt::Display,
    ) -> Self {
        let kind = format!("{}/{part}", resource.plural);
        let message = format!("Operation cannot be fulfilled on {kind} \"{name}\": {why}");
        Self::new(409, "Conflict", message).with_details(Details { kind, ..about(resource, name) })
    }

    /// The object is not the one the client read.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn invalid(resource: &Resource, name: &str, causes: Vec<Cause>) -> Self {
        let kind = match resource.group.as_ref() {
            "" => resource.kind.to_string(),
            group => format!("{}.{group}", resource.kind),
        };
        let listed = list(&causes);
        Self::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {listed}")).with_details(Details {
            kind: resource.kind.to_string(),
            causes,
            ..about(resource, name)
        })
    }

    /// Something that is invalid under the name of its collection: what a client must say and did not.
    pub(crate) fn invalid_in_collection(resource: &Resource, name: &str, cause: Cause) -> Self {
        Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {}", resource.qualified(), cause.line()))
            .with_details(Details { causes: vec![cause], ..about(resource, name) })
    }

    /// The same about what is not the resource itself: a part of it, or what is sent along with it.
    pub(crate) fn invalid_kind(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let listed = list(&causes);
        Self::new(422, "Invalid", format!("{kind}.{group} \"{name}\" is invalid: {listed}")).with_details(
            Details {
                name: name.to_owned(),
                group: group.to_owned(),
                kind: kind.to_owned(),
                causes,
                ..Details::default()
            },
        )
    }

    /// A query or options object that is wrong, rather than the object itself.
    pub(crate) fn invalid_options(kind: &str, causes: Vec<Cause>) -> Self {
        let listed = list(&causes);
        Self::new(422, "Invalid", format!("{kind}.meta.k8s.io \"\" is invalid: {listed}")).with_details(
            Details { group: "meta.k8s.io".to_owned(), kind: kind.to_owned(), causes, ..Details::default() },
        )
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: impl std::fmt::Display) -> Self {
        let message = match name {
            "" => format!("{} is forbidden: {why}", resource.qualified()),
            name => format!("{} \"{name}\" is forbidden: {why}", resource.qualified()),
        };
        Self::new(403, "Forbidden", message).with_details(about(resource, name))
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The asked-for revision is no longer kept.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with_details(Details::default())
    }

    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf";
        Self::new(406, "NotAcceptable", message)
    }

    /// None of the media types that a client would take is known at all.
    pub(crate) fn nothing_acceptable() -> Self {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf";
        Self::new(406, "NotAcceptable", message).with_details(Details::default())
    }

    /// A patch in a language that nobody speaks.
    pub(crate) fn unknown_patch_type() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_details(Details::default())
    }

    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    /// Something the real server does not expect either, and answers without saying what kind of failure it is.
    pub(crate) fn unexpected(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// A patch that cannot be carried out. What is wrong with it is not said: it may quote what only the object knows.
    pub(crate) fn rejected_patch() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request")
            .with_details(Details::default())
    }

    /// A patch after which the object is none of its kind any more.
    pub(crate) fn invalid_patch(patched: &str, why: impl std::fmt::Display) -> Self {
        let cause = Cause::invalid("patch", &Value::from(patched), why);
        Self::new(422, "Invalid", format!(" \"\" is invalid: {}", cause.line()))
            .with_details(Details { causes: vec![cause], ..Details::default() })
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message).with_retry_after(1)
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(504, "Timeout", message).with_retry_after(1)
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_value();
            if let Some(token) = &details.continue_token {
                status["metadata"]["continue"] = json!(token);
            }
        }
        status
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

fn list(causes: &[Cause]) -> String {
    match causes {
        [] => "the content is not acceptable".to_owned(),
        [only] => only.line(),
        several => {
            let mut lines: Vec<String> = Vec::new();
            for line in several.iter().map(Cause::line) {
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
            match lines.as_slice() {
                [only] => only.clone(),
                lines => format!("[{}]", lines.join(", ")),
            }
        }
    }
}

fn about(resource: &Resource, name: &str) -> Details {
    Details {
        name: name.to_owned(),
        group: resource.group.to_string(),
        kind: resource.plural.to_string(),
        ..Details::default()
    }
}

// === impl Details ===

impl Details {
    fn to_value(&self) -> Value {
        let mut value = json!({});
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                value[key] = json!(text);
            }
        }
        if !self.causes.is_empty() {
            value["causes"] = self.causes.iter().map(Cause::to_value).collect();
        }
        if let Some(seconds) = self.retry_after_seconds {
            value["retryAfterSeconds"] = json!(seconds);
        }
        value
    }
}

// === impl Cause ===

impl Cause {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>, field: impl Into<String>) -> Self {
        Self { reason, message: message.into(), field: field.into() }
    }

    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = match why {
            "" => "Required value".to_owned(),
            why => format!("Required value: {why}"),
        };
        Self::new("FieldValueRequired", message, field)
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, why: impl std::fmt::Display) -> Self {
        Self::new("FieldValueInvalid", format!("Invalid value: {}: {why}", shown(value)), field)
    }

    /// The value has the wrong JSON type.
    pub(crate) fn wrong_type(field: impl Into<String>, value: &Value, why: impl std::fmt::Display) -> Self {
        Self::new("FieldValueTypeInvalid", format!("Invalid value: {}: {why}", shown(value)), field)
    }

    pub(crate) fn not_supported<'a>(
        field: impl Into<String>,
        value: &Value,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let supported = supported.into_iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {}: supported values: {supported}", shown(value));
        Self::new("FieldValueNotSupported", message, field)
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", format!("Duplicate value: {}", shown(value)), field)
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueForbidden", format!("Forbidden: {why}"), field)
    }

    pub(crate) fn too_long(field: impl Into<String>, limit: u64) -> Self {
        Self::new("FieldValueTooLong", format!("Too long: may not be more than {limit} bytes"), field)
    }

    pub(crate) fn too_many(field: impl Into<String>, count: usize, limit: u64) -> Self {
        let message = format!("Too many: {count}: must have at most {limit} items");
        Self::new("FieldValueTooMany", message, field)
    }

    /// Whether rules about the same object would trip over it.
    pub(crate) fn blocks_rules(&self) -> bool {
        const BLOCKING: [&str; 5] = [
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        ];
        BLOCKING.contains(&self.reason)
    }

    pub(crate) fn rules_not_checked() -> Self {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        Self::invalid("<nil>", &Value::Null, why)
    }

    fn line(&self) -> String {
        match self.field.as_str() {
            "" => self.message.clone(),
            field => format!("{field}: {}", self.message),
        }
    }

    fn to_value(&self) -> Value {
        let mut value = json!({ "message": self.message });
        if !self.reason.is_empty() {
            value["reason"] = json!(self.reason);
        }
        if !self.field.is_empty() {
            value["field"] = json!(self.field);
        }
        value
    }
}

/// Long values are cut: the message is for people, and the client has the value.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 256;
    let mut text = value.to_string();
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|&at| text.is_char_boundary(at)).unwrap_or_default();
        text.truncate(end);
        text.push_str("...");
    }
    text
}
