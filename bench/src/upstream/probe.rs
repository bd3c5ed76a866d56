//! Somebody who asks a cluster ten times a second, whatever happens to it.

use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use kube::Client;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::harness::Samples;

const PERIOD: Duration = Duration::from_millis(100);
/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Something that every cluster has as soon as it answers, and that is read from its store.
const OBJECT: &str = "/api/v1/namespaces/default";

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Milliseconds of every answer.
    pub(super) answers: Samples,
    /// What every other probe saw instead.
    pub(super) failures: Vec<String>,
}

impl Outcome {
    fn note(&mut self, seen: Result<Duration, String>) {
        match seen {
            Ok(took) => self.answers.push_milliseconds(took),
            Err(failure) => self.failures.push(failure),
        }
    }
}

/// Asks until `until` is over, and waits for the last answers. A slow one does not keep the next from being asked for.
pub(super) async fn during<T>(client: &Client, until: impl Future<Output = T>) -> (Outcome, T) {
    let (mut outcome, mut waiting) = (Outcome::default(), FuturesUnordered::new());
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut until = std::pin::pin!(until);
    let result = loop {
        tokio::select! {
            result = &mut until => break result,
            _ = ticks.tick() => waiting.push(ask(client)),
            Some(seen) = waiting.next() => outcome.note(seen),
        }
    };
    while let Some(seen) = waiting.next().await {
        outcome.note(seen);
    }
    (outcome, result)
}

async fn ask(client: &Client) -> Result<Duration, String> {
    let start = Instant::now();
    let request = http::Request::get(OBJECT).body(Vec::new()).map_err(|error| error.to_string())?;
    match timeout(PATIENCE, client.request_text(request)).await {
        Ok(Ok(_)) => Ok(start.elapsed()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer in {} s", PATIENCE.as_secs())),
    }
}
