use crate::digest::sha256_hex;

/// Where works come from. Whatever two agents apply in one cluster is told apart by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hub {
    hash: String,
    agent: String,
}

impl Hub {
    /// The hub of this name, whose agent has the same.
    ///
    /// Other implementations use the address they connect to. A name is better, since addresses change; whoever takes
    /// over from one of those names the address.
    pub fn new(name: &str) -> Self {
        let hash = sha256_hex(name.as_bytes());
        Self { agent: hash.clone(), hash }
    }

    /// The hash of its name.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// What its agent is called.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// What the record of a work is called.
    pub(crate) fn record_name(&self, work: &str) -> String {
        format!("{}-{work}", self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_the_one_other_agents_compute() {
        assert_eq!(
            Hub::new("localhost:1883").hash(),
            "078211c36a8fa68cdfea42739cdab9b05d0f87eff05af111e2c281b681727a21"
        );
    }
}
