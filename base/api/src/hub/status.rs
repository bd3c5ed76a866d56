use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something observed about a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// When that last changed.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// One word, for programs.
    pub reason: String,
    /// A sentence, for people.
    pub message: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It was seen to hold.
    True,
    /// It was seen not to hold.
    False,
    /// Nobody has looked, or it does not apply.
    Unknown,
}
