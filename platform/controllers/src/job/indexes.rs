//! Sets of completion indexes, as a job's status writes them: `0-2,5`.

use std::fmt;

/// A set of indexes, kept as runs without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes {
    /// First and last of each run, ascending, never touching one another.
    runs: Vec<(i32, i32)>,
}

impl Indexes {
    /// Reads what a status says. What is not understood, or not below `end`, is left out.
    pub(super) fn parse(text: Option<&str>, end: i32) -> Self {
        let mut set = Self::default();
        for part in text.unwrap_or_default().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.trim().parse::<i32>(), last.trim().parse::<i32>()) {
                set.add_run(first.max(0), last.min(end.saturating_sub(1)));
            }
        }
        set
    }

    pub(super) fn insert(&mut self, index: i32) {
        self.add_run(index, index);
    }

    pub(super) fn contains(&self, index: i32) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= index);
        after > 0 && self.runs[after - 1].1 >= index
    }

    pub(super) fn len(&self) -> i32 {
        self.runs.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many are in both.
    pub(super) fn common(&self, other: &Self) -> i32 {
        let mut count = 0;
        for (first, last) in &self.runs {
            for (other_first, other_last) in &other.runs {
                count += ((*last).min(*other_last) - (*first).max(*other_first) + 1).max(0);
            }
        }
        count
    }

    /// As a status writes it: nothing at all if it is empty.
    pub(super) fn to_status(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.to_string())
    }

    fn add_run(&mut self, first: i32, last: i32) {
        if last < first {
            return;
        }
        let start = self.runs.partition_point(|(_, other)| other.saturating_add(1) < first);
        let end = self.runs.partition_point(|(other, _)| *other <= last.saturating_add(1));
        let merged = self.runs[start..end]
            .iter()
            .fold((first, last), |(first, last), run| (first.min(run.0), last.max(run.1)));
        self.runs.splice(start..end, [merged]);
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (first, last)) in self.runs.iter().enumerate() {
            let separator = if number == 0 { "" } else { "," };
            match last - first {
                0 => write!(formatter, "{separator}{first}")?,
                1 => write!(formatter, "{separator}{first},{last}")?,
                _ => write!(formatter, "{separator}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_together_and_are_written_as_kubectl_reads_them() {
        let mut set = Indexes::parse(Some("1,3-4,9,junk,7-200"), 10);
        assert_eq!(set.to_string(), "1,3,4,7-9");
        set.insert(2);
        set.insert(2);
        assert_eq!((set.to_string().as_str(), set.len()), ("1-4,7-9", 7));
        assert!(set.contains(4) && !set.contains(5) && !set.contains(0) && set.contains(9));
        assert_eq!(set.common(&Indexes::parse(Some("0-2,8"), 10)), 3);
        assert_eq!(Indexes::parse(Some(""), 3).to_status(), None);
    }
}
