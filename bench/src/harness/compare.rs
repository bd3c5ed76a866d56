//! Two things measured in turns, so that whatever else the machine does hits both.

use super::Samples;

/// Measurements of two sides, taken pair by pair.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) first: Samples,
    pub(crate) second: Samples,
    /// First over second, pair by pair.
    pub(crate) ratios: Samples,
}

impl Comparison {
    pub(crate) fn push(&mut self, first: f64, second: f64) {
        self.first.push(first);
        self.second.push(second);
        self.ratios.push(first / second);
    }

    /// The ratio of each pair, of which the median: a disturbance of one pair does not move it.
    pub(crate) fn ratio(&self) -> f64 {
        self.ratios.median()
    }

    /// How far the pairs lie apart, for a note.
    pub(crate) fn spread(&self) -> String {
        let (smallest, largest) = (self.ratios.smallest(), self.ratios.largest());
        format!("{smallest:.2} to {largest:.2} in {} pairs", self.ratios.len())
    }
}

/// Measures both sides `rounds` times. Who is first changes from round to round, so that neither always finds the
/// caches warm.
pub(crate) async fn in_turns(
    rounds: usize,
    mut first: impl AsyncFnMut(usize) -> anyhow::Result<f64>,
    mut second: impl AsyncFnMut(usize) -> anyhow::Result<f64>,
) -> anyhow::Result<Comparison> {
    let mut comparison = Comparison::default();
    for round in 0..rounds {
        let (left, right);
        if round % 2 == 0 {
            left = first(round).await?;
            right = second(round).await?;
        } else {
            right = second(round).await?;
            left = first(round).await?;
        }
        comparison.push(left, right);
    }
    Ok(comparison)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn sides_take_turns_in_being_first() {
        let order = RefCell::new(String::new());
        let side = async |name: char, value: f64| {
            order.borrow_mut().push(name);
            anyhow::Ok(value)
        };
        let compared =
            in_turns(3, async |_| side('a', 6.0).await, async |_| side('b', 2.0).await).await.unwrap();
        assert_eq!(*order.borrow(), "abbaab");
        assert!((compared.ratio() - 3.0).abs() < f64::EPSILON);
        assert_eq!(compared.spread(), "3.00 to 3.00 in 3 pairs");
    }
}
