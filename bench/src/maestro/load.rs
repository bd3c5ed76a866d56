//! A source that publishes as fast as it is answered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse_maestro_api::{ManifestBundle, Work};
use serde_json::json;
use tokio::time::Instant;

use super::server::{Server, consumer};

/// Publishes that are under way at once.
const CONCURRENCY: usize = 64;
/// The two sizes of bundles, in bytes of their largest field.
const SMALL: usize = 3_000;
const LARGE: usize = 30_000;

/// Publishes new bundles for so long, or so many; how many were answered a second.
pub(super) async fn creates(
    server: &Server,
    prefix: &str,
    duration: Duration,
    count: usize,
) -> anyhow::Result<f64> {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    let publishers = (0..CONCURRENCY).map(|_| async {
        let mut made = 0_usize;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count || begun.elapsed() >= duration {
                return anyhow::Ok(made);
            }
            server.source.work_create(&bundle(prefix, number)).await?;
            made += 1;
        }
    });
    let made: usize = futures::future::try_join_all(publishers).await?.into_iter().sum();
    #[expect(clippy::cast_precision_loss, reason = "there are not that many")]
    Ok(made as f64 / begun.elapsed().as_secs_f64())
}

/// A bundle of one object that is never applied.
fn bundle(prefix: &str, number: usize) -> Work {
    let filler = "x".repeat(if number.is_multiple_of(2) { SMALL } else { LARGE });
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{prefix}-{number}"), "namespace": "default"}, "data": {"k": filler}});
    work(consumer(number / 2), format!("{prefix}-{number}"), format!("bundle-{number}"), manifest)
}

/// A work with one manifest, whose content is fed back.
pub(super) fn work(consumer: String, name: String, label: String, manifest: serde_json::Value) -> Work {
    Work {
        consumer,
        name,
        labels: [("api.openshift.com/id".to_owned(), label)].into(),
        bundle: ManifestBundle { manifests: vec![manifest], ..ManifestBundle::default() },
        ..Work::default()
    }
}
