//! How long a run is.

/// A full run gives figures; a sample only shows that the benchmark works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Full,
    Sample,
}

impl Size {
    pub(crate) fn of(sample: bool) -> Self {
        if sample { Self::Sample } else { Self::Full }
    }

    /// One of two values.
    pub(crate) fn pick<T>(self, full: T, sample: T) -> T {
        match self {
            Self::Full => full,
            Self::Sample => sample,
        }
    }
}
