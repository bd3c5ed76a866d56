//! What is wrong with a specification, and which condition says so.

use pilothouse_crds::HostedClusterStatus;

/// A specification that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The condition that says so.
    pub(crate) condition: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Everything that is wrong with a specification: at least one thing, and one entry for each condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusals(Vec<Refusal>);

// === impl Refusal ===

impl Refusal {
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self {
            condition: "SupportedHostedCluster",
            reason: "UnsupportedHostedCluster",
            message: message.into(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { condition: "ValidConfiguration", reason: "InvalidConfiguration", message: message.into() }
    }

    /// Something is named that is not there, and may come.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self { reason: HostedClusterStatus::MISSING_REFERENCE, ..Self::invalid(message) }
    }

    pub(crate) fn release(message: impl Into<String>) -> Self {
        Self { condition: "ValidReleaseImage", reason: "InvalidImage", message: message.into() }
    }
}

// === impl Refusals ===

impl Refusals {
    /// Two complaints of one condition become one with both messages, and with the reason of what does not come about by waiting.
    pub(crate) fn add(&mut self, refusal: Refusal) {
        match self.0.iter_mut().find(|known| known.condition == refusal.condition) {
            Some(known) => {
                known.message.push_str("; ");
                known.message.push_str(&refusal.message);
                if known.reason == HostedClusterStatus::MISSING_REFERENCE {
                    known.reason = refusal.reason;
                }
            }
            None => self.0.push(refusal),
        }
    }

    /// Keeps the value, or the reason why there is none.
    pub(crate) fn keep<T>(&mut self, outcome: Result<T, Refusal>) -> Option<T> {
        outcome.map_err(|refusal| self.add(refusal)).ok()
    }

    pub(crate) fn extend(&mut self, others: &Self) {
        others.0.iter().for_each(|refusal| self.add(refusal.clone()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What this condition has to say.
    pub(crate) fn of(&self, condition: &str) -> Option<&Refusal> {
        self.0.iter().find(|refusal| refusal.condition == condition)
    }

    pub(crate) fn first(&self) -> Option<&Refusal> {
        self.0.first()
    }
}

impl From<Refusal> for Refusals {
    fn from(refusal: Refusal) -> Self {
        Self(vec![refusal])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_counts_more_than_what_is_missing() {
        let reason = |complaints: [Refusal; 2]| {
            let mut refusals = Refusals::default();
            complaints.into_iter().for_each(|complaint| refusals.add(complaint));
            refusals.of("ValidConfiguration").unwrap().reason
        };
        let (wrong, missing) = (|| Refusal::invalid("wrong"), || Refusal::missing("missing"));
        assert_eq!(reason([missing(), missing()]), "MissingReference");
        assert_eq!(reason([missing(), wrong()]), "InvalidConfiguration");
        assert_eq!(reason([wrong(), missing()]), "InvalidConfiguration");
    }
}
