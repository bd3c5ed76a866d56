//! How soon after a PUT the backend has called Clusters Service, seen from there.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use http::StatusCode;
use pilothouse_clusters_service_api::simulated::{Fault, Simulated};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::body::Place;
use super::load::{Connection, Request};
use super::provider::Provider;
use crate::harness::{Budget, Figure, Progress, Report, Samples, Size};

const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn measure(
    provider: &Provider,
    place: &Place,
    clusters_service: &Simulated,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    Progress.say("from a PUT to the call of the backend");
    let (called_tx, mut called_rx) = mpsc::unbounded_channel();
    // A fault that never happens: who decides that is shown every call as it comes in.
    clusters_service.inject(Fault::Unavailable, move |call| {
        if call.is_creation() {
            // Nobody listens any more once this is measured.
            let _ = called_tx.send(Instant::now());
        }
        false
    });
    let mut connection = Connection::open(provider.address()).await?;
    let (mut called, mut answered) = (Samples::default(), Samples::default());
    for number in 0..size.pick(500, 20) {
        let name = format!("reaction-{number}");
        let request = Request::put(&place.cluster_named(&name), &place.body(&name));
        let start = Instant::now();
        let answer = connection.call(&request).await?;
        let body = || String::from_utf8_lossy(&answer.body);
        ensure!(answer.status == StatusCode::CREATED, "{}: {}", answer.status, body());
        answered.push_milliseconds(start.elapsed());
        let seen = timeout(PATIENCE, called_rx.recv()).await.context("the backend never called")?;
        called.push_milliseconds(seen.context("Clusters Service is gone")?.duration_since(start));
    }
    clusters_service.clear_faults();
    let note = format!("{} PUTs one after another, seen at the simulated service", called.len());
    report.figure(Figure::new("PUT → answered, p50", answered.median(), "ms").note(note.clone()));
    let name = |which: &str| format!("PUT → backend has called Clusters Service, {which}");
    report.figure(Figure::new(name("p50"), called.median(), "ms").note(note.clone()));
    report.figure(
        Figure::new(name("p99"), called.percentile(99.0), "ms").budget(Budget::Below(20.0)).note(note),
    );
    Ok(())
}
