//! Nodes that are lost for good, in a region: others take their places.

use std::path::Path;
use std::time::Duration;

use pilothouse_test_support::eventually;
use serde_json::json;

use crate::manifests;
use crate::region::{LIMIT, Region};

/// A node that says nothing is missed after fifty seconds.
const LONG: Duration = Duration::from_secs(240);

/// The machines of the pool by their identities, sorted.
fn machines(region: &Region) -> Vec<String> {
    let form = "jsonpath={range .items[*]}{.metadata.uid}{\"\\n\"}{end}";
    let text = region.kubectl(&["get", "machines", "-n", "clusters-eva", "-o", form]).unwrap();
    let mut uids: Vec<_> = text.lines().map(str::to_owned).collect();
    uids.sort();
    uids
}

/// Until the pool has two ready nodes, as many machines, and only one of them is among those that it had. Answers with the
/// machines it has.
async fn is_whole_again(region: &Region, guest: &Path, before: &[String]) -> Vec<String> {
    eventually("the pool has its size again", LONG, || {
        let nodes = region.kubectl_on(guest, &["get", "nodes", "--no-headers"]).unwrap();
        let ready = nodes.lines().filter(|line| line.contains(" Ready ")).count();
        let now = machines(region);
        let kept = now.iter().filter(|uid| before.contains(uid)).count();
        let whole = nodes.lines().count() == 2 && ready == 2 && now.len() == 2 && kept == 1;
        let pool = region.kubectl(&["get", "nodepool/workers", "-n", "clusters"]);
        async move { if whole { Ok(now) } else { Err(format!("{before:?}, {now:?}\n{nodes}{pool:?}")) } }
    })
    .await
}

/// Since when all nodes have been well.
fn healthy_since(region: &Region) -> String {
    let healthy = "?(@.type==\"AllNodesHealthy\")";
    let form = format!("jsonpath={{.status.conditions[{healthy}]['status','lastTransitionTime']}}");
    let said = region.kubectl(&["get", "nodepool/workers", "-n", "clusters", "-o", &form]).unwrap();
    said.strip_prefix("True ").unwrap_or_else(|| panic!("not all are: {said}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_nodes_are_replaced_and_their_pods_run_elsewhere() {
    let Some(mut region) = Region::start(&[]).await else { return };
    let mut cluster = manifests::cluster("eva");
    cluster["metadata"]["annotations"] =
        json!({ "hypershift.openshift.io/machine-health-check-timeout": "2s" });
    let mut pool = manifests::pool("eva", "workers", 2);
    pool["spec"]["management"]["autoRepair"] = json!(true);
    region.apply(&manifests::text(&[cluster, pool])).unwrap();
    region.wait_for("nodepool/workers", "Ready").unwrap();
    let guest = region.kubeconfig("eva").unwrap();
    let (first, since) = (machines(&region), healthy_since(&region));
    // Something that runs on the node that will be lost.
    let work = ["create", "deployment", "work", "--image=busybox", "--", "sleep", "infinity"];
    region.kubectl_on(&guest, &work).unwrap();
    region.kubectl_on(&guest, &["rollout", "status", "deployment/work", "--timeout=120s"]).unwrap();
    let place = ["get", "pods", "-l", "app=work", "-o", "jsonpath={.items[*].spec.nodeName}"];
    let lost = region.kubectl_on(&guest, &place).unwrap();

    // Its machine ends, and nothing starts it again.
    let halted = r#"{"spec": {"runStrategy": "Halted"}}"#;
    let machine = format!("virtualmachine/{lost}");
    region.kubectl(&["patch", &machine, "-n", "clusters-eva", "--type", "merge", "-p", halted]).unwrap();
    let second = is_whole_again(&region, &guest, &first).await;
    region.wait_for("nodepool/workers", "Ready").unwrap();
    assert_ne!(healthy_since(&region), since, "the pool said that a node was lost");
    region.kubectl_on(&guest, &["rollout", "status", "deployment/work", "--timeout=120s"]).unwrap();

    // A machine is taken away behind everybody's back.
    let gone = ["get", "machines", "-n", "clusters-eva", "-o", "jsonpath={.items[0].metadata.name}"];
    let gone = region.kubectl(&gone).unwrap();
    region.kubectl(&["delete", "machine", &gone, "-n", "clusters-eva", "--wait=false"]).unwrap();
    is_whole_again(&region, &guest, &second).await;
    region.kubectl_on(&guest, &["rollout", "status", "deployment/work", "--timeout=120s"]).unwrap();

    region.kubectl(&["delete", "-n", "clusters", "hostedcluster/eva", "--timeout=120s"]).unwrap();
    eventually("nothing is left of it", LIMIT, || {
        let left = region.left("machines,vm,vmi,pv");
        async move { left.and_then(|left| if left.is_empty() { Ok(()) } else { Err(left) }) }
    })
    .await;
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}
