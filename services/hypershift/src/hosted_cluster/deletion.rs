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
    /// It stays, and this is still in it.
    Empty(Vec<String>),
    /// Nothing is left.
    Release,
}

/// Something that may already be on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remaining {
    pub(crate) name: String,
    pub(crate) going: bool,
}

/// Decides from what is still there. `kept` is what of ours is still in a namespace that is to stay.
pub(crate) fn next(pools: &[Remaining], namespace: Option<&Remaining>, kept: Option<&[String]>) -> Step {
    let waiting: Vec<_> = pools.iter().filter(|pool| !pool.going).map(|pool| pool.name.clone()).collect();
    if !waiting.is_empty() {
        return Step::DeletePools(waiting);
    }
    if !pools.is_empty() {
        return Step::AwaitPools(pools.iter().map(|pool| pool.name.clone()).collect());
    }
    match (namespace, kept) {
        (Some(namespace), _) if namespace.going => Step::AwaitNamespace,
        (Some(_), Some([])) | (None, _) => Step::Release,
        (Some(_), Some(left)) => Step::Empty(left.to_vec()),
        (Some(_), None) => Step::DeleteNamespace,
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
        assert_eq!(next(pools, namespace.as_ref(), None), step);
    }

    #[test]
    fn a_namespace_that_is_to_stay_is_emptied() {
        let (here, going) = (remaining("n", false), remaining("n", true));
        let left = ["Pod a".to_owned()];
        assert_eq!(next(&[], Some(&here), Some(&left)), Step::Empty(left.to_vec()));
        assert_eq!(next(&[], Some(&here), Some(&[])), Step::Release);
        assert_eq!(next(&[], Some(&going), Some(&left)), Step::AwaitNamespace);
        assert_eq!(
            next(&[remaining("a", true)], Some(&here), Some(&left)),
            Step::AwaitPools(vec!["a".into()])
        );
    }
}
