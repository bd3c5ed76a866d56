//! What to do with a virtual machine.

use crate::order::Strategy;

/// What is there of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// It has been deleted and waits for what it made.
    pub(crate) going: bool,
    /// It has never had an instance.
    pub(crate) fresh: bool,
    pub(crate) instance: Option<Instance>,
    pub(crate) pods: Vec<Process>,
}

/// A VirtualMachineInstance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) uid: String,
    pub(crate) going: bool,
    /// Its pod has been seen.
    pub(crate) started: bool,
}

/// A pod of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) name: String,
    /// The instance that it belongs to.
    pub(crate) instance: String,
    pub(crate) going: bool,
    pub(crate) ended: Option<Ending>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Well,
    Badly,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Make the instance, and its pod.
    CreateInstance,
    /// Make the pod of the instance.
    CreatePod,
    /// Ask this pod to go.
    DeletePod(String),
    /// Remove the instance.
    DeleteInstance,
    /// Nothing is left: the machine may go.
    Release,
}

/// What brings a machine closer to what it asks for.
pub(crate) fn plan(strategy: Strategy, observed: &Observed) -> Vec<Step> {
    let instance = observed.instance.as_ref();
    let own =
        instance.and_then(|instance| observed.pods.iter().find(|process| process.instance == instance.uid));
    let wanted = !observed.going
        && match strategy {
            Strategy::Always | Strategy::RerunOnFailure => true,
            Strategy::Once => observed.fresh || instance.is_some(),
            // Whoever wants it makes the instance.
            Strategy::Manual => instance.is_some(),
            Strategy::Halted => false,
        };
    let over = match (instance, own) {
        (None, _) => false,
        (Some(instance), None) => instance.started,
        (Some(_), Some(process)) => match (strategy, process.ended) {
            (_, None) => false,
            (Strategy::Always, Some(_)) | (Strategy::RerunOnFailure, Some(Ending::Badly)) => true,
            (_, Some(_)) => false,
        },
    };
    let kept = instance.filter(|instance| wanted && !over && !instance.going);
    let stale = observed.pods.iter().filter(|process| kept.is_none_or(|kept| kept.uid != process.instance));
    let mut steps: Vec<_> = stale
        .clone()
        .filter(|process| !process.going)
        .map(|process| Step::DeletePod(process.name.clone()))
        .collect();
    match (kept, instance) {
        (Some(_), _) if own.is_none() && stale.count() == 0 => steps.push(Step::CreatePod),
        (Some(_), _) => {}
        (None, Some(instance)) if !instance.going => steps.push(Step::DeleteInstance),
        (None, Some(_)) => {}
        (None, None) if wanted && observed.pods.is_empty() => steps.push(Step::CreateInstance),
        (None, None) if observed.going && observed.pods.is_empty() => steps.push(Step::Release),
        (None, None) => {}
    }
    steps
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `gone` is a machine that was deleted, `new` one that never ran; `i` an instance and `i+` one whose pod has been seen; `p` its pod, `p~` one that is
    /// going, `px` one that failed and `pk` one that ended well; `q` is a pod of an earlier instance.
    fn observed(text: &str) -> Observed {
        let mut observed = Observed::default();
        for word in text.split_whitespace() {
            let process = |instance: &str| Process {
                name: word[..1].to_owned(),
                instance: instance.to_owned(),
                going: word.contains('~'),
                ended: match () {
                    () if word.contains('x') => Some(Ending::Badly),
                    () if word.contains('k') => Some(Ending::Well),
                    () => None,
                },
            };
            match &word[..1] {
                "g" => observed.going = true,
                "n" => observed.fresh = true,
                "i" => {
                    observed.instance = Some(Instance {
                        uid: "one".to_owned(),
                        going: word.contains('~'),
                        started: word.contains('+'),
                    });
                }
                "p" => observed.pods.push(process("one")),
                _ => observed.pods.push(process("earlier")),
            }
        }
        observed
    }

    fn planned(strategy: Strategy, text: &str) -> String {
        let steps = plan(strategy, &observed(text)).into_iter().map(|step| match step {
            Step::CreateInstance => "+i".to_owned(),
            Step::CreatePod => "+p".to_owned(),
            Step::DeletePod(name) => format!("-{name}"),
            Step::DeleteInstance => "-i".to_owned(),
            Step::Release => "release".to_owned(),
        });
        steps.collect::<Vec<_>>().join(" ")
    }

    #[rstest]
    #[case("", "+i")]
    #[case("i", "+p")]
    #[case("i p", "")]
    #[case("i+ p", "")]
    #[case("i+", "-i")] // somebody took its pod away
    #[case("i+ px", "-p -i")]
    #[case("i+ p~", "")]
    #[case("p~", "")] // nothing new before the last one is gone
    #[case("q", "-q")]
    #[case("i q", "-q")]
    #[case("i q~", "")]
    #[case("i~ p", "-p")]
    #[case("gone i+ p", "-p -i")]
    #[case("gone p~", "")]
    #[case("gone", "release")]
    fn a_machine_that_should_run_has_one_instance_with_one_pod(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(planned(Strategy::Always, text), expected);
    }

    #[rstest]
    #[case(Strategy::Halted, "", "")]
    #[case(Strategy::Halted, "i+ p", "-p -i")]
    #[case(Strategy::Halted, "p~", "")]
    #[case(Strategy::Manual, "", "")]
    #[case(Strategy::Manual, "i", "+p")]
    #[case(Strategy::RerunOnFailure, "i+ px", "-p -i")]
    #[case(Strategy::RerunOnFailure, "i+ pk", "")]
    #[case(Strategy::Always, "i+ pk", "-p -i")]
    #[case(Strategy::Once, "new", "+i")]
    #[case(Strategy::Once, "", "")]
    #[case(Strategy::Once, "i+ px", "")]
    fn each_strategy_starts_and_stops_as_it_says(
        #[case] strategy: Strategy,
        #[case] text: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(planned(strategy, text), expected);
    }
}
