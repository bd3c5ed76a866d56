//! Which workers to make and which to remove.
//!
//! Workers have ordinals, and the lowest free one is taken. So a pass over a cache that is behind makes the same workers
//! again, which is refused, instead of more of them.

use std::collections::BTreeSet;

use jiff::Timestamp;

/// A worker's pod, and what the hosted cluster says of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) created: Option<Timestamp>,
    /// Of the release and configuration it was made with.
    pub(crate) config_hash: String,
    /// It has been asked to go.
    pub(crate) going: bool,
    /// It has ended and will not come back by itself.
    pub(crate) ended: bool,
    /// Whether its node is ready; `None` while there is no node.
    pub(crate) ready: Option<bool>,
    /// What keeps it from being ready.
    pub(crate) state: String,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make a worker of this name.
    Create(String),
    /// Ask this worker to go.
    Delete(String),
}

/// What brings the pool closer to `desired` workers of this configuration.
pub(crate) fn plan(pool: &str, desired: usize, config_hash: &str, workers: &[Worker]) -> Vec<Action> {
    let mut actions: Vec<_> = workers
        .iter()
        .filter(|worker| worker.ended && !worker.going)
        .map(|worker| Action::Delete(worker.name.clone()))
        .collect();
    let mut alive: Vec<_> = workers.iter().filter(|worker| !worker.going && !worker.ended).collect();
    alive.sort_by_key(|worker| (worker.created, ordinal(pool, &worker.name)));
    let (current, outdated): (Vec<&Worker>, Vec<&Worker>) =
        alive.iter().copied().partition(|worker| worker.config_hash == config_hash);

    // One more while workers are replaced, so that no capacity is missing meanwhile.
    let most = desired + usize::from(!outdated.is_empty());
    let missing = desired.saturating_sub(current.len()).min(most.saturating_sub(alive.len()));
    actions.extend(free_names(pool, workers).take(missing).map(Action::Create));

    let surplus = alive.len().saturating_sub(desired);
    let mut ready = alive.iter().filter(|worker| worker.ready == Some(true)).count();
    let replaceable = outdated.iter().rev().filter(|worker| {
        if worker.ready != Some(true) {
            return true;
        }
        let spare = ready > desired;
        ready -= usize::from(spare);
        spare
    });
    let removed: Vec<_> = replaceable.take(surplus).collect();
    // The newest first: it has the least to lose.
    let too_many = current.iter().rev().take(surplus.min(current.len().saturating_sub(desired)));
    actions.extend(removed.into_iter().chain(too_many).map(|worker| Action::Delete(worker.name.clone())));
    actions
}

fn free_names<'a>(pool: &'a str, workers: &[Worker]) -> impl Iterator<Item = String> + 'a {
    let taken: BTreeSet<_> = workers.iter().filter_map(|worker| ordinal(pool, &worker.name)).collect();
    (0..).filter(move |ordinal| !taken.contains(ordinal)).map(move |ordinal| format!("{pool}-{ordinal}"))
}

fn ordinal(pool: &str, worker: &str) -> Option<u32> {
    worker.strip_prefix(pool)?.strip_prefix('-')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `0` is a ready worker with that ordinal; `0-` one whose node is not ready, `0x` one that ended, `0~` one that is
    /// going, `0*` a ready one of an older configuration.
    fn workers(text: &str) -> Vec<Worker> {
        text.split_whitespace()
            .map(|word| {
                let digits = word.trim_end_matches(|mark: char| !mark.is_ascii_digit());
                Worker {
                    name: format!("pool-{digits}"),
                    created: Some(Timestamp::UNIX_EPOCH),
                    config_hash: if word.contains('*') { "old" } else { "new" }.to_owned(),
                    going: word.contains('~'),
                    ended: word.contains('x'),
                    ready: Some(!word.contains('-')),
                    state: String::new(),
                }
            })
            .collect()
    }

    fn planned(desired: usize, text: &str) -> String {
        let actions = plan("pool", desired, "new", &workers(text));
        let words = actions.iter().map(|action| match action {
            Action::Create(name) => format!("+{}", name.trim_start_matches("pool-")),
            Action::Delete(name) => format!("-{}", name.trim_start_matches("pool-")),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[rstest]
    #[case(0, "", "")]
    #[case(3, "", "+0 +1 +2")]
    #[case(3, "0 1 2", "")]
    #[case(3, "0 2", "+1")]
    #[case(2, "0 1~", "+2")] // the name is taken until its pod is gone
    #[case(1, "0 1 2", "-2 -1")] // the newest first
    #[case(0, "0 1-", "-1 -0")]
    #[case(2, "0 1x", "-1 +2")] // what ended is replaced
    #[case(1, "0 1 2~", "-1")]
    #[case(2, "9 10", "")]
    #[case(1, "9 10", "-10")] // by number, not by letter
    fn workers_follow_the_number_asked_for(
        #[case] desired: usize,
        #[case] text: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(planned(desired, text), expected);
    }

    #[rstest]
    #[case(2, "0* 1*", "+2")] // one more first
    #[case(2, "0* 1* 2-", "")] // it is not ready yet
    #[case(2, "0* 1* 2", "-1")]
    #[case(2, "0* 1*~ 2", "+3")]
    #[case(2, "0* 2 3", "-0")]
    #[case(2, "2 3", "")]
    #[case(1, "0*", "+1")]
    #[case(1, "0* 1* 2*", "-2 -1")] // fewer are wanted as well
    fn outdated_workers_are_replaced_without_a_gap(
        #[case] desired: usize,
        #[case] text: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(planned(desired, text), expected);
    }

    #[test]
    fn a_replacement_comes_to_an_end() {
        let mut text = "0* 1* 2*".to_owned();
        for _ in 0..20 {
            let actions = planned(3, &text);
            if actions.is_empty() {
                break;
            }
            for action in actions.split_whitespace() {
                match action.split_at(1) {
                    ("+", name) => text = format!("{text} {name}"),
                    (_, name) => {
                        let kept = text.split_whitespace().filter(|word| word.trim_end_matches('*') != name);
                        text = kept.collect::<Vec<_>>().join(" ");
                    }
                }
            }
        }
        assert_eq!(planned(3, &text), "");
        assert_eq!(text.split_whitespace().count(), 3);
        assert!(!text.contains('*'), "{text}");
    }
}
