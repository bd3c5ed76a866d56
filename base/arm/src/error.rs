use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error_code::ErrorCode;
use crate::failure::Failure;
use crate::resource_id::ResourceId;

/// An error as a caller sees it: a status for the protocol, and [`ErrorDetails`] as the body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CloudError {
    #[serde(skip)]
    status: u16,
    #[serde(skip)]
    retry_after: Option<u32>,
    error: ErrorDetails,
}

/// What is in an error: code and message, what it is about, and what it consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorDetails {
    /// For programs. One of [`ErrorCode`] where it is ours; what a component further down said, otherwise.
    pub code: String,
    /// For people.
    pub message: String,
    /// The field or the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The single errors, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<ErrorDetails>,
    /// Where in the flow it happened and what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_info: Vec<AdditionalInfo>,
}

/// Something typed beside code and message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdditionalInfo {
    /// What `info` is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The content.
    pub info: Failure,
}

// === impl CloudError ===

impl CloudError {
    /// An error with the status its code usually has.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { status: code.status(), retry_after: None, error: ErrorDetails::new(code, message) }
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The same, about a field or a resource.
    #[must_use]
    pub fn with_target(mut self, target: impl fmt::Display) -> Self {
        self.error.target = Some(target.to_string());
        self
    }

    /// The same, asking to be left alone for so many seconds.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// One error as it is, several as details of one.
    pub fn of_details(mut details: Vec<ErrorDetails>) -> Self {
        if details.len() == 1 {
            return Self { status: 400, retry_after: None, error: details.remove(0) };
        }
        let mut error =
            Self::new(ErrorCode::MultipleErrorsOccurred, format!("{} errors occurred", details.len()));
        error.error.details = details;
        error
    }

    /// There is nothing at the path, or not with this method.
    pub fn path_not_found() -> Self {
        Self::new(ErrorCode::NotFound, "The requested path could not be found.")
    }

    /// The resource does not exist.
    pub fn resource_not_found(id: &ResourceId) -> Self {
        let group = match id.resource_group_name() {
            Some(group) => format!(" under resource group '{group}'"),
            None => String::new(),
        };
        let message = format!("The resource '{}/{}'{group} was not found.", id.resource_type(), id.name());
        Self::new(ErrorCode::ResourceNotFound, message).with_target(id)
    }

    /// The resource is busy.
    pub fn conflict(id: &ResourceId, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Conflict, message).with_target(id)
    }

    /// Something inside failed; it was logged under `request_id`, and the caller learns nothing else.
    pub fn internal(request_id: &str) -> Self {
        let message = format!("The request failed for a reason that was recorded; its id is {request_id}.");
        Self::new(ErrorCode::InternalServerError, message)
    }

    /// What the service needs cannot be reached; it may be tried again.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ServiceUnavailable, message).with_retry_after(59)
    }

    /// The status of the answer.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Seconds to wait before trying again, for the header `Retry-After`.
    pub fn retry_after(&self) -> Option<u32> {
        self.retry_after
    }

    /// The body's content.
    pub fn details(&self) -> &ErrorDetails {
        &self.error
    }
}

impl fmt::Display for CloudError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl std::error::Error for CloudError {}

impl From<ErrorDetails> for CloudError {
    fn from(details: ErrorDetails) -> Self {
        Self::of_details(vec![details])
    }
}

// === impl ErrorDetails ===

impl ErrorDetails {
    /// A code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code: code.as_str().to_owned(),
            message: message.into(),
            target: None,
            details: Vec::new(),
            additional_info: Vec::new(),
        }
    }

    /// One wrong field.
    pub fn field(target: impl Into<String>, message: impl Into<String>) -> Self {
        Self { target: Some(target.into()), ..Self::new(ErrorCode::InvalidRequestContent, message) }
    }

    /// A failure in the course of an operation, under the code of whoever found it.
    pub fn failure(code: impl Into<String>, failure: Failure) -> Self {
        Self {
            code: code.into(),
            message: failure.to_string(),
            target: Some(failure.object.clone()),
            details: Vec::new(),
            additional_info: vec![AdditionalInfo { kind: Failure::KIND.to_owned(), info: failure }],
        }
    }
}

impl fmt::Display for ErrorDetails {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.message)?;
        if let Some(target) = &self.target {
            write!(formatter, " ({target})")?;
        }
        for detail in &self.details {
            write!(formatter, "; {detail}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_error_stands_alone_and_several_are_details() {
        let one =
            CloudError::of_details(vec![ErrorDetails::field("properties.version.id", "Required value")]);
        assert_eq!(one.status(), 400);
        assert_eq!(
            serde_json::to_value(&one).unwrap(),
            json!({"error": {"code": "InvalidRequestContent", "message": "Required value",
                             "target": "properties.version.id"}})
        );
        let two = CloudError::of_details(vec![ErrorDetails::field("a", "x"), ErrorDetails::field("b", "y")]);
        assert_eq!(
            serde_json::to_value(&two).unwrap(),
            json!({"error": {"code": "MultipleErrorsOccurred", "message": "2 errors occurred", "details": [
                {"code": "InvalidRequestContent", "message": "x", "target": "a"},
                {"code": "InvalidRequestContent", "message": "y", "target": "b"}]}})
        );
    }

    #[test]
    fn a_missing_resource_is_named_with_its_group() {
        let id: ResourceId = "/subscriptions/s/resourceGroups/G/providers/P/types/N".parse().unwrap();
        let error = CloudError::resource_not_found(&id);
        assert_eq!(error.status(), 404);
        assert_eq!(
            error.to_string(),
            format!(
                "ResourceNotFound: The resource 'P/types/N' under resource group 'G' was not found. ({id})"
            )
        );
    }

    #[test]
    fn a_failure_says_where_what_and_what_to_do() {
        let failure = Failure {
            step: 6,
            component: "services/clusters-service".into(),
            object: "cluster 2a".into(),
            observed: "no management cluster has room".into(),
            remedy: "add a management cluster, or delete a cluster".into(),
        };
        let details = ErrorDetails::failure("NoCapacity", failure);
        assert_eq!(
            details.message,
            "Step 6 (services/clusters-service) failed on cluster 2a: no management cluster has room. \
             To do: add a management cluster, or delete a cluster."
        );
        let json = serde_json::to_value(&details).unwrap();
        assert_eq!(json["additionalInfo"][0]["info"]["step"], 6);
        assert_eq!(serde_json::from_value::<ErrorDetails>(json).unwrap(), details);
    }
}
