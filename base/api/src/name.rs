use std::fmt;

/// The name of a cluster: a letter, then letters, digits and hyphens, 54 at most, no hyphen at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterName(String);

/// The name of a node pool: as a cluster's, 15 at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePoolName(String);

/// The name of an external authentication: as a node pool's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalAuthName(String);

const CLUSTER: usize = 54;
const NODE_POOL: usize = 15;

fn fits(name: &str, longest: usize) -> bool {
    name.len() <= longest
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && !name.ends_with('-')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

impl ClusterName {
    /// What a name has to look like, for messages.
    pub const RULE: &str = "must begin with a letter, consist of letters, digits and '-', end with a letter or digit, and have at most 54 characters";

    /// Checks a name.
    pub fn try_new(name: &str) -> Option<Self> {
        fits(name, CLUSTER).then(|| Self(name.to_owned()))
    }
}

impl NodePoolName {
    /// What a name has to look like, for messages.
    pub const RULE: &str = "must begin with a letter, consist of letters, digits and '-', end with a letter or digit, and have at most 15 characters";

    /// Checks a name.
    pub fn try_new(name: &str) -> Option<Self> {
        fits(name, NODE_POOL).then(|| Self(name.to_owned()))
    }
}

impl ExternalAuthName {
    /// What a name has to look like, for messages.
    pub const RULE: &str = NodePoolName::RULE;

    /// Checks a name.
    pub fn try_new(name: &str) -> Option<Self> {
        fits(name, NODE_POOL).then(|| Self(name.to_owned()))
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for NodePoolName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for ExternalAuthName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_digits_and_hyphens_of_limited_length() {
        for good in ["a", "First", "a-1", &"x".repeat(54)] {
            assert!(ClusterName::try_new(good).is_some(), "{good}");
        }
        for bad in ["", "1a", "-a", "a-", "a_b", "ä", "a.b", &"x".repeat(55)] {
            assert!(ClusterName::try_new(bad).is_none(), "{bad}");
        }
        assert!(NodePoolName::try_new(&"x".repeat(15)).is_some());
        assert!(NodePoolName::try_new(&"x".repeat(16)).is_none());
    }
}
