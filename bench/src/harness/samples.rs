//! Many measurements of one thing.

use std::time::Duration;

/// Measurements in one unit. Never empty where a figure is asked of it; an empty one answers NaN, which prints as
/// a dash and meets no budget.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn push_milliseconds(&mut self, value: Duration) {
        self.push(value.as_secs_f64() * 1e3);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// The smallest sample that at least `percent` in 100 samples do not exceed.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank lies between zero and the number of samples"
        )]
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    /// The samples, in the order in which they were taken.
    pub(crate) fn values(&self) -> &[f64] {
        &self.0
    }

    pub(crate) fn smallest(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    pub(crate) fn largest(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_that_were_taken() {
        let samples: Samples = (1..=200).rev().map(f64::from).collect();
        for (percent, expected) in [(0.0, 1.0), (50.0, 100.0), (99.0, 198.0), (100.0, 200.0)] {
            assert!((samples.percentile(percent) - expected).abs() < f64::EPSILON, "{percent}");
        }
        assert!((samples.smallest() - 1.0).abs() < f64::EPSILON);
        assert!((samples.largest() - 200.0).abs() < f64::EPSILON);
    }

    #[test]
    fn no_samples_have_no_median() {
        assert!(Samples::default().median().is_nan());
    }
}
