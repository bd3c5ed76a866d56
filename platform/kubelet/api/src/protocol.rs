//! What goes over the wire.

use serde::{Deserialize, Serialize};

/// Longest line that is read; addresses, names and causes are short.
pub(crate) const LONGEST_LINE: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    Connect(String),
    Stop(Stoppable),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stoppable {
    Pods,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl Answer {
    pub(crate) fn ok() -> Self {
        Self { ok: true, error: None }
    }

    pub(crate) fn error(error: &dyn std::error::Error) -> Self {
        // Within the line that the other side reads.
        let text = pilothouse_runtime::Chain(error).to_string();
        Self { ok: false, error: Some(text.chars().take(LONGEST_LINE / 8).collect()) }
    }
}

/// A value as one line.
pub(crate) fn line(value: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
