use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why an operation did not succeed, told so that somebody can act on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Which step of the flow (see the table in `docs/architecture.md`).
    pub step: u8,
    /// Which component, by its folder.
    pub component: String,
    /// Which object.
    pub object: String,
    /// What was observed.
    pub observed: String,
    /// What to do.
    pub remedy: String,
}

impl Failure {
    /// The type under which it stands in an error's additional information.
    pub const KIND: &str = "Failure";

    /// Reads a failure that was passed on as a sentence, as components do that have only a message to put it in.
    pub fn of_sentence(text: &str) -> Option<Self> {
        let (step, rest) = text.strip_prefix("Step ")?.split_once(" (")?;
        let (component, rest) = rest.split_once(") failed on ")?;
        let (object, rest) = rest.split_once(": ")?;
        // The remedy is the last part; what was observed may contain anything.
        let (observed, remedy) = rest.rsplit_once(". To do: ")?;
        Some(Self {
            step: step.parse().ok()?,
            component: component.to_owned(),
            object: object.to_owned(),
            observed: observed.to_owned(),
            remedy: remedy.trim_end_matches('.').to_owned(),
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, component, object, observed, remedy } = self;
        let (observed, remedy) = (observed.trim_end_matches('.'), remedy.trim_end_matches('.'));
        write!(formatter, "Step {step} ({component}) failed on {object}: {observed}. To do: {remedy}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_being_passed_on_as_a_sentence() {
        let failure = Failure {
            step: 9,
            component: "services/hypershift".into(),
            object: "cluster 2a".into(),
            observed: "etcd: no space left. It was full".into(),
            remedy: "free some space".into(),
        };
        assert_eq!(Failure::of_sentence(&failure.to_string()), Some(failure));
        assert_eq!(Failure::of_sentence("it did not work"), None);
    }
}
