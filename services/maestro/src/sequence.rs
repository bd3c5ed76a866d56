//! Numbers that order the statuses of one agent: milliseconds, a node, and a step within the millisecond.
//!
//! The node is always 1: whoever compares refuses numbers of different nodes, and an agent may take over from another.

use std::sync::{Mutex, PoisonError};

use pilothouse_runtime::Clock;

/// 2010-11-04, in milliseconds.
const EPOCH: i64 = 1_288_834_974_657;
const NODE: u64 = 1;
const STEP_BITS: u32 = 12;
const NODE_BITS: u32 = 10;

/// Gives numbers out, each greater than the one before, also when the clock goes back.
#[derive(Debug)]
pub(crate) struct Sequence {
    clock: Clock,
    last: Mutex<(u64, u64)>,
}

/// A number that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceId(u64);

impl Sequence {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, last: Mutex::default() }
    }

    /// Gives out nothing from now on that is not greater than this one, which was given out before a restart.
    pub(crate) fn resume(&self, id: &str) {
        let Some(SequenceId(id)) = SequenceId::parse(id) else { return };
        let known = (id >> (NODE_BITS + STEP_BITS), id & ((1 << STEP_BITS) - 1));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = known.max(*last);
    }

    /// The last one that was given out.
    pub(crate) fn last(&self) -> String {
        let (time, step) = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        number(time, step)
    }

    pub(crate) fn next(&self) -> String {
        let now = u64::try_from(self.clock.now().as_millisecond() - EPOCH).unwrap_or_default();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (time, step) = *last;
        *last = if now > time {
            (now, 0)
        } else if step + 1 < 1 << STEP_BITS {
            (time, step + 1)
        } else {
            (time + 1, 0)
        };
        let (time, step) = *last;
        number(time, step)
    }
}

fn number(time: u64, step: u64) -> String {
    let id = (time << (NODE_BITS + STEP_BITS)) | (NODE << STEP_BITS) | step;
    id.to_string()
}

impl SequenceId {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    /// Whether it is newer; `None` if the two cannot be compared.
    pub(crate) fn is_newer_than(self, other: Self) -> Option<bool> {
        let node = |id: u64| (id >> STEP_BITS) & ((1 << NODE_BITS) - 1);
        (node(self.0) == node(other.0)).then_some(self.0 > other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_the_published_sample_comes_out_at_its_moment() {
        let (clock, _) = Clock::manual("2026-01-02T03:04:05.250Z".parse().unwrap());
        assert_eq!(Sequence::new(clock).next(), "2006924428440506368");
    }

    #[test]
    fn numbers_grow_within_a_millisecond_and_when_the_clock_goes_back() {
        let (clock, hand) = Clock::manual("2026-01-02T00:00:00Z".parse().unwrap());
        let sequence = Sequence::new(clock);
        let mut last = SequenceId::parse(&sequence.next()).unwrap();
        for round in 0..10_000 {
            if round == 5_000 {
                hand.set("2026-01-01T00:00:00Z".parse().unwrap());
            }
            let next = SequenceId::parse(&sequence.next()).unwrap();
            assert_eq!(next.is_newer_than(last), Some(true));
            last = next;
        }
        assert_eq!(last.is_newer_than(last), Some(false));
    }

    #[test]
    fn numbers_go_on_after_a_restart_whatever_the_clock_says() {
        let (clock, hand) = Clock::manual("2026-01-02T00:00:00Z".parse().unwrap());
        let before = Sequence::new(clock.clone());
        before.next();
        let given = SequenceId::parse(&before.next()).unwrap();
        hand.set("2026-01-01T00:00:00Z".parse().unwrap());
        let after = Sequence::new(clock);
        after.resume(&before.last());
        let next = SequenceId::parse(&after.next()).unwrap();
        assert_eq!(next.is_newer_than(given), Some(true));
    }

    #[test]
    fn numbers_of_another_node_cannot_be_compared() {
        let one = SequenceId(1 << 12);
        let two = SequenceId(2 << 12);
        assert_eq!(two.is_newer_than(one), None);
        assert!(SequenceId::parse("2006924428440506368").is_some());
        assert_eq!(SequenceId::parse("x"), None);
    }
}
