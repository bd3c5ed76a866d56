use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// What is in it.
    pub value: Vec<T>,
    /// Where the list goes on, unless this was the end.
    #[serde(default = "nothing", skip_serializing_if = "Option::is_none")]
    pub next_link: Option<String>,
}

/// `default` alone would ask the same of `T`.
fn nothing() -> Option<String> {
    None
}
