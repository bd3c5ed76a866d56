//! What operators in processes of their own live through: `kill -9` at every step, and a management cluster that is gone
//! for a while.

use std::path::Path;
use std::time::Duration;

use http::Request;
use kube::Client;
use pilothouse_test_support::{environment, eventually};
use serde_json::Value;
use tokio::time::sleep;

use crate::management::{CLASS, Management, OPERATORS};
use crate::manifests;
use crate::region::LIMIT;

/// What appears, in about this order, while a hosted cluster with one node is made.
const ON_THE_WAY: [&str; 10] = [
    "/api/v1/namespaces/clusters-ada",
    "/api/v1/namespaces/clusters-ada/secrets/root-ca",
    "/apis/apps/v1/namespaces/clusters-ada/statefulsets/kube-apiserver",
    "/api/v1/namespaces/clusters-ada/pods/kube-apiserver-0",
    "/api/v1/namespaces/clusters/secrets/ada-admin-kubeconfig",
    "/apis/hypershift.openshift.io/v1beta1/namespaces/clusters-ada/hostedcontrolplanes/ada",
    "/apis/cluster.open-cluster-management.io/v1/managedclusters/ada",
    MACHINE,
    VIRTUAL_MACHINE,
    INSTANCE,
];
/// What goes, in about this order, when it is deleted.
const ON_THE_WAY_BACK: [&str; 7] = [
    POOL,
    MACHINE,
    VIRTUAL_MACHINE,
    INSTANCE,
    "/api/v1/namespaces/clusters-ada",
    "/apis/cluster.open-cluster-management.io/v1/managedclusters/ada",
    "/apis/hypershift.openshift.io/v1beta1/namespaces/clusters/hostedclusters/ada",
];
const POOL: &str = "/apis/hypershift.openshift.io/v1beta1/namespaces/clusters/nodepools/workers";
const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta1/namespaces/clusters-ada/machines/workers-0";
const VIRTUAL_MACHINE: &str = "/apis/kubevirt.io/v1/namespaces/clusters-ada/virtualmachines/workers-0";
const INSTANCE: &str = "/apis/kubevirt.io/v1/namespaces/clusters-ada/virtualmachineinstances/workers-0";

/// An object, if it is there.
async fn object(client: &Client, path: &str) -> Result<Option<Value>, String> {
    match client.request(Request::get(path).body(Vec::new()).unwrap()).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

async fn appears(client: &Client, path: &str) {
    eventually(&format!("{path} is there"), LIMIT, || async {
        object(client, path).await?.map(drop).ok_or_else(|| "not there".to_owned())
    })
    .await;
}

/// Until it was told to go, or is gone already.
async fn goes(client: &Client, path: &str) {
    eventually(&format!("{path} goes"), LIMIT, || async {
        match object(client, path).await? {
            Some(found) if found["metadata"]["deletionTimestamp"].is_null() => Err("there".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
}

impl Management {
    /// Kills all operators, whatever they are at, and starts them again.
    fn kill_operators(&mut self) {
        for verb in OPERATORS {
            self.kill(verb);
        }
        for verb in OPERATORS {
            self.start(verb);
        }
    }

    /// Applies a cluster `ada` with so many workers.
    pub(crate) fn apply_ada(&self, workers: usize) {
        let cluster = manifests::on_class(manifests::cluster("ada"), CLASS);
        let pool = manifests::pool("ada", "workers", workers);
        self.apply(&manifests::text(&[cluster, pool])).unwrap();
    }

    /// Until the cluster, its nodes and its import are what they should be.
    pub(crate) async fn ada_is_there(&self, workers: usize) -> std::path::PathBuf {
        let status = |kind: &str, condition: &str| {
            let form = format!("jsonpath={{.status.conditions[?(@.type==\"{condition}\")].status}}");
            ["get".to_owned(), "-n".to_owned(), "clusters".to_owned(), kind.to_owned(), "-o".to_owned(), form]
        };
        for (object, condition) in [("hostedcluster/ada", "Available"), ("nodepool/workers", "Ready")] {
            let arguments = status(object, condition);
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            self.eventually(&format!("{object} is {condition}"), &arguments, |status| status == "True").await;
        }
        let imported = ["get", "managedclusters", "ada", "--no-headers"];
        self.eventually("it is imported", &imported, |row| row.matches("True").count() == 2).await;
        let guest = self.kubeconfig("clusters", "ada");
        self.has_nodes(&guest, workers).await;
        guest
    }

    /// Until every operator says this about the management cluster.
    async fn operators_say(&self, status: u16, what: &str) {
        for verb in OPERATORS {
            eventually(&format!("{verb} says `{what}`"), LIMIT, || {
                let health = self.health(verb);
                let said = health.as_ref().is_ok_and(|(seen, page)| *seen == status && page.contains(what));
                async move { if said { Ok(()) } else { Err(format!("{health:?}")) } }
            })
            .await;
        }
    }

    /// Runs a pod of a hosted cluster to its end.
    fn run_pod(&self, guest: &Path, name: &str) {
        self.kubectl_on(guest, &["run", name, "--image=busybox", "--restart=Never", "--", "true"]).unwrap();
        let done = format!("pod/{name}");
        let done = ["wait", &done, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s"];
        self.kubectl_on(guest, &done).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_killed_at_every_step_leave_nothing_half_made_and_nothing_behind() {
    let Some(mut management) = Management::ours().await else { return };
    let client = management.client().await;
    management.apply_ada(1);
    management.kill_operators();
    for path in ON_THE_WAY {
        appears(&client, path).await;
        management.kill_operators();
    }
    management.ada_is_there(1).await;
    let made = ["get", "machines,vm,vmi,pods", "-n", "clusters-ada", "-o", "name"];
    let made = management.kubectl(&made).unwrap();
    assert_eq!(made.lines().count(), 5, "one of each, and the pod of the API server: {made}");

    management.kubectl(&["delete", "-n", "clusters", "hostedcluster/ada", "--wait=false"]).unwrap();
    management.kill_operators();
    for path in ON_THE_WAY_BACK {
        goes(&client, path).await;
        management.kill_operators();
    }
    management.nothing_left_of("ada").await;
    let secrets = management.kubectl(&["get", "secrets", "-n", "clusters", "-o", "name"]).unwrap();
    assert_eq!(secrets, "secret/pull-secret\n");
    management.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_management_api_that_is_gone_for_a_while_is_missed_and_hosted_clusters_live_on() {
    let Some(mut management) = Management::ours().await else { return };
    management.apply_ada(1);
    let guest = management.ada_is_there(1).await;
    management.operators_say(200, "management: [+]").await;

    management.kill("kube-apiserver");
    management.operators_say(503, "management: [-] the management cluster does not answer").await;
    let (status, page) = management.health("gateway").unwrap();
    assert_eq!(status, 200, "whoever is hosted is still reached: {page}");
    management.run_pod(&guest, "meanwhile");
    if environment::is_long() {
        sleep(Duration::from_secs(60)).await;
    }
    management.start("kube-apiserver");

    management.operators_say(200, "management: [+]").await;
    // Each of them is needed for another node, and for what is left of a cluster to go.
    management.apply_ada(2);
    management.ada_is_there(2).await;
    management.run_pod(&guest, "afterwards");
    management.kubectl(&["delete", "-n", "clusters", "hostedcluster/ada", "--timeout=120s"]).unwrap();
    management.nothing_left_of("ada").await;
    management.stop().await;
}
