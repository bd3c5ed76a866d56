//! A management cluster with an operator, and a place for hosted clusters to appear.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service as KubeService};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig as ClientConfig};
use kube::{Api, Client, Resource, ResourceExt as _};
use pilothouse_crds::{
    Condition, HostedCluster, HostedClusterSpec, HostedControlPlane, Machine, NodePool, NodePoolPlatform,
    NodePoolSpec, Platform, PlatformType, Release, Route, VirtualMachine, find_condition,
};
use pilothouse_hypershift::Config;
use pilothouse_informer::ObjectKey;
use pilothouse_kubeapi::{TokenIssuers, testing};
use pilothouse_pki::{Bundle, Identity};
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::operator::{Faults, OperatorStart};

pub(crate) const NAMESPACE: &str = "ocm-local-1";
pub(crate) const CONTROL_PLANE: &str = "ocm-local-1-first";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A management cluster with an operator.
pub(crate) struct Region {
    pub(crate) client: Client,
    pub(crate) handles: [Handle<ObjectKey>; 2],
    /// How many writes the operator has asked for, also those that change nothing.
    pub(crate) writes: Arc<AtomicUsize>,
    /// Where an operator is cut off, if anywhere.
    pub(crate) faults: Arc<Faults>,
    /// The numbers of the first operator.
    registry: Registry,
    gateway: Arc<Mutex<Option<SocketAddr>>>,
    management: testing::Cluster,
    hosted: Mutex<Vec<testing::Cluster>>,
    /// The gateway, and whoever starts the next operator. They end with the test.
    network: Tasks,
    operator: Tasks,
    start: OperatorStart,
}

/// What a test may want otherwise.
pub(crate) struct Options {
    pub(crate) clock: Clock,
    pub(crate) config: Config,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Clock::system(), config: Config::default() }
    }
}

impl Region {
    pub(crate) async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    pub(crate) async fn start_with(options: Options) -> Self {
        let management = testing::Cluster::start(testing::Options::default()).await.unwrap();
        management.keep_accounts().await.unwrap();
        let client = management.admin().await.unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in pilothouse_crds::all() {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let everything = ListParams::default();
        eventually("the definitions are served", PATIENCE, async || -> Result<(), kube::Error> {
            Api::<HostedCluster>::all(client.clone()).list(&everything).await?;
            Api::<HostedControlPlane>::all(client.clone()).list(&everything).await?;
            Api::<NodePool>::all(client.clone()).list(&everything).await?;
            Api::<Route>::all(client.clone()).list(&everything).await?;
            Api::<Machine>::all(client.clone()).list(&everything).await?;
            Api::<VirtualMachine>::all(client.clone()).list(&everything).await?;
            Ok(())
        })
        .await;
        create::<Namespace>(&Api::all(client.clone()), json!({ "metadata": { "name": NAMESPACE } })).await;

        let gateway = Arc::new(Mutex::new(None));
        let network = Tasks::new("network", Shutdown::new());
        let publish_address = serve_gateway(&network, gateway.clone()).await;
        let start = OperatorStart {
            config: Config { publish_address, ..options.config },
            clock: options.clock,
            kubeconfig: management.kubeconfig("operator", &["system:masters"]).unwrap(),
            writes: Arc::default(),
            faults: Arc::default(),
        };
        let (operator, handles, registry) = start.start().await;
        let (writes, faults) = (start.writes.clone(), start.faults.clone());
        network.spawn("supervisor", OnExit::Expendable, start.clone().supervise(operator.clone()));
        Self {
            client,
            handles,
            writes,
            faults,
            registry,
            gateway,
            management,
            hosted: Mutex::default(),
            network,
            operator,
            start,
        }
    }

    /// Ends the operator and starts one that is configured otherwise, and so describes pods otherwise, as a newer one does.
    pub(crate) async fn replace_operator(&mut self, change: impl FnOnce(&mut Config)) {
        self.operator.shutdown().request(Reason::Asked("another one follows".to_owned()));
        self.operator.drain(PATIENCE).await.unwrap();
        change(&mut self.start.config);
        (self.operator, self.handles, self.registry) = self.start.start().await;
    }

    /// Stops the operator and fails if anything of it is left or went wrong.
    pub(crate) async fn stop(self) {
        let asked = Reason::Asked("the test is over".to_owned());
        self.operator.shutdown().request(asked.clone());
        self.operator.drain(PATIENCE).await.unwrap();
        assert_eq!(self.operator.shutdown().reason(), Some(asked));
        assert_eq!(self.network.shutdown().reason(), None);
        assert_eq!(self.management.shutdown().reason(), None);
        for server in locked(&self.hosted).iter() {
            assert_eq!(server.shutdown().reason(), None);
        }
    }

    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Asks for a hosted cluster `first`.
    pub(crate) async fn create_cluster(&self, image: &str) {
        self.create_cluster_with(image, |_| {}).await;
    }

    /// The same, and otherwise.
    pub(crate) async fn create_cluster_with(&self, image: &str, change: impl FnOnce(&mut HostedCluster)) {
        let mut cluster = HostedCluster::new(
            "first",
            HostedClusterSpec {
                release: Release { image: image.to_owned() },
                platform: Platform { type_: PlatformType::Azure, ..Platform::default() },
                issuer_url: "https://kubernetes.default.svc".to_owned(),
                ..HostedClusterSpec::default()
            },
        );
        change(&mut cluster);
        self.api::<HostedCluster>(NAMESPACE).create(&PostParams::default(), &cluster).await.unwrap();
    }

    pub(crate) async fn create_pool(&self, replicas: i32) {
        let spec = NodePoolSpec {
            cluster_name: "first".to_owned(),
            release: Release { image: "pilothouse/release:4.20.0".to_owned() },
            replicas: Some(replicas),
            platform: NodePoolPlatform { type_: PlatformType::Azure, ..NodePoolPlatform::default() },
            ..NodePoolSpec::default()
        };
        let pool = NodePool::new("workers", spec);
        self.api::<NodePool>(NAMESPACE).create(&PostParams::default(), &pool).await.unwrap();
    }

    pub(crate) async fn cluster(&self) -> HostedCluster {
        self.api::<HostedCluster>(NAMESPACE).get("first").await.unwrap()
    }

    /// A condition of the hosted cluster, once it has this status.
    pub(crate) async fn eventually_condition(&self, type_: &str, status: &str) -> Condition {
        eventually(&format!("{type_} is {status}"), PATIENCE, async || {
            let conditions = self.cluster().await.status.unwrap_or_default().conditions;
            match find_condition(&conditions, type_) {
                Some(found) if found.status.as_str() == status => Ok(found.clone()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// A condition of the hosted cluster, once it has this status and reason.
    pub(crate) async fn eventually_reason(&self, type_: &str, status: &str, reason: &str) -> Condition {
        eventually(&format!("{type_} is {status} because of {reason}"), PATIENCE, async || {
            let conditions = self.cluster().await.status.unwrap_or_default().conditions;
            match find_condition(&conditions, type_) {
                Some(found) if found.status.as_str() == status && found.reason == reason => Ok(found.clone()),
                other => Err(format!("{other:?}; {}", self.last_error().await)),
            }
        })
        .await
    }

    /// Changes the hosted cluster.
    pub(crate) async fn change_cluster(&self, patch: serde_json::Value) {
        let clusters: Api<HostedCluster> = self.api(NAMESPACE);
        clusters.patch("first", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// A Secret with one key.
    pub(crate) async fn create_secret(&self, name: &str, key: &str, value: &[u8]) {
        let data = [(key.to_owned(), k8s_openapi::ByteString(value.to_vec()))];
        let mut secret = Secret { data: Some(data.into()), ..Secret::default() };
        secret.metadata.name = Some(name.to_owned());
        self.api::<Secret>(NAMESPACE).create(&PostParams::default(), &secret).await.unwrap();
    }

    /// What a key of a Secret of the control plane holds.
    pub(crate) async fn secret(&self, name: &str, key: &str) -> Vec<u8> {
        let secret = self.api::<Secret>(CONTROL_PLANE).get(name).await.unwrap();
        secret.data.unwrap().remove(key).unwrap_or_default().0
    }

    /// An object, once it is there.
    pub(crate) async fn eventually_there<K>(&self, api: &Api<K>, name: &str) -> K
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        eventually(&format!("{} {name} is there", K::kind(&())), PATIENCE, async || {
            match api.get_opt(name).await {
                Ok(Some(found)) => Ok(found),
                other => Err(format!("{other:?}; {}", self.last_error().await)),
            }
        })
        .await
    }

    /// What the operator says went wrong, for whoever waits in vain.
    async fn last_error(&self) -> String {
        let cluster = self.api::<HostedCluster>(NAMESPACE).get_opt("first").await.unwrap();
        let conditions = cluster.and_then(|cluster| cluster.status).unwrap_or_default().conditions;
        let succeeded = find_condition(&conditions, "ReconciliationSucceeded");
        succeeded.map_or_else(|| "no pass yet".to_owned(), |condition| condition.message.clone())
    }

    /// Until an object is gone.
    pub(crate) async fn eventually_gone<K>(&self, api: &Api<K>, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        eventually(&format!("{} {name} is gone", K::kind(&())), PATIENCE, async || {
            match api.get_opt(name).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Runs the control plane and publishes it.
    pub(crate) async fn run_control_plane(&self) {
        self.run_pod().await;
        self.publish().await;
    }

    /// What a kubelet would do with the StatefulSet's pod, as far as the API shows it.
    pub(crate) async fn run_pod(&self) {
        let stateful_sets: Api<StatefulSet> = self.api(CONTROL_PLANE);
        let stateful_set = self.eventually_there(&stateful_sets, "kube-apiserver").await;
        let template = stateful_set.spec.unwrap().template;
        let metadata = template.metadata.unwrap();
        // The volumes of claims are added by whoever makes the pod.
        let mut spec = serde_json::to_value(template.spec.unwrap()).unwrap();
        spec["volumes"].as_array_mut().unwrap().push(json!({ "name": "data", "emptyDir": {} }));
        let pod = json!({
            "metadata": {
                "name": "kube-apiserver-0", "labels": metadata.labels, "annotations": metadata.annotations,
            },
            "spec": spec,
        });
        let pods: Api<Pod> = self.api(CONTROL_PLANE);
        create(&pods, pod).await;
        let status = json!({ "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True" }],
            "containerStatuses": [{
                "name": "kube-apiserver", "image": "pilothouse", "imageID": "", "ready": true, "restartCount": 0,
                "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
            }],
        } });
        pods.patch_status("kube-apiserver-0", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// What the controller of stateful sets and a kubelet would do with a new template.
    pub(crate) async fn replace_pod(&self) {
        let pods: Api<Pod> = self.api(CONTROL_PLANE);
        let _ = pods.delete("kube-apiserver-0", &DeleteParams::default().grace_period(0)).await.unwrap();
        self.run_pod().await;
    }

    /// What the gateway would do, and what runs behind it: an API server in this process, with the certificates that
    /// were made for it.
    pub(crate) async fn publish(&self) {
        let secrets: Api<Secret> = self.api(CONTROL_PLANE);
        let serving = secrets.get("kas-server-crt").await.unwrap().data.unwrap();
        let serving = Identity::from_pem(&serving["tls.crt"].0, &serving["tls.key"].0).unwrap();
        let settings =
            self.api::<ConfigMap>(CONTROL_PLANE).get("kube-apiserver").await.unwrap().data.unwrap();
        let clients = Bundle::from_pem(settings["client-ca.crt"].as_bytes()).unwrap();
        let issuers = self.api::<ConfigMap>(CONTROL_PLANE).get_opt("auth-config").await.unwrap();
        let issuers = issuers.map(|found| TokenIssuers::parse(&found.data.unwrap()["auth.json"]).unwrap());
        let options = testing::Options {
            token_issuers: issuers.unwrap_or_default(),
            serving: Some(serving),
            kubelet_authorities: Some(clients.clone()),
            client_authorities: Some(clients),
            ..testing::Options::default()
        };
        let hosted = testing::Cluster::start(options).await.unwrap();
        *locked(&self.gateway) = Some(hosted.address());
        locked(&self.hosted).push(hosted);
    }

    /// A client of the hosted cluster with the administrator's kubeconfig.
    pub(crate) async fn hosted_client(&self) -> Client {
        let secret = self.api::<Secret>(NAMESPACE).get("first-admin-kubeconfig").await.unwrap();
        let kubeconfig = secret.data.unwrap().remove("kubeconfig").unwrap().0;
        connect(std::str::from_utf8(&kubeconfig).unwrap()).await
    }

    /// What a worker's kubelet would do: join, and say that all is well.
    pub(crate) async fn join(&self, worker: &str) {
        let nodes: Api<Node> = Api::all(self.hosted_client().await);
        let labels = json!({ "hypershift.openshift.io/nodePool": "workers" });
        create(&nodes, json!({ "metadata": { "name": worker, "labels": labels } })).await;
        let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        nodes.patch_status(worker, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// What the namespace controller would do: empty the namespace once it is going, then let it go.
    pub(crate) async fn empty_namespace(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = eventually("the namespace is going", PATIENCE, async || {
            let namespace = namespaces.get(CONTROL_PLANE).await.map_err(|error| error.to_string())?;
            match namespace.metadata.deletion_timestamp {
                Some(_) => Ok(namespace),
                None => Err(format!("{:?}", namespace.status)),
            }
        })
        .await;
        empty::<Pod>(&self.api(CONTROL_PLANE)).await;
        empty::<StatefulSet>(&self.api(CONTROL_PLANE)).await;
        empty::<Secret>(&self.api(CONTROL_PLANE)).await;
        empty::<ConfigMap>(&self.api(CONTROL_PLANE)).await;
        empty::<KubeService>(&self.api(CONTROL_PLANE)).await;
        empty::<Route>(&self.api(CONTROL_PLANE)).await;
        empty::<HostedControlPlane>(&self.api(CONTROL_PLANE)).await;
        let body = json!({
            "apiVersion": "v1", "kind": "Namespace", "spec": { "finalizers": [] },
            "metadata": { "name": CONTROL_PLANE, "resourceVersion": namespace.metadata.resource_version },
        });
        let request = http::Request::put(format!("/api/v1/namespaces/{CONTROL_PLANE}/finalize"))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&body).unwrap())
            .unwrap();
        self.client.request_text(request).await.unwrap();
    }

    /// Every object that belongs to the cluster, with its resource version.
    pub(crate) async fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        collect::<HostedCluster>(&self.api(NAMESPACE), &mut versions).await;
        collect::<NodePool>(&self.api(NAMESPACE), &mut versions).await;
        collect::<Secret>(&self.api(NAMESPACE), &mut versions).await;
        collect::<Namespace>(&Api::all(self.client.clone()), &mut versions).await;
        collect::<Secret>(&self.api(CONTROL_PLANE), &mut versions).await;
        collect::<ConfigMap>(&self.api(CONTROL_PLANE), &mut versions).await;
        collect::<KubeService>(&self.api(CONTROL_PLANE), &mut versions).await;
        collect::<StatefulSet>(&self.api(CONTROL_PLANE), &mut versions).await;
        collect::<Route>(&self.api(CONTROL_PLANE), &mut versions).await;
        collect::<HostedControlPlane>(&self.api(CONTROL_PLANE), &mut versions).await;
        collect::<Pod>(&self.api(CONTROL_PLANE), &mut versions).await;
        collect::<Machine>(&self.api(CONTROL_PLANE), &mut versions).await;
        versions
    }

    /// The numbers of the first operator, as they are scraped.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// Looks at everything again.
    pub(crate) fn wake(&self) {
        for handle in &self.handles {
            handle.wake_all();
        }
    }

    /// Until nothing is left to do.
    pub(crate) async fn at_rest(&self) {
        for handle in &self.handles {
            handle.at_rest().await;
        }
    }
}

async fn empty<K>(api: &Api<K>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    for object in api.list(&ListParams::default()).await.unwrap() {
        let _ = api.delete(&object.name_any(), &DeleteParams::default().grace_period(0)).await.unwrap();
    }
}

async fn collect<K>(api: &Api<K>, versions: &mut BTreeMap<String, String>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    for object in api.list(&ListParams::default()).await.unwrap() {
        let name = format!("{} {}", K::kind(&()), ObjectKey::of(&object));
        versions.insert(name, object.resource_version().unwrap());
    }
}

pub(crate) async fn create<K>(api: &Api<K>, object: serde_json::Value) -> K
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

pub(crate) async fn connect(kubeconfig: &str) -> Client {
    let config = ClientConfig::from_yaml(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// What the gateway would do, for one hosted cluster.
async fn serve_gateway(tasks: &Tasks, target: Arc<Mutex<Option<SocketAddr>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = tasks.clone();
    tasks.spawn("gateway", OnExit::Expendable, async move {
        loop {
            let (mut client, _) = listener.accept().await?;
            let target = *locked(&target);
            if let Some(target) = target {
                connections.spawn("connection", OnExit::Expendable, async move {
                    let mut server = TcpStream::connect(target).await?;
                    // Either side may hang up at any time.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    Ok(())
                });
            }
        }
    });
    address
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
