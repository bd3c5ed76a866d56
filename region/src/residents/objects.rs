//! Namespace, Deployment and Service of every part. They are put back when somebody removes them.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pilothouse_informer::{Informer, ObjectKey, watcher};
use pilothouse_kubelet::residents::{APP, TAINT};
use pilothouse_runtime::reconcile::{Handle, Options};
use pilothouse_runtime::{Controller, Next, Reconcile, TaskError, Tasks};
use serde_json::{Value, json};
use std::sync::OnceLock;

use super::{NODE_NAME, Part};

/// Whose fields these are.
const MANAGER: &str = "pilothouse-residents";
/// What all of the objects carry.
const MARK: (&str, &str) = ("app.kubernetes.io/managed-by", MANAGER);
/// What the kubelet calls this program.
const IMAGE: &str = "pilothouse";

/// The reconciler: one part a key.
pub(super) struct Objects {
    client: Client,
    parts: Arc<[Part]>,
}

// === impl Objects ===

impl Objects {
    pub(super) fn new(client: Client, parts: Arc<[Part]>) -> Self {
        Self { client, parts }
    }

    pub(super) fn spawn(self, tasks: &Tasks) {
        let handle: Arc<OnceLock<Handle<ObjectKey>>> = Arc::default();
        let wake = |handle: &Arc<OnceLock<Handle<ObjectKey>>>| {
            let handle = Arc::clone(handle);
            move |key: ObjectKey| {
                if let Some(handle) = handle.get() {
                    handle.wake(key);
                }
            }
        };
        // One that is gone is made again; what becomes of one that is there is the controllers' business.
        let waking = wake(&handle);
        let marked = watcher::Config::default().labels(&format!("{}={}", MARK.0, MARK.1));
        let deployments = Informer::new(Api::<Deployment>::all(self.client.clone()), marked);
        let known = deployments.informer();
        let deployments = deployments.on_change(move |deployment: &Deployment| {
            let key = ObjectKey::of(deployment);
            if known.get(&key).is_none() {
                waking(key);
            }
        });
        deployments.spawn(tasks, "watch-residents");
        for part in self.parts.iter().filter(|part| part.namespace_is_theirs) {
            let (waking, key) = (wake(&handle), part.key());
            let theirs = watcher::Config::default().fields(&format!("metadata.name={}", part.namespace));
            Informer::new(Api::<Namespace>::all(self.client.clone()), theirs)
                .on_change(move |_: &Namespace| waking(key.clone()))
                .spawn(tasks, "watch-namespace");
        }
        let spawned = Controller::new("shown-services", self, Options::default()).spawn(tasks);
        // Set once, here.
        let _ = handle.set(spawned);
    }

    async fn apply<K>(&self, api: Api<K>, name: &str, object: &Value) -> Result<(), TaskError>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object)).await?;
        Ok(())
    }

    /// Whether the namespace is there. One that people make themselves is waited for.
    async fn has_namespace(&self, part: &Part) -> Result<bool, TaskError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        if part.namespace_is_theirs {
            let found = api.get_opt(part.namespace).await?;
            return Ok(found.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none()));
        }
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": part.namespace },
        });
        self.apply(api, part.namespace, &namespace).await?;
        Ok(true)
    }
}

impl Reconcile for Objects {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.parts.iter().map(Part::key).collect())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(part) = self.parts.iter().find(|part| part.key() == *key) else { return Ok(Next::Done) };
        if !self.has_namespace(part).await? {
            return Ok(Next::Done);
        }
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), part.namespace);
        self.apply(deployments, part.app, &part.deployment()).await?;
        if !part.ports.is_empty() {
            let services: Api<Service> = Api::namespaced(self.client.clone(), part.namespace);
            self.apply(services, part.app, &part.service()).await?;
        }
        Ok(Next::Done)
    }
}

// === impl Part ===

impl Part {
    fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace, self.app)
    }

    fn deployment(&self) -> Value {
        let ports: Vec<_> = self
            .ports
            .iter()
            .map(|port| json!({ "name": port.name, "containerPort": port.number, "protocol": "TCP" }))
            .collect();
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": self.app, "labels": { APP: self.app, (MARK.0): MARK.1 } },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { APP: self.app } },
                "template": {
                    "metadata": { "labels": { APP: self.app } },
                    "spec": {
                        "nodeName": NODE_NAME,
                        "automountServiceAccountToken": false,
                        "enableServiceLinks": false,
                        // However long the region was down, its services are still there when it comes back.
                        "tolerations": [
                            { "key": TAINT, "operator": "Exists" },
                            { "operator": "Exists", "effect": "NoExecute" },
                        ],
                        "containers": [{
                            "name": self.container,
                            "image": IMAGE,
                            "args": [self.verb],
                            "ports": ports,
                        }],
                    },
                },
            },
        })
    }

    fn service(&self) -> Value {
        let ports: Vec<_> = self
            .ports
            .iter()
            .map(|port| {
                json!({ "name": port.name, "port": port.number, "targetPort": port.number, "protocol": "TCP" })
            })
            .collect();
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": self.app, "labels": { APP: self.app, (MARK.0): MARK.1 } },
            "spec": { "selector": { APP: self.app }, "ports": ports },
        })
    }
}
