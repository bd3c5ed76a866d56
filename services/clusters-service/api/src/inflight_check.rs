use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something of the customer's that is looked at before a cluster is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InflightCheck {
    /// Always `InflightCheck`.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Its path.
    pub href: String,
    /// What is looked at.
    pub name: String,
    /// Where it stands.
    pub state: InflightCheckState,
    /// An object; its `error` is for the customer to read.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How often it began anew.
    pub restarts: u32,
}

/// Where a check stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InflightCheckState {
    /// It has not begun.
    #[default]
    Pending,
    /// It is being looked at.
    Running,
    /// All is well.
    Passed,
    /// Something is not.
    Failed,
    /// A state that this build does not know.
    #[serde(other)]
    Unknown,
}

impl InflightCheck {
    /// What the customer is to read, if something is not well.
    pub fn error(&self) -> Option<&str> {
        self.details.get("error")?.as_str()
    }
}
