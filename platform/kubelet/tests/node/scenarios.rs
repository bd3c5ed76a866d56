//! What people do with a cluster, on our API server and on the real one.
//!
//! A scenario is written once and runs on both [planes](crate::plane), in a namespace and on nodes of its own. Its pods are
//! kept there by a node selector.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::Output;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node as NodeObject, Pod, ServiceAccount};
use kube::api::{ListParams, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use pilothouse_kubelet::Config;
use pilothouse_kubelet_api::Dialer;
use pilothouse_test_support::eventually;
use pilothouse_test_support::process::Running;
use serde_json::{Value, json};

use crate::kubectl::Kubectl;
use crate::plane::{Kind, Plane};
use crate::support::{PATIENCE, run, start_kubelet, wait_for};

mod jobs;
mod loss;
mod namespaces;
mod rolls;
mod sets;
mod trouble;
mod visits;

/// What is done in a world.
type Scenario = for<'a> fn(&'a mut World) -> BoxFuture<'a, ()>;

/// Every scenario, by its sentence. The last comes first, and the longest should.
pub(crate) const ALL: &[(&str, Scenario)] = &[
    ("namespace_goes_when_its_finalizers_have_gone", |world| namespaces::goes(world).boxed()),
    ("people_visit_their_pods", |world| visits::visit(world).boxed()),
    ("troubled_pods_say_what_troubles_them", |world| trouble::shows(world).boxed()),
    ("job_loses_no_success_when_its_kubelet_is_killed", |world| jobs::survives(world).boxed()),
    ("stateful_set_keeps_names_and_storage", |world| sets::keeps(world).boxed()),
    ("deployment_rolls_without_a_failed_request", |world| rolls::rolls(world).boxed()),
    ("pods_of_a_lost_node_move_and_it_comes_back_empty", |world| loss::moves(world).boxed()),
];

/// Where a scenario takes place.
pub(crate) struct World {
    pub(crate) plane: &'static Plane,
    pub(crate) namespace: String,
    pub(crate) client: kube::Client,
    pub(crate) kubectl: Kubectl,
    /// The first is there from the beginning.
    pub(crate) nodes: Vec<Node>,
}

/// A node of one scenario.
pub(crate) struct Node {
    pub(crate) config: Config,
    client: kube::Client,
    kubelet: Option<Running>,
}

/// Runs one scenario on one plane.
pub(crate) fn run_on(kind: Kind, name: &str, scenario: Scenario) {
    let Some(plane) = kind.plane() else { return };
    // The first words tell them apart.
    let namespace = name.split('_').take(3).collect::<Vec<_>>().join("-");
    run(async {
        let mut world = World::enter(plane, namespace).await;
        let outcome = AssertUnwindSafe(scenario(&mut world)).catch_unwind().await;
        world.leave().await;
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

impl World {
    async fn enter(plane: &'static Plane, namespace: String) -> Self {
        let client = plane.client().await;
        let object = json!({"metadata": {"name": namespace}});
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
        wait_for(accounts, "default", |account: Option<&ServiceAccount>| account.is_some()).await;
        let kubectl = plane.kubectl("admin", &["system:masters"]);
        let mut world = Self { plane, namespace, client, kubectl, nodes: Vec::new() };
        world.add_node().await;
        world
    }

    /// Leaves nothing that would look like a node that was lost.
    async fn leave(mut self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let _ = namespaces.delete(&self.namespace, &Default::default()).await;
        let nodes: Api<NodeObject> = Api::all(self.client.clone());
        for node in self.nodes.drain(..) {
            let name = node.config.node_name.clone();
            drop(node);
            let _ = nodes.delete(&name, &Default::default()).await;
        }
    }

    /// Starts one more node for the pods of this scenario.
    pub(crate) async fn add_node(&mut self) {
        let name = format!("{}-{}", self.namespace, self.nodes.len());
        let mut config = self.plane.node(&name);
        config.labels.insert("scenario".to_owned(), self.namespace.clone());
        let mut node = Node { config, client: self.client.clone(), kubelet: None };
        node.start().await;
        self.nodes.push(node);
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn words<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        [&["--namespace", &self.namespace], arguments].concat()
    }

    /// What kubectl prints, which has to succeed.
    pub(crate) async fn printed(&self, arguments: &[&str]) -> String {
        self.kubectl.printed(&self.words(arguments), "").await
    }

    pub(crate) async fn kubectl_run(&self, arguments: &[&str]) -> Output {
        self.kubectl.run(&self.words(arguments), "").await
    }

    /// `kubectl apply`.
    pub(crate) async fn apply(&self, object: Value) {
        self.kubectl.printed(&self.words(&["apply", "-f", "-"]), &object.to_string()).await;
    }

    /// The specification of a pod that runs here.
    pub(crate) fn pod(&self, mut spec: Value) -> Value {
        spec["nodeSelector"] = json!({"scenario": self.namespace});
        spec
    }

    /// Makes a pod through kubectl.
    pub(crate) async fn apply_pod(&self, name: &str, spec: Value) {
        self.apply(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": self.pod(spec)}))
            .await;
    }

    pub(crate) async fn get_pod(&self, name: &str) -> Pod {
        self.api::<Pod>().get(name).await.unwrap()
    }

    pub(crate) async fn until_pod(&self, name: &str, condition: impl Fn(&Pod) -> bool + Send + Sync) -> Pod {
        wait_for(self.api::<Pod>(), name, |pod: Option<&Pod>| pod.is_some_and(&condition)).await;
        self.get_pod(name).await
    }

    /// The pods with a label, by name.
    pub(crate) async fn pods_with(&self, label: &str) -> Vec<Pod> {
        let mut pods = self.api::<Pod>().list(&ListParams::default().labels(label)).await.unwrap().items;
        pods.sort_by_key(Pod::name_any);
        pods
    }

    /// Looks again and again until what kubectl prints holds what it should.
    pub(crate) async fn until_printed(&self, arguments: &[&str], expected: &[&str]) -> String {
        eventually("kubectl says what is expected", 2 * PATIENCE, || async {
            let said = self.printed(arguments).await;
            let missing: Vec<_> = expected.iter().filter(|one| !said.contains(**one)).collect();
            if missing.is_empty() { Ok(said) } else { Err(format!("without {missing:?}: {said}")) }
        })
        .await
    }
}

// === impl Node ===

impl Node {
    pub(crate) async fn start(&mut self) {
        assert!(self.kubelet.is_none());
        self.kubelet = Some(start_kubelet(&self.config, &self.client).await);
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.kubelet.take().unwrap().kill();
    }

    pub(crate) fn dialer(&self) -> Dialer {
        Dialer::new(self.config.node_socket.clone().unwrap())
    }

    pub(crate) fn pod_folder(&self, pod: &Pod) -> PathBuf {
        self.config.root.join("pods").join(pod.uid().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.kubelet.take());
        pilothouse_kubelet::remove(&self.config.root).unwrap();
    }
}
