use serde::{Deserialize, Serialize};

/// An OpenShift-style version as Clusters Service names it: `openshift-v4.20.3`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// `openshift-vX.Y.Z`, with `-<channel group>` behind it unless that is `stable`.
    pub id: String,
    /// Which stream of updates it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_group: Option<String>,
}

impl Version {
    /// What stands before the number.
    const PREFIX: &str = "openshift-v";

    /// The id of a bare number such as `4.20.3`, on the stable channel.
    pub fn of_number(number: &str) -> Self {
        Self { id: format!("{}{number}", Self::PREFIX), channel_group: Some("stable".to_owned()) }
    }

    /// The id of a bare number on a channel.
    pub fn of_channel(number: &str, channel_group: &str) -> Self {
        match channel_group {
            "stable" => Self::of_number(number),
            other => Self {
                id: format!("{}{number}-{other}", Self::PREFIX),
                channel_group: Some(other.to_owned()),
            },
        }
    }

    /// The bare number, `4.20.3`; `None` if the id does not have the form.
    pub fn number(&self) -> Option<&str> {
        let number = self.id.strip_prefix(Self::PREFIX)?;
        match &self.channel_group {
            Some(group) => Some(number.strip_suffix(&format!("-{group}")).unwrap_or(number)),
            None => Some(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_stands_between_prefix_and_channel_group() {
        assert_eq!(Version::of_number("4.20.3").number(), Some("4.20.3"));
        let candidate =
            Version { id: "openshift-v4.20.3-candidate".into(), channel_group: Some("candidate".into()) };
        assert_eq!(candidate.number(), Some("4.20.3"));
        assert_eq!(Version::of_channel("4.20.3", "candidate"), candidate);
        assert_eq!(Version { id: "4.20.3".into(), channel_group: None }.number(), None);
    }
}
