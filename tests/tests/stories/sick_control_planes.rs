//! Control planes that do not run, or no longer: what is wrong is said, what is mended recovers, and all of them can be
//! deleted.

use std::fs;
use std::path::PathBuf;

use pilothouse_test_support::eventually;

use crate::manifests;
use crate::region::{LIMIT, Region};

/// Until a condition of the hosted cluster has this status and says so.
async fn says(region: &Region, cluster: &str, condition: &str, status: &str, what: &str) {
    let object = format!("hostedcluster/{cluster}");
    let form = format!("jsonpath={{.status.conditions[?(@.type==\"{condition}\")]}}");
    let status = format!("\"status\":\"{status}\"");
    eventually(&format!("{condition} of {cluster} has {status} and says `{what}`"), LIMIT, || {
        let said = region.kubectl(&["get", &object, "-n", "clusters", "-o", &form]);
        let right = said.as_ref().is_ok_and(|said| said.contains(&status) && said.contains(what));
        async move { if right { Ok(()) } else { Err(format!("{said:?}")) } }
    })
    .await;
}

/// The database of the only hosted cluster.
fn database(region: &Region) -> PathBuf {
    let volumes = fs::read_dir(region.data_dir().join("node/volumes")).unwrap();
    let files = volumes.flat_map(|volume| fs::read_dir(volume.unwrap().path()).unwrap());
    let mut databases =
        files.map(|file| file.unwrap().path()).filter(|file| file.extension() == Some("db".as_ref()));
    let found = databases.next().unwrap();
    assert_eq!(databases.next(), None);
    found
}

/// Deletes a hosted cluster, and looks that nothing is left.
async fn deletes(region: &Region, cluster: &str) {
    let object = format!("hostedcluster/{cluster}");
    region.kubectl(&["delete", "-n", "clusters", &object, "--timeout=120s"]).unwrap();
    eventually("nothing is left of it", LIMIT, || {
        let left = region.left("nodepools,machines,vm,vmi,pvc,pv");
        async move { left.and_then(|left| if left.is_empty() { Ok(()) } else { Err(left) }) }
    })
    .await;
    eventually("no file is left of it", LIMIT, || {
        let left = region.pod_files();
        async move { if left.is_empty() { Ok(()) } else { Err(left.join(", ")) } }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_crashes_says_why_recovers_when_mended_and_can_be_deleted_while_it_does_not() {
    let Some(mut region) = Region::start(&[]).await else { return };
    let guest = region.host("ada");
    says(&region, "ada", "Degraded", "False", "").await;

    // Something is where its data should be.
    let (database, aside) = (database(&region), region.folder().join("aside"));
    let spoil = || {
        fs::rename(&database, &aside).unwrap();
        fs::create_dir(&database).unwrap();
        region
            .kubectl(&["delete", "pod", "kube-apiserver-0", "-n", "clusters-ada", "--timeout=60s"])
            .unwrap();
    };
    spoil();
    says(&region, "ada", "Degraded", "True", "CrashLoopBackOff").await;
    says(&region, "ada", "Degraded", "True", "the store of the control plane cannot be opened").await;
    says(&region, "ada", "Available", "False", "kube-apiserver-0").await;
    let refused = region.kubectl_on(&guest, &["get", "nodes", "--request-timeout=5s"]);
    assert!(refused.is_err(), "{refused:?}");

    fs::remove_dir(&database).unwrap();
    fs::rename(&aside, &database).unwrap();
    region.wait_for("hostedcluster/ada", "Available").unwrap();
    says(&region, "ada", "Degraded", "False", "").await;
    eventually("the node is ready again", LIMIT, || {
        let nodes = region.kubectl_on(&guest, &["get", "nodes", "--no-headers"]);
        async move { nodes.and_then(|nodes| if nodes.contains(" Ready ") { Ok(()) } else { Err(nodes) }) }
    })
    .await;

    // The pool first, then all of it, with nobody to ask.
    spoil();
    says(&region, "ada", "Available", "False", "kube-apiserver-0").await;
    region.kubectl(&["delete", "-n", "clusters", "nodepool/ada-workers", "--timeout=120s"]).unwrap();
    deletes(&region, "ada").await;
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_can_never_run_says_what_it_waits_for_and_can_be_deleted() {
    let Some(mut region) = Region::start(&[]).await else { return };
    let cluster = manifests::on_class(manifests::cluster("ada"), "nowhere");
    region.apply(&manifests::text(&[cluster, manifests::pool("ada", "workers", 1)])).unwrap();
    says(&region, "ada", "Available", "False", "unbound immediate PersistentVolumeClaims").await;
    deletes(&region, "ada").await;
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}
