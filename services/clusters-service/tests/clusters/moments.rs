//! When a creation came past its steps, as its record keeps it.

use std::time::Duration;

use jiff::Timestamp;
use pilothouse_clusters_service_api::ClusterState;
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::maestro::{hosted_cluster_report, managed_cluster_report};
use crate::support::{PATIENCE, World, new_cluster};

const SECOND: Duration = Duration::from_secs(1);

fn at(moment: &str) -> Option<Timestamp> {
    Some(format!("2026-01-01T00:00:{moment}Z").parse().unwrap())
}

/// The number that an agent orders a report with that it makes then.
fn sequence(moment: Option<Timestamp>) -> String {
    let number = moment.unwrap().as_millisecond() - 1_288_834_974_657;
    ((number << 22) | (1 << 12)).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_keeps_when_its_creation_came_past_each_step() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    let (id, managed) = (cluster.id.to_string(), format!("{}-managed", cluster.id));
    assert!(cluster.status.moments.is_empty());
    eventually("both bundles are posted", PATIENCE, || async {
        let names = world.maestro.names();
        if names.contains(&id) && names.contains(&managed) { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;

    // An agent whose clock nobody can believe.
    world.time.advance(SECOND);
    world.maestro.report(&id, hosted_cluster_report("False"));
    let waiting = service.until_it_says(&cluster.id, "the hosted control plane was asked").await;
    let moments = waiting.status.moments;
    assert_eq!((moments.cloud_prepared, moments.manifests_posted), (at("00"), at("00")));
    assert_eq!((moments.manifests_applied, moments.control_plane_available), (at("01"), None));

    // One whose clock is right, to the millisecond.
    world.time.advance(SECOND);
    let mut report = hosted_cluster_report("True");
    report["SequenceID"] = json!(sequence(at("01.250")));
    world.maestro.report(&id, report);
    service.until_it_says(&cluster.id, "step 10").await;
    world.time.advance(SECOND);
    let mut report = managed_cluster_report("True");
    report["SequenceID"] = json!(sequence(at("02.500")));
    world.maestro.report(&managed, report);
    let moments = service.until(&cluster.id, ClusterState::Ready).await.status.moments;
    assert_eq!((moments.manifests_applied, moments.control_plane_available), (at("01"), at("01.250")));
    assert_eq!((moments.managed_cluster_available, moments.reports_read), (at("02.500"), at("03")));

    // They are of its creation, and stay that.
    world.time.advance(SECOND);
    world.maestro.report(&id, hosted_cluster_report("False"));
    let later = service.until_it_says(&cluster.id, "it was ready before").await;
    assert_eq!(later.status.moments, moments);
}
