//! What the pods of this node use: the processors, as a rate over a real window, and the memory.
//!
//! Nothing is measured unless somebody asks. Whoever asks gets the difference to the last look, if that was not too long
//! ago; the first to ask after a while waits for a second look. Numbers come from the pods' control groups, or where there are
//! none from the processes themselves.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::cgroups::group::Usage;
use crate::config::Config;
use crate::pods::Pods;

mod processes;
mod resource_metrics;
mod sampling;
mod summary;

/// The shortest window that says something, and the longest that is still about now.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(90);

/// Measures on demand. A cheap handle.
#[derive(Clone)]
pub(crate) struct Statistics {
    inner: Arc<Inner>,
}

struct Inner {
    pods: Pods,
    config: Config,
    /// The last two looks, the newer one last.
    looks: Mutex<Vec<Arc<Sample>>>,
}

/// One look at everything.
#[derive(Debug)]
struct Sample {
    taken: Instant,
    at: Timestamp,
    node: Usage,
    pods: Vec<PodSample>,
}

#[derive(Debug)]
struct PodSample {
    namespace: String,
    name: String,
    uid: String,
    started_at: Timestamp,
    usage: Usage,
    containers: Vec<ContainerSample>,
}

#[derive(Debug)]
struct ContainerSample {
    name: String,
    started_at: Timestamp,
    usage: Usage,
}

/// Two looks.
struct Measured {
    before: Arc<Sample>,
    after: Arc<Sample>,
}

/// What to do with the looks there are.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The two are good as they are.
    Use,
    /// One more, to be compared with the newer one.
    Look,
    /// Two more, a moment apart.
    LookTwice,
}

// === impl Statistics ===

impl Statistics {
    pub(crate) fn new(pods: Pods, config: Config) -> Self {
        Self { inner: Arc::new(Inner { pods, config, looks: Mutex::default() }) }
    }

    /// The document that metrics collectors read, and the window its rates are over.
    pub(crate) async fn summary(&self) -> (serde_json::Value, Duration) {
        let measured = self.measure().await;
        (summary::document(&self.inner.config, &measured), measured.window())
    }

    /// The counters behind it, as text.
    pub(crate) async fn resource_metrics(&self) -> String {
        let sample = self.look().await;
        resource_metrics::text(&sample)
    }

    async fn measure(&self) -> Measured {
        // Whoever comes meanwhile waits, and finds what they wait for.
        let mut looks = self.inner.looks.lock().await;
        let ages: Vec<_> = looks.iter().map(|sample| sample.taken.elapsed()).collect();
        match step(&ages) {
            Step::Use => {}
            Step::Look => {
                looks.push(self.look().await);
            }
            Step::LookTwice => {
                looks.push(self.look().await);
                tokio::time::sleep(SHORTEST).await;
                looks.push(self.look().await);
            }
        }
        let superfluous = looks.len().saturating_sub(2);
        looks.drain(..superfluous);
        Measured { before: looks[0].clone(), after: looks[1].clone() }
    }

    async fn look(&self) -> Arc<Sample> {
        let inner = self.inner.clone();
        // Some files per pod, each of which the kernel has to put together first.
        let look = tokio::task::spawn_blocking(move || sampling::sample(&inner.pods));
        Arc::new(look.await.unwrap_or_else(|_| Sample {
            taken: Instant::now(),
            at: self.inner.pods.now(),
            node: Usage::default(),
            pods: Vec::new(),
        }))
    }
}

/// By the ages of the looks there are, the oldest first.
fn step(ages: &[Duration]) -> Step {
    match ages {
        [_, newer] if *newer < SHORTEST => Step::Use,
        [.., newer] if (SHORTEST..=LONGEST).contains(newer) => Step::Look,
        _ => Step::LookTwice,
    }
}

// === impl Measured ===

impl Measured {
    fn window(&self) -> Duration {
        self.after.taken.duration_since(self.before.taken)
    }

    /// Billionths of a processor.
    fn rate(&self, before: Option<Usage>, after: Usage) -> u64 {
        // What was not there before has used everything since.
        let used = after.processor.saturating_sub(before.map(|usage| usage.processor).unwrap_or_default());
        let window = self.window().as_nanos().max(1);
        u64::try_from(u128::from(used) * 1_000_000_000 / window).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_neither_too_short_nor_too_long_ago() {
        let milliseconds =
            |ages: &[u64]| -> Vec<Duration> { ages.iter().map(|age| Duration::from_millis(*age)).collect() };
        for (ages, expected) in [
            (&[][..], Step::LookTwice),
            (&[5000, 300], Step::Use),
            (&[5000, 1000], Step::Look),
            (&[200_000, 80_000], Step::Look),
            (&[200_000, 100_000], Step::LookTwice),
        ] {
            assert_eq!(step(&milliseconds(ages)), expected, "{ages:?}");
        }
    }
}
