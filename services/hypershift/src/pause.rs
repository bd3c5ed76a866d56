//! `spec.pausedUntil`: a time, or yes or no.

use jiff::Timestamp;

/// Whether reconciliation is switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It is not, or no longer.
    No,
    /// Until somebody says otherwise.
    UntilRemoved,
    /// Until then.
    Until(Timestamp),
    /// Nobody can tell what was meant.
    Invalid(String),
}

impl Pause {
    pub(crate) fn read(field: Option<&str>, now: Timestamp) -> Self {
        match field {
            None | Some("" | "false" | "False") => Self::No,
            Some("true" | "True") => Self::UntilRemoved,
            Some(text) => match text.parse::<Timestamp>() {
                Ok(until) if until <= now => Self::No,
                Ok(until) => Self::Until(until),
                Err(_) => Self::Invalid(text.to_owned()),
            },
        }
    }

    /// What is wrong with the field. Nobody knows for how long it was meant, so it stops nothing.
    pub(crate) fn complaint(&self) -> Option<String> {
        match self {
            Self::Invalid(text) => Some(format!(
                "spec.pausedUntil: `{text}` is neither a time such as 2030-01-31T12:00:00Z nor true or false; \
                 reconciliation goes on"
            )),
            Self::No | Self::UntilRemoved | Self::Until(_) => None,
        }
    }

    /// What the condition says; nothing if work goes on.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::No | Self::Invalid(_) => None,
            Self::UntilRemoved => Some("Reconciliation paused until field removed".to_owned()),
            Self::Until(until) => Some(format!("Reconciliation paused until: {until}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(None, Pause::No)]
    #[case(Some("false"), Pause::No)]
    #[case(Some("True"), Pause::UntilRemoved)]
    #[case(Some("2025-01-01T00:00:00Z"), Pause::No)]
    #[case(Some("2027-01-01T00:00:00Z"), Pause::Until("2027-01-01T00:00:00Z".parse().unwrap()))]
    #[case(Some("soon"), Pause::Invalid("soon".into()))]
    fn a_pause_ends_when_its_time_has_come(#[case] field: Option<&str>, #[case] pause: Pause) {
        assert_eq!(Pause::read(field, "2026-01-01T00:00:00Z".parse().unwrap()), pause);
    }
}
