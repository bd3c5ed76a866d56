//! A region that was stopped in order and is started again: everything is where it was.

use pilothouse_test_support::eventually;

use crate::region::{LIMIT, Region};

#[tokio::test(flavor = "multi_thread")]
async fn region_that_was_stopped_in_order_goes_on_with_everything_that_it_had() {
    let Some(mut region) = Region::start(&["--cluster", "first"]).await else { return };
    let kubeconfig = region.kubeconfig("first").unwrap();
    let left = region.data_dir().join("clusters/first.kubeconfig");
    let run = ["create", "deployment", "web", "--image=busybox", "--replicas=2", "--", "sleep", "3600"];
    region.kubectl_on(&kubeconfig, &run).unwrap();
    let rollout = ["rollout", "status", "deployment/web", "--timeout=100s"];
    region.kubectl_on(&kubeconfig, &rollout).unwrap();
    let identity = |region: &Region| {
        let of = |kind: &str| {
            region.kubectl_on(&kubeconfig, &["get", kind, "-o", "jsonpath={.items[*].metadata.uid}"])
        };
        Ok::<_, String>((of("namespaces")?, of("nodes")?, of("deployments")?))
    };
    let (before, endpoints) = (identity(&region).unwrap(), region.endpoints());
    let clusters = region.clusters_service_clusters();

    assert_eq!(region.pilothouse(&["down"]).unwrap(), "stopped\n");
    let status = region.process().child().wait().unwrap();
    assert!(status.success(), "ended with {status}:\n{}", region.log());
    assert_eq!(region.processes(), [""; 0]);

    region.up(&[]).await;
    assert_eq!(region.endpoints(), endpoints, "the same addresses");
    eventually("the cluster has what it had", LIMIT, || {
        let now = identity(&region);
        let same = now.as_ref() == Ok(&before);
        async move { if same { Ok(()) } else { Err(format!("{now:?}")) } }
    })
    .await;
    eventually("its node is ready", LIMIT, || {
        let nodes = region.kubectl_on(&left, &["get", "nodes", "--no-headers"]);
        let ready = nodes.as_ref().is_ok_and(|nodes| nodes.lines().count() == 1 && nodes.contains(" Ready "));
        async move { if ready { Ok(()) } else { Err(format!("{nodes:?}")) } }
    })
    .await;
    eventually("its pods run again", LIMIT, || {
        let form = "jsonpath={range .items[*]}{.status.phase} {end}";
        let pods = region.kubectl_on(&kubeconfig, &["get", "pods", "-o", form]);
        let running = pods.as_deref() == Ok("Running Running ");
        async move { if running { Ok(()) } else { Err(format!("{pods:?}")) } }
    })
    .await;
    region.kubectl_on(&kubeconfig, &rollout).unwrap();
    let state = |cluster: &serde_json::Value| (cluster["id"].clone(), cluster["status"]["state"].clone());
    let states = |clusters: &[serde_json::Value]| clusters.iter().map(state).collect::<Vec<_>>();
    assert_eq!(states(&region.clusters_service_clusters()), states(&clusters));

    // It is no less alive than before: it can be asked for again, and goes.
    region.kill();
    region.up(&["--cluster", "first"]).await;
    let first = Region::cluster_id("first");
    let (status, answer) = region.arm("DELETE", &first, None);
    assert_eq!(status, 202, "{answer}");
    // Whoever starts it again by that name gets a new one, whether the former is gone by then or on its way.
    region.kill();
    region.up(&["--cluster", "first"]).await;
    let anew = region.clusters_service_clusters();
    assert_eq!(anew.len(), 1, "{anew:?}");
    assert_ne!(anew[0]["id"], clusters[0]["id"]);
    let (status, answer) = region.arm("DELETE", &first, None);
    assert_eq!(status, 202, "{answer}");
    region.is_gone(&first).await;
    region.is_alone(&["first"]).await;
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
    assert_eq!(region.pod_files(), [""; 0]);
}
