//! Who is to fall where.

use std::collections::{BTreeMap, VecDeque};

use pilothouse_runtime::fault::is_common;

use super::operation::{LIFE, Operation};
use crate::flow::Flow;

/// Where a component falls that passes no point, because it writes nothing: when the request has been accepted.
pub(super) const ACCEPTED: &str = "accepted";

/// How often it is tried in a short run that somebody falls: each time elsewhere if possible, since not every passing comes in
/// every life.
const TRIES: usize = 6;

/// Before how many kinds of writes a component is cut off, at most, in each operation of a long run.
const CUTS: usize = 4;

/// How a component falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fall {
    Kill,
    /// It is cut off; what cannot be cut off from anybody stands still instead.
    Cut,
}

/// A point, and the how manieth time that it is passed in an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passing {
    pub(super) point: String,
    pub(super) time: usize,
}

/// Which points each component passes in which operation, in their order.
pub(super) type Passed = BTreeMap<(&'static str, Operation), Vec<Passing>>;

/// A component is to fall in an operation: at the first of these passings, and if that does not come, at the next one in the next life.
pub(super) struct Attempt {
    pub(super) component: &'static str,
    pub(super) fall: Fall,
    pub(super) passings: VecDeque<Passing>,
}

/// All that are to come, by the operation.
pub(super) struct Attempts(BTreeMap<Operation, VecDeque<Attempt>>);

// === impl Attempts ===

impl Attempts {
    /// Every passing of every component that is worth it, once in each way.
    pub(super) fn all<F: Flow>(passed: &Passed) -> Self {
        let mut attempts = Self(BTreeMap::new());
        for component in F::COMPONENTS {
            for operation in LIFE {
                for fall in [Fall::Kill, Fall::Cut] {
                    for passing in fall.wanted(&passed[&(*component, operation)]) {
                        let passings = VecDeque::from([passing]);
                        attempts.put(operation, Attempt { component, fall, passings });
                    }
                }
            }
        }
        attempts
    }

    /// Every component in each operation in which it has a part: killed, and in one of them cut off.
    pub(super) fn some<F: Flow>(passed: &Passed) -> Self {
        let mut attempts = Self(BTreeMap::new());
        for (place, component) in F::COMPONENTS.iter().enumerate() {
            let first = |operation| first(&passed[&(*component, operation)]);
            let operations: Vec<_> =
                LIFE.into_iter().filter(|operation| !first(*operation).is_empty()).collect();
            let falls = F::falls(component);
            for round in 0..falls {
                for (index, operation) in operations.iter().enumerate() {
                    let is_cut = (place + round) % operations.len() == index;
                    let fall = if is_cut { Fall::Cut } else { Fall::Kill };
                    // Points of all parts of the way, and others in every operation and for every component.
                    let points = first(*operation);
                    let begin = round * points.len() / falls + place + index;
                    let passings =
                        points.iter().cycle().skip(begin % points.len()).take(TRIES).cloned().collect();
                    attempts.put(*operation, Attempt { component, fall, passings });
                }
            }
        }
        attempts
    }

    /// One more, after those that are there already.
    pub(super) fn put(&mut self, operation: Operation, attempt: Attempt) {
        self.0.entry(operation).or_default().push_back(attempt);
    }

    /// The next one of an operation.
    pub(super) fn take(&mut self, operation: Operation) -> Option<Attempt> {
        self.0.get_mut(&operation)?.pop_front()
    }

    /// How many there are, of all operations or of those from this one on.
    pub(super) fn left(&self, from: Operation) -> usize {
        self.0.range(from..).map(|(_, queue)| queue.len()).sum()
    }
}

/// Of the passings of each point the first, in the order in which they came. Names of points are what a short run goes by.
fn first(passings: &[Passing]) -> Vec<Passing> {
    passings.iter().filter(|passing| passing.time == 1).cloned().collect()
}

// === impl Fall ===

impl Fall {
    /// The passings at which a component falls like this in a long run, in the order in which they came. Of each of its own points
    /// it is killed the first time and the last, and cut off in the middle. Of each kind of write that every service has it is
    /// killed before the first and after the last one, and cut off before some of them.
    fn wanted(self, passings: &[Passing]) -> Vec<Passing> {
        let times = |point: &str| passings.iter().filter(|other| other.point == point).count();
        let is_first_write =
            |Passing { point, time }: &Passing| is_common(point) && point.ends_with(".before") && *time == 1;
        let writes: Vec<_> = passings.iter().filter(|passing| is_first_write(passing)).collect();
        let cut: Vec<_> = writes.chunks(writes.len().div_ceil(CUTS).max(1)).map(|some| some[0]).collect();
        let is_wanted = |passing: &Passing| {
            let Passing { point, time } = passing;
            let times = times(point);
            match self {
                Self::Kill if is_common(point) => {
                    is_first_write(passing) || (point.ends_with(".after") && *time == times)
                }
                Self::Kill => [1, times].contains(time),
                Self::Cut if is_common(point) => cut.contains(&passing),
                Self::Cut => times.div_ceil(2) == *time,
            }
        };
        passings.iter().filter(|passing| is_wanted(passing)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn component_is_killed_at_each_kind_of_write_and_at_each_point_of_its_own() {
        let passing = |(point, time): &(&str, usize)| Passing { point: (*point).to_owned(), time: *time };
        let pods = ["kubernetes.write.patch.pods.before", "kubernetes.write.patch.pods.after"];
        let [before, after] = pods;
        let own = "agent.save.before";
        let all: Vec<_> = [(before, 1), (after, 1), (own, 1), (own, 2), (own, 3), (before, 2), (after, 2)]
            .iter()
            .map(passing)
            .collect();
        let kills: Vec<_> = [(before, 1), (own, 1), (own, 3), (after, 2)].iter().map(passing).collect();
        assert_eq!(Fall::Kill.wanted(&all), kills);
        let cuts: Vec<_> = [(before, 1), (own, 2)].iter().map(passing).collect();
        assert_eq!(Fall::Cut.wanted(&all), cuts);
    }
}
