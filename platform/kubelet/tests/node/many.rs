//! As many pods as a large machine has.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::removal::interfaces;
use crate::support::{Cluster, address_of, is_ready, processes_with, run_within};

const COUNT: usize = 500;
/// Far fewer than pods, and more than the runtime has for whatever blocks.
const THREADS: usize = 100;
/// A minute on two busy processors.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn five_hundred_pods_need_no_more_threads_and_leave_nothing() {
    // Twice for what is waited for, and once for everything else.
    run_within(3 * PATIENCE, async {
        let cluster = Cluster::start().await;
        let mark = format!("77{}", std::process::id());
        let container = json!({"name": "main", "image": "busybox", "command": ["sleep", mark]});
        let spec = json!({"containers": [container], "terminationGracePeriodSeconds": 5});
        futures::stream::iter(0..COUNT)
            .for_each_concurrent(16, |number| {
                let (cluster, spec) = (&cluster, spec.clone());
                async move { drop(cluster.create(&format!("pod-{number}"), spec).await) }
            })
            .await;
        let list = async || cluster.pods().list(&ListParams::default()).await.unwrap().items;
        let pods = eventually("all pods are ready", PATIENCE, || async {
            let pods = list().await;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            if ready == COUNT { Ok(pods) } else { Err(format!("{ready} are")) }
        })
        .await;
        let addresses: BTreeSet<_> = pods.iter().map(address_of).collect();
        assert_eq!(addresses.len(), COUNT, "each has an address of its own");
        assert!(pods.iter().all(|pod| restarts(pod) == 0));
        let sleeping = format!("sleep\0{mark}");
        assert_eq!(processes_with(&sleeping).len(), COUNT);
        assert!(cluster.threads() < THREADS, "{} threads", cluster.threads());

        cluster.pods().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        eventually("all pods are gone", PATIENCE, || async {
            let left = list().await.len();
            if left == 0 { Ok(()) } else { Err(format!("{left} are left")) }
        })
        .await;
        assert_eq!(processes_with(&sleeping), BTreeSet::new());
        assert_eq!(std::fs::read_dir(cluster.config.root.join("pods")).unwrap().count(), 0);
        assert!(!interfaces(&cluster).contains("v0ac8"), "{}", interfaces(&cluster));
        assert_eq!(cluster.ended_children(), [0; 0]);
    });
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
    statuses.unwrap_or_default().iter().map(|status| status.restart_count).sum()
}
