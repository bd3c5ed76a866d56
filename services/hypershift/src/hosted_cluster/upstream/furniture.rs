//! What a cluster of upstream's programs needs beyond what they bring along: how nodes join it and what they may do, and
//! where they read about it first. Payload `light` is started with the same.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::try_join_all;
use futures::{TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::Chain;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::super::HostedClusters;
use super::super::blueprint::Blueprint;
use super::super::pki;
use crate::apply;
use crate::error::{Error, Refused, has_reason, is_missing};

const RBAC: &str = "rbac.authorization.k8s.io";
const NODES: &str = "system:nodes";
const BOOTSTRAPPERS: &str = "system:bootstrappers";

/// What our nodes do beyond a kubelet: they also lead to Services, and to each other's pods.
const NODE: &str = "pilothouse:node";
const CLUSTER_INFO: &str = "cluster-info";
const PUBLIC: &str = "kube-public";

/// Each is a binding, its role and the group.
const JOINING: [(&str, &str, &str); 4] = [
    ("pilothouse:node-bootstrap", "system:node-bootstrapper", BOOTSTRAPPERS),
    (
        "pilothouse:node-approval",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        BOOTSTRAPPERS,
    ),
    (
        "pilothouse:node-renewal",
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        NODES,
    ),
    (NODE, NODE, NODES),
];

/// How many secrets are written at once when all are.
const AT_ONCE: usize = 8;

/// Which clusters are known to have everything, and what it was made from.
#[derive(Debug, Default)]
pub(crate) struct Furnished(Mutex<HashMap<ObjectKey, String>>);

// === impl Furnished ===

impl Furnished {
    pub(crate) fn forget(&self, cluster: &ObjectKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    }

    fn is(&self, cluster: &ObjectKey, with: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(cluster).is_some_and(|known| known == with)
    }

    fn remember(&self, cluster: &ObjectKey, with: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(cluster.clone(), with);
    }
}

// === impl HostedClusters ===

impl HostedClusters {
    /// Makes sure of it, once for each server and authority in the life of the operator.
    pub(in super::super) async fn furnish(
        &self,
        blueprint: &Blueprint,
        client: &Client,
        server: &str,
        root_authority: &str,
    ) -> Result<(), String> {
        let made_from = format!("{server}\n{root_authority}");
        if self.furnished.is(&blueprint.cluster, &made_from) {
            return Ok(());
        }
        let furnished = Box::pin(furnish(client, server, root_authority)).await;
        furnished.map_err(|error| Chain(&error).to_string())?;
        self.furnished.remember(&blueprint.cluster, made_from);
        Ok(())
    }
}

async fn furnish(client: &Client, server: &str, root_authority: &str) -> Result<(), Error> {
    let public = || Api::<ConfigMap>::namespaced(client.clone(), PUBLIC);
    let bindings = JOINING.iter().map(|(name, role, group)| {
        ensure(Api::all(client.clone()), bind(name, role, subject("Group", group)))
    });
    let visits = bind(
        "pilothouse:kubelet-visits",
        "system:kubelet-api-admin",
        subject("User", pki::KUBELET_CLIENT_USER),
    );
    let (role, binding) = readers_of_cluster_info();
    futures::try_join!(
        ensure::<ClusterRole>(Api::all(client.clone()), node_role()),
        try_join_all(bindings),
        ensure(Api::all(client.clone()), visits),
        ensure::<Role>(Api::namespaced(client.clone(), PUBLIC), role),
        ensure::<RoleBinding>(Api::namespaced(client.clone(), PUBLIC), binding),
        ensure(public(), cluster_info(server, root_authority)),
    )?;
    Ok(())
}

/// Without a cache: this is done seldom.
async fn ensure<K>(api: Api<K>, desired: K) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    apply::ensure(&api, None, &desired).await.map(drop)
}

fn node_role() -> ClusterRole {
    let rule = |group: &str, resources: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(ToString::to_string).collect()),
        verbs: vec!["list".to_owned(), "watch".to_owned()],
        ..PolicyRule::default()
    };
    ClusterRole {
        metadata: named(None, NODE),
        rules: Some(vec![
            rule("", &["endpoints", "nodes", "services"]),
            rule("discovery.k8s.io", &["endpointslices"]),
        ]),
        ..ClusterRole::default()
    }
}

fn bind(name: &str, role: &str, subject: Subject) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(None, name),
        role_ref: RoleRef {
            api_group: RBAC.to_owned(),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(vec![subject]),
    }
}

/// Whoever has a token may read where the cluster is. Who has nothing may not: nobody is let in unknown.
fn readers_of_cluster_info() -> (Role, RoleBinding) {
    let name = "pilothouse:cluster-info";
    let rule = PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["configmaps".to_owned()]),
        resource_names: Some(vec![CLUSTER_INFO.to_owned()]),
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    };
    let role = Role { metadata: named(Some(PUBLIC), name), rules: Some(vec![rule]) };
    let binding = RoleBinding {
        metadata: named(Some(PUBLIC), name),
        role_ref: RoleRef { api_group: RBAC.to_owned(), kind: "Role".to_owned(), name: name.to_owned() },
        subjects: Some(vec![subject("Group", BOOTSTRAPPERS), subject("Group", "system:authenticated")]),
    };
    (role, binding)
}

/// A kubeconfig without user and context. The controllers of upstream sign it with every token.
fn cluster_info(server: &str, root_authority: &str) -> ConfigMap {
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "", "cluster": {
            "certificate-authority-data": STANDARD.encode(root_authority),
            "server": server,
        } }],
        "contexts": [],
        "current-context": "",
        "preferences": {},
        "users": [],
    });
    ConfigMap {
        metadata: named(Some(PUBLIC), CLUSTER_INFO),
        data: Some([("kubeconfig".to_owned(), format!("{document:#}\n"))].into()),
        ..ConfigMap::default()
    }
}

fn subject(kind: &str, name: &str) -> Subject {
    Subject {
        api_group: Some(RBAC.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
    }
}

fn named(namespace: Option<&str>, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ObjectMeta::default()
    }
}

/// Writes every secret again as it is: kube-apiserver encrypts what it writes with the key that is in use, and leaves
/// alone what already is.
pub(in super::super) async fn encrypt_anew(client: &Client) -> Result<(), String> {
    let failed = |error: kube::Error| Refused::from(error).to_string();
    let mut parameters = ListParams::default().limit(500);
    let mut secrets = VecDeque::new();
    loop {
        let page = Api::<Secret>::all(client.clone()).list(&parameters).await.map_err(failed)?;
        secrets.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    stream::iter(secrets.into_iter().map(Ok))
        .try_for_each_concurrent(AT_ONCE, |secret| async move {
            let namespace = secret.metadata.namespace.clone().unwrap_or_default();
            let name = secret.metadata.name.clone().unwrap_or_default();
            let api: Api<Secret> = Api::namespaced(client.clone(), &namespace);
            match api.replace(&name, &PostParams::default(), &secret).await {
                Ok(_) => Ok(()),
                // Whoever came first has had it encrypted.
                Err(error) if has_reason(&error, "Conflict") || is_missing(&error) => Ok(()),
                Err(error) => Err(failed(error)),
            }
        })
        .await
}
