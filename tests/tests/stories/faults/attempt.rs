//! Who is to fall where.

use std::cmp::Reverse;
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

/// How often a component falls in one operation of a long run, each time later than the time before.
const FALLS: usize = 3;
/// How many falls that may be, of all of them.
const TOGETHER: usize = 6;

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

/// A component is to fall in an operation: at the first of these passings, and if that does not come, at the next one in a later life.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) component: &'static str,
    pub(super) fall: Fall,
    pub(super) passings: VecDeque<Passing>,
}

/// All that are to come.
///
/// A long run has so many of them that several share a life: some components fall in the same operation, and each more than once.
/// What does not come then, because of what the others did, is tried again in an operation of its own.
pub(super) struct Attempts {
    /// Those that may come together, in the order in which their component passes them.
    together: BTreeMap<(Operation, &'static str), VecDeque<Attempt>>,
    alone: BTreeMap<Operation, VecDeque<Attempt>>,
}

// === impl Attempts ===

impl Attempts {
    const fn none() -> Self {
        Self { together: BTreeMap::new(), alone: BTreeMap::new() }
    }

    /// Every passing of every component that is worth it, once in each way.
    pub(super) fn all<F: Flow>(passed: &Passed) -> Self {
        let mut attempts = Self::none();
        for component in F::COMPONENTS {
            for operation in LIFE {
                let passings = &passed[&(*component, operation)];
                let wanted = [Fall::Kill, Fall::Cut].map(|fall| (fall, fall.wanted(passings)));
                for passing in passings {
                    for (fall, _) in wanted.iter().filter(|(_, wanted)| wanted.contains(passing)) {
                        // Once in company, and once alone.
                        let passings = VecDeque::from([passing.clone(), passing.clone()]);
                        let attempt = Attempt { component, fall: *fall, passings };
                        attempts.together.entry((operation, component)).or_default().push_back(attempt);
                    }
                }
            }
        }
        attempts
    }

    /// Every component in each operation in which it has a part: killed, and in one of them cut off.
    pub(super) fn some<F: Flow>(passed: &Passed) -> Self {
        let mut attempts = Self::none();
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

    /// One more that nobody else is to disturb, after those that are there already.
    pub(super) fn put(&mut self, operation: Operation, attempt: Attempt) {
        self.alone.entry(operation).or_default().push_back(attempt);
    }

    /// The next ones of an operation: of each component those that come one after the other.
    pub(super) fn take<F: Flow>(&mut self, operation: Operation) -> Vec<VecDeque<Attempt>> {
        let mut queues: Vec<_> = self
            .together
            .iter_mut()
            .filter(|((of, _), queue)| *of == operation && !queue.is_empty())
            .map(|(_, queue)| queue)
            .collect();
        if queues.is_empty() {
            let next = self.alone.get_mut(&operation).and_then(VecDeque::pop_front);
            return next.map(|attempt| VecDeque::from([attempt])).into_iter().collect();
        }
        // Who has most of them decides how many lives it takes.
        queues.sort_by_key(|queue| Reverse(queue.len()));
        queues.truncate(F::COMPANY);
        let falls = FALLS.min(TOGETHER / queues.len());
        queues.into_iter().map(|queue| take_apart(queue, falls)).collect()
    }

    /// How many there are, of all operations or of those from this one on.
    pub(super) fn left(&self, from: Operation) -> usize {
        let together = self.together.iter().filter(|((of, _), _)| *of >= from).map(|(_, queue)| queue);
        together.chain(self.alone.range(from..).map(|(_, queue)| queue)).map(VecDeque::len).sum()
    }
}

/// Takes out so many, as far from one another as they are, in their order.
fn take_apart<T>(queue: &mut VecDeque<T>, number: usize) -> VecDeque<T> {
    let number = number.min(queue.len());
    let length = queue.len();
    let mut taken = VecDeque::new();
    for place in (0..number).rev() {
        taken.extend(queue.remove(place * length / number));
    }
    taken.into_iter().rev().collect()
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

    #[test]
    fn falls_of_one_life_are_apart_from_one_another_and_come_in_their_order() {
        let mut queue: VecDeque<_> = (0..7).collect();
        let mut take = || take_apart(&mut queue, 3).into_iter().collect::<Vec<_>>();
        assert_eq!([take(), take(), take(), take()], [vec![0, 2, 4], vec![1, 3, 5], vec![6], vec![]]);
    }
}
