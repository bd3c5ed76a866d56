//! What is left to do before a hosted cluster may go.
//!
//! Reverse order of creation: the pools and their nodes, then the control plane with everything in its namespace, then
//! what stands beside the cluster. Each pass looks again, so it does not matter how far creation or an earlier deletion
//! came.

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// These pools have not been asked to go.
    DeletePools(Vec<String>),
    /// These pools are going.
    AwaitPools(Vec<String>),
    /// The control plane's namespace has not been asked to go.
    DeleteNamespace,
    /// It is going.
    AwaitNamespace,
    /// Nothing is left.
    Release,
}

/// Something that may already be on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remaining {
    pub(crate) name: String,
    pub(crate) going: bool,
}

/// Decides from what is still there.
pub(crate) fn next(pools: &[Remaining], namespace: Option<&Remaining>) -> Step {
    let waiting: Vec<_> = pools.iter().filter(|pool| !pool.going).map(|pool| pool.name.clone()).collect();
    if !waiting.is_empty() {
        return Step::DeletePools(waiting);
    }
    if !pools.is_empty() {
        return Step::AwaitPools(pools.iter().map(|pool| pool.name.clone()).collect());
    }
    match namespace {
        Some(namespace) if namespace.going => Step::AwaitNamespace,
        Some(_) => Step::DeleteNamespace,
        None => Step::Release,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn remaining(name: &str, going: bool) -> Remaining {
        Remaining { name: name.to_owned(), going }
    }

    #[rstest]
    #[case(&[remaining("a", true), remaining("b", false)], Some(remaining("n", false)), Step::DeletePools(vec!["b".into()]))]
    #[case(&[remaining("a", true)], Some(remaining("n", true)), Step::AwaitPools(vec!["a".into()]))]
    #[case(&[], Some(remaining("n", false)), Step::DeleteNamespace)]
    #[case(&[], Some(remaining("n", true)), Step::AwaitNamespace)]
    #[case(&[], None, Step::Release)]
    fn each_step_follows_from_what_is_left(
        #[case] pools: &[Remaining],
        #[case] namespace: Option<Remaining>,
        #[case] step: Step,
    ) {
        assert_eq!(next(pools, namespace.as_ref()), step);
    }
}
