//! A `HostedCluster`, applied by hand, becomes a cluster that `kubectl` can use.

use pilothouse_test_support::eventually;

use crate::manifests;
use crate::region::{LIMIT, Region};

#[tokio::test(flavor = "multi_thread")]
async fn applied_hosted_cluster_gives_a_kubeconfig_that_works() {
    let Some(mut region) = Region::start(&[]).await else { return };

    let objects = [manifests::cluster("ada"), manifests::pool("ada", "workers", 1)];
    region.apply(&manifests::text(&objects)).unwrap();
    region.wait_for("hostedcluster/ada", "Available").unwrap();
    let clusters = region.kubectl(&["get", "hostedclusters", "-A"]).unwrap();
    assert!(clusters.contains("4.20.0") && clusters.contains("ada-admin-kubeconfig"), "{clusters}");
    let pods = region.kubectl(&["get", "pods", "-n", "clusters-ada"]).unwrap();
    assert!(pods.contains("kube-apiserver-0"), "{pods}");

    let kubeconfig = region.kubeconfig("ada").unwrap();
    region.wait_for("nodepool/workers", "Ready").unwrap();
    let nodes = region.kubectl_on(&kubeconfig, &["get", "nodes"]).unwrap();
    assert!(nodes.contains(" Ready "), "{nodes}");
    assert!(region.pilothouse(&["nodes", "ada"]).unwrap().contains("Ready"));

    // A pod of the hosted cluster runs, and its log can be read.
    region
        .kubectl_on(
            &kubeconfig,
            &["run", "hello", "--image=busybox", "--restart=Never", "--", "echo", "ahoy"],
        )
        .unwrap();
    region
        .kubectl_on(
            &kubeconfig,
            &["wait", "pod/hello", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=100s"],
        )
        .unwrap();
    assert_eq!(region.kubectl_on(&kubeconfig, &["logs", "hello"]).unwrap(), "ahoy\n");

    // Everything a cluster made disappears with it.
    region.kubectl(&["delete", "-n", "clusters", "hostedcluster/ada", "--timeout=100s"]).unwrap();
    let gone = region.kubectl(&["get", "namespace", "clusters-ada"]).unwrap_err();
    assert!(gone.contains("NotFound"), "{gone}");
    assert_eq!(region.left("persistentvolumes").unwrap(), "");
    region.is_alone(&["ada"]).await;
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hosted_cluster_survives_a_kill_of_the_region_and_is_adopted() {
    let Some(mut region) = Region::start(&[]).await else { return };
    let kubeconfig = region.host("ada");
    let started = [
        "get",
        "pods",
        "-A",
        // Those that show the region's own services begin anew with it.
        "--field-selector",
        "spec.nodeName!=region",
        "-o",
        "jsonpath={range .items[*]}{.metadata.name}={.status.containerStatuses[0].containerID} {end}",
    ];
    let before = region.kubectl(&started).unwrap();

    region.kill();
    region.up(&[]).await;

    eventually("the node is ready again", LIMIT, || {
        let nodes = region.kubectl_on(&kubeconfig, &["get", "nodes"]);
        async move { nodes.and_then(|nodes| if nodes.contains(" Ready ") { Ok(()) } else { Err(nodes) }) }
    })
    .await;
    assert_eq!(region.kubectl(&started).unwrap(), before, "nothing was started again");
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}
