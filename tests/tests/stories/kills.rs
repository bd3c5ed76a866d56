//! `kill -9` of the whole region, at moments nobody chose.
//!
//! What was acknowledged before has to come about after the next start, once: a cluster that was asked for is made, one that was to
//! be deleted is gone, and neither is there twice, in any store.

use std::time::Duration;

use pilothouse_test_support::{environment, eventually};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::sleep;

use crate::first_light::cluster_body;
use crate::region::{LIMIT, Region};

/// Where the moments come from. Another seed finds other moments; this one makes a failure repeatable.
const SEED: u64 = 20_261_115;
/// A creation or a deletion takes about this long, so moments up to it hit every step.
const LONGEST: Duration = Duration::from_millis(2500);

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_requests_come_about_once_however_often_the_region_is_killed() {
    let Some(mut region) = Region::start(&["--cluster", "warm"]).await else { return };
    let mut moments = StdRng::seed_from_u64(SEED);
    let mut kills = 0;
    for round in 0.. {
        if kills >= environment::rounds(30, 150) {
            break;
        }
        let name = format!("kill{round}");
        let id = Region::cluster_id(&name);
        let (status, answer) = region.arm("PUT", &id, Some(&cluster_body()));
        assert_eq!(status, 201, "{answer}");
        kills += kill_at_times(&mut region, &mut moments).await;
        region.reaches(&id, "Succeeded").await;
        only_once(&region, &name).await;
        let kubeconfig = region.kubeconfig(&name).unwrap();
        eventually("the hosted API server answers", LIMIT, || {
            let answer = region.kubectl_on(&kubeconfig, &["get", "--raw", "/readyz"]);
            async move { answer }
        })
        .await;

        let (status, answer) = region.arm("DELETE", &id, None);
        assert_eq!(status, 202, "{answer}");
        kills += kill_at_times(&mut region, &mut moments).await;
        region.is_gone(&id).await;
        nothing_left(&region, &name).await;
    }
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}

/// Lets the region work for a random time, kills it and starts it again, one to three times.
async fn kill_at_times(region: &mut Region, moments: &mut StdRng) -> usize {
    let times = moments.random_range(1..=3);
    for _ in 0..times {
        sleep(moments.random_range(Duration::ZERO..LONGEST)).await;
        region.kill();
        region.up(&[]).await;
    }
    times
}

/// The management cluster has one of everything that this cluster is made of.
async fn only_once(region: &Region, name: &str) {
    let names = ["get", "hostedclusters", "-A", "-o", "jsonpath={.items[*].metadata.name}"];
    let hosted = region.kubectl(&names).unwrap();
    assert_eq!(hosted.split(' ').filter(|hosted| *hosted == name).count(), 1, "{hosted}");
    let clusters = region.clusters_service_clusters();
    let found = clusters.iter().filter(|cluster| cluster["name"] == name).count();
    assert_eq!(found, 1, "{clusters:?}");
}

/// Neither Clusters Service nor Maestro nor the management cluster knows it, and none of its processes runs.
async fn nothing_left(region: &Region, name: &str) {
    eventually(&format!("nothing is left of {name}"), LIMIT, || {
        let clusters = region.clusters_service_clusters();
        let known = clusters.iter().any(|cluster| cluster["name"] == name);
        let objects = region.kubectl(&[
            "get",
            "hostedclusters,routes,namespaces,persistentvolumeclaims",
            "-A",
            "-o",
            "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {end}",
        ]);
        async move {
            match objects {
                Ok(objects) if !known && !objects.contains(&format!("{name} ")) => Ok(()),
                other => Err(format!("known to Clusters Service: {known}; {other:?}")),
            }
        }
    })
    .await;
}
