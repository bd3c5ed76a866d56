//! Making sure of everything a control plane consists of, and looking how it is.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use futures::future::try_join_all;
use futures::try_join;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::DeleteParams;
use kube::{Api, Resource};
use pilothouse_crds::{HostedCluster, Route};
use pilothouse_informer::{Informer, ObjectKey};
use rand::RngCore as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::blueprint::Blueprint;
use super::break_glass;
use super::encryption::{self, KeyFile};
use super::kubeconfigs::Kubeconfigs;
use super::parts::Parts;
use super::payload::Payload;
use super::pki::Signers;
use super::publishing::Endpoint;
use super::references::{ENCRYPTION_KEY_BYTES, Sources};
use super::refusal::{Refusal, Refusals};
use super::{HostedClusters, access, authentication, manifests, parts, status, upstream, workload};
use crate::apply;
use crate::error::Error;
use crate::names::{self, API_PORT, API_SERVER};
use crate::published;
use crate::secrets::{self, Keyring};

/// How far a pass came.
pub(super) struct Seen {
    pub(super) endpoint: Option<Endpoint>,
    pub(super) infrastructure: Result<(), String>,
    pub(super) kubeconfig: bool,
    /// Whether enough of every component runs, of now or of before.
    pub(super) workload: Result<(), String>,
    /// Whether enough of every component runs as it should now.
    pub(super) current: Result<(), String>,
    pub(super) answer: Result<(), String>,
    /// Whether enough of etcd runs, where there is one.
    pub(super) etcd: Option<Result<(), String>>,
    /// Whether every replica runs as it should.
    pub(super) complete: Result<(), String>,
    /// Whether everything is encrypted with the key in use.
    pub(super) encrypted: Result<(), String>,
    /// When the first certificate is to be renewed.
    pub(super) due: Option<Timestamp>,
    /// Whether somebody waits to be let in, or to see everybody locked out.
    pub(super) people_wait: bool,
    /// What could not be done, although the cluster goes on.
    pub(super) complaints: Refusals,
}

/// The keys of the file.
#[derive(Default)]
struct Keys {
    /// Which one encrypts.
    active: Option<String>,
    /// Which one is to, when every server knows it.
    incoming: Option<String>,
    /// What was refused of what was asked for.
    refused: Option<Refusal>,
}

impl HostedClusters {
    /// Makes sure of everything a control plane consists of, and looks how it is. What was seen is kept also when
    /// something fails half-way. Says what stands in the way if nothing can be made at all.
    pub(super) async fn build(
        &self,
        cluster: &HostedCluster,
        blueprint: &mut Blueprint,
        sources: &Sources,
        seen: &mut Seen,
    ) -> Result<Result<(), Refusals>, Error> {
        let namespace = blueprint.namespace.clone();
        let namespace = namespace.as_str();
        let here = |name: &str| ObjectKey::namespaced(namespace, name);
        let made = self.ensure_namespace(blueprint).await?;
        if let Some(refusal) = clash(&made, blueprint) {
            return Ok(Err(refusal.into()));
        }
        if made.metadata.deletion_timestamp.is_some() {
            seen.infrastructure =
                Err(format!("namespace {namespace} of an earlier cluster is still being deleted"));
            return Ok(Ok(()));
        }

        let services: Api<Service> = Api::namespaced(self.client(), namespace);
        let keyring =
            Keyring { client: &self.client, cache: &self.caches.secrets, clock: &self.clock, namespace };
        let service = manifests::service(blueprint);
        let further = parts::services(blueprint);
        let settled = status::is_settled(cluster.status.as_ref(), blueprint);
        let break_glass = break_glass::Wanted::of(&self.caches, blueprint);
        let (service, (), (), (), (), (), signers, keys, authentication) = try_join!(
            apply::ensure_whole(
                &services,
                self.caches.services.get(&here(API_SERVER)),
                &service,
                &access::OURS_ON_SERVICES
            ),
            ensure_all(&services, &self.caches.services, &further, &[]),
            self.ensure_routes(blueprint),
            self.ensure_priority_class(),
            self.ensure_control_plane(cluster, blueprint),
            sources.copy(&self.client, &self.caches, blueprint),
            Signers::ensure(&keyring, blueprint, &break_glass),
            self.ensure_encryption_keys(blueprint, sources, settled),
            self.ensure_authentication(blueprint, sources),
        )?;
        blueprint.authentication = authentication;
        let Keys { active, incoming, refused } = keys;
        blueprint.encrypts_with = active;
        blueprint.incoming_key = incoming;
        refused.into_iter().for_each(|refusal| seen.complaints.add(refusal));
        let endpoint = match self.endpoint(blueprint, &service) {
            Ok(endpoint) => endpoint,
            Err(missing) => {
                seen.infrastructure = Err(missing);
                return Ok(Ok(()));
            }
        };
        let (address, endpoint) = endpoint;
        seen.infrastructure = Ok(());
        seen.endpoint = Some(endpoint.clone());
        blueprint.signers = Some(signers.fingerprint());

        let config_maps: Api<ConfigMap> = Api::namespaced(self.client(), namespace);
        let parts = Parts::of(blueprint, &self.config, address, &signers)?;
        let (leaves, ()) = try_join!(
            signers.leaves(&keyring, blueprint, &endpoint, address),
            ensure_all(&config_maps, &self.caches.config_maps, &parts.config_maps, &[]),
        )?;
        seen.due = Some(leaves.due).filter(|_| !blueprint.lifetimes.is_frozen());

        // Last, so that no pod starts before what it reads is there: a kubelet is slow to look again.
        let infra_id = cluster.spec.infra_id.as_deref().unwrap_or(&blueprint.cluster.name);
        let kubeconfigs = Kubeconfigs::write(blueprint, &endpoint, &leaves.admin, signers.root(), infra_id)?;
        let stateful_sets: Api<StatefulSet> = Api::namespaced(self.client(), namespace);
        let pods = self.caches.pods.list_in(namespace);
        let found = |set: &StatefulSet| self.caches.stateful_sets.get(&ObjectKey::of(set));
        let due: Vec<_> = parts
            .due(&pods, |set| found(set).is_some())
            .map(|component| component.beside(found(&component.stateful_set).as_deref(), &pods))
            .collect();
        let due = due.iter().map(AsRef::as_ref);
        try_join!(
            self.ensure_kubeconfigs(&kubeconfigs),
            ensure_all(&stateful_sets, &self.caches.stateful_sets, due, &workload::OURS),
        )?;
        seen.kubeconfig = true;

        let pods = self.caches.pods.list_in(namespace);
        seen.workload = parts.serve(&pods);
        seen.current = parts.run(&pods);
        seen.etcd = parts.serves(upstream::ETCD, &pods);
        seen.complete = parts.complete(&pods);
        if seen.workload.is_ok() {
            let client = self.published.client(&blueprint.cluster, &kubeconfigs.published).await?;
            seen.answer = published::is_ready(&client).await;
            if seen.answer.is_ok() && blueprint.payload == Payload::Upstream {
                let root = signers.root().to_pem();
                let server = format!("https://{address}:{API_PORT}");
                seen.answer = Box::pin(self.furnish(blueprint, &client, &server, &root)).await;
                let up_to_date = status::is_settled(cluster.status.as_ref(), blueprint);
                let is_due = !up_to_date && blueprint.incoming_key.is_none();
                if seen.answer.is_ok() && seen.complete.is_ok() && is_due {
                    // A server of before that is only about to leave still encrypts with another key.
                    seen.encrypted = match parts.replicas(API_SERVER, &pods) {
                        Ok(_) => upstream::furniture::encrypt_anew(&client).await,
                        Err(waits) => Err(waits),
                    };
                }
            }
        }
        if seen.answer.is_ok() {
            self.watch_nodes(&blueprint.cluster, blueprint.payload).await;
        }
        let replicas = seen.answer.clone().and_then(|()| parts.replicas(API_SERVER, &pods));
        if let Some(incoming) = blueprint.incoming_key.as_deref().filter(|_| replicas.is_ok()) {
            self.promote_encryption_key(blueprint, incoming).await?;
        }
        let site = break_glass::Site {
            keyring: &keyring,
            blueprint,
            signers: &signers,
            endpoint: &endpoint,
            replicas,
        };
        seen.people_wait = Box::pin(self.tend_break_glass(&site)).await?;
        Ok(Ok(()))
    }

    /// Made by us, or not touched: two clusters may come to the same name, and so may somebody who knows of neither.
    async fn ensure_namespace(&self, blueprint: &Blueprint) -> Result<Arc<Namespace>, Error> {
        let namespaces: Api<Namespace> = Api::all(self.client());
        let desired = manifests::namespace(blueprint);
        match self.caches.namespaces.get(&ObjectKey::cluster(&blueprint.namespace)) {
            Some(cached) => apply::ensure(&namespaces, Some(cached), &desired).await,
            None => apply::ensure_exists(&namespaces, &desired).await,
        }
    }

    /// Where clients go, and the address of the Service inside the management cluster; or what is missing.
    fn endpoint(&self, blueprint: &Blueprint, service: &Service) -> Result<(IpAddr, Endpoint), String> {
        let address = cluster_address(service)
            .ok_or_else(|| format!("Service {}/{API_SERVER} has no address yet", blueprint.namespace))?;
        let endpoint = blueprint.publishing.endpoint(service, self.config.publish_address)?;
        Ok((address, endpoint))
    }

    async fn ensure_routes(&self, blueprint: &Blueprint) -> Result<(), Error> {
        let routes: Api<Route> = Api::namespaced(self.client(), &blueprint.namespace);
        let ensured = manifests::routes(blueprint).map(|(name, route)| {
            let routes = &routes;
            let cached = self.caches.routes.get(&ObjectKey::namespaced(&blueprint.namespace, name));
            async move {
                match route {
                    Some(route) => {
                        let ours = &access::OURS_ON_ROUTES;
                        apply::ensure_whole(routes, cached, &route, ours).await.map(|_| ())
                    }
                    None if cached.is_some() => {
                        apply::ensure_deleted(routes, name, &DeleteParams::default()).await
                    }
                    None => Ok(()),
                }
            }
        });
        try_join_all(ensured).await.map(|_| ())
    }

    /// Once in the life of the operator: no pod with a class that is not there is accepted.
    async fn ensure_priority_class(&self) -> Result<(), Error> {
        let made = self.priority_class.get_or_try_init(|| async {
            let classes: Api<PriorityClass> = Api::all(self.client());
            apply::ensure_exists(&classes, &workload::priority_class()).await.map(|_| ())
        });
        made.await.copied()
    }

    /// A key for a cluster that names none, beside it and going with it.
    pub(super) async fn name_encryption_key(
        &self,
        blueprint: &Blueprint,
        sources: &mut Sources,
    ) -> Result<(), Error> {
        let name = match &blueprint.encryption {
            encryption::Wanted::Unnamed { name } | encryption::Wanted::Own { name } => name,
            encryption::Wanted::Keys { .. } | encryption::Wanted::Elsewhere => return Ok(()),
        };
        let mut key = vec![0; ENCRYPTION_KEY_BYTES];
        rand::rng().fill_bytes(&mut key);
        let metadata = manifests::beside(blueprint, name);
        let made = secrets::secret(metadata, "Opaque", [("key", key)]);
        let beside = blueprint.cluster.namespace_or_empty();
        let kept = apply::ensure_exists(&Api::<Secret>::namespaced(self.client(), beside), &made).await?;
        sources.add_encryption_key(name.clone(), secrets::value(&kept, "key")?.to_vec());
        Ok(())
    }

    /// The file of keys, unless that would lose one.
    async fn ensure_encryption_keys(
        &self,
        blueprint: &Blueprint,
        sources: &Sources,
        settled: bool,
    ) -> Result<Keys, Error> {
        let wanted = &blueprint.encryption;
        let api: Api<Secret> = Api::namespaced(self.client(), &blueprint.namespace);
        let cached = self.caches.secrets.get(&key_file(blueprint));
        let existing = KeyFile::read(cached.as_deref());
        let in_use = existing.as_ref().and_then(KeyFile::active);
        let next = match KeyFile::next(existing, wanted, sources, settled, blueprint.shares_keys()) {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(Keys::default()),
            Err(refusal) => return Ok(Keys { active: in_use, incoming: None, refused: Some(refusal) }),
        };
        let desired = next.to_secret(blueprint);
        let kept = match cached {
            Some(cached) => apply::ensure(&api, Some(cached), &desired).await?,
            // The cache may be behind: a file that exists after all wins, and the next pass sees it.
            None => apply::ensure_exists(&api, &desired).await?,
        };
        let kept = KeyFile::read(Some(&kept));
        let incoming = kept.as_ref().filter(|_| blueprint.shares_keys());
        let incoming = incoming.and_then(|file| file.incoming(wanted));
        Ok(Keys { active: kept.and_then(|file| file.active()), incoming, refused: None })
    }

    /// The key that every server knows encrypts. The change of the file wakes the next pass, which restarts them.
    async fn promote_encryption_key(&self, blueprint: &Blueprint, incoming: &str) -> Result<(), Error> {
        let api: Api<Secret> = Api::namespaced(self.client(), &blueprint.namespace);
        let cached = self.caches.secrets.get(&key_file(blueprint));
        // What the cache does not have yet is there in the next pass.
        let promoted = KeyFile::read(cached.as_deref()).and_then(|file| file.promoted(incoming));
        if let Some(file) = promoted {
            apply::ensure(&api, cached, &file.to_secret(blueprint)).await?;
        }
        Ok(())
    }

    /// The file about issuers of tokens, and what is in it. One whose authorities are missing stays as it is.
    async fn ensure_authentication(
        &self,
        blueprint: &Blueprint,
        sources: &Sources,
    ) -> Result<Option<String>, Error> {
        let name = authentication::CONFIG_MAP;
        let api: Api<ConfigMap> = Api::namespaced(self.client(), &blueprint.namespace);
        let cached = self.caches.config_maps.get(&ObjectKey::namespaced(&blueprint.namespace, name));
        let Some(issuers) = &blueprint.token_issuers else {
            if cached.is_some() {
                apply::ensure_deleted(&api, name, &DeleteParams::default()).await?;
            }
            return Ok(None);
        };
        let kept = || cached.as_ref()?.data.as_ref()?.get(authentication::FILE).cloned();
        let Some(file) = issuers.file(sources).or_else(kept) else { return Ok(None) };
        apply::ensure(&api, cached, &manifests::authentication(blueprint, file.clone())).await?;
        Ok(Some(file))
    }

    async fn ensure_kubeconfigs(&self, kubeconfigs: &Kubeconfigs) -> Result<(), Error> {
        let ensured = kubeconfigs.secrets.iter().map(|secret| async move {
            let key = ObjectKey::of(secret);
            let api: Api<Secret> = Api::namespaced(self.client(), key.namespace_or_empty());
            apply::ensure(&api, self.caches.secrets.get(&key), secret).await.map(|_| ())
        });
        let dropped = kubeconfigs.unwanted.iter().map(|key| async move {
            if self.caches.secrets.get(key).is_none() {
                return Ok(());
            }
            let api: Api<Secret> = Api::namespaced(self.client(), key.namespace_or_empty());
            apply::ensure_deleted(&api, &key.name, &DeleteParams::default()).await
        });
        futures::try_join!(try_join_all(ensured), try_join_all(dropped)).map(|_| ())
    }

    /// Nodes are watched while there are pools that want to know of them.
    async fn watch_nodes(&self, cluster: &ObjectKey, payload: Payload) {
        if self.caches.pools_of(cluster).is_empty() {
            self.nodes.stop(cluster).await;
        } else if let Some((digest, client)) = self.published.known(cluster)
            && self.nodes.watch(cluster, digest, client, payload == Payload::Upstream).await
        {
            for pool in self.caches.pools_of(cluster) {
                self.nodes.wake(pool);
            }
        }
    }
}

fn key_file(blueprint: &Blueprint) -> ObjectKey {
    ObjectKey::namespaced(&blueprint.namespace, encryption::KEY_FILE)
}

// === impl Seen ===

impl Seen {
    /// Before anything was looked at.
    pub(super) fn nothing() -> Self {
        let nothing = || Err("not looked at yet".to_owned());
        Self {
            endpoint: None,
            infrastructure: nothing(),
            kubeconfig: false,
            workload: nothing(),
            current: nothing(),
            answer: nothing(),
            etcd: None,
            complete: nothing(),
            // Payload `light` encrypts anew before it answers.
            encrypted: Ok(()),
            due: None,
            people_wait: false,
            complaints: Refusals::default(),
        }
    }
}

/// Whose namespace it is, if not this cluster's.
pub(super) fn clash(namespace: &Namespace, blueprint: &Blueprint) -> Option<Refusal> {
    let owner = names::cluster_of(&namespace.metadata);
    if owner.as_ref() == Some(&blueprint.cluster) {
        return None;
    }
    let whose = owner.map_or_else(
        || "is not the operator's; delete it".to_owned(),
        |owner| format!("belongs to HostedCluster {owner}; rename one of the two"),
    );
    Some(Refusal::invalid(format!(
        "metadata.name: the control plane would be in namespace `{}`, which {whose}",
        blueprint.namespace
    )))
}

/// Makes sure of all of them at once. In these places of theirs nobody writes but us.
async fn ensure_all<'a, K>(
    api: &Api<K>,
    cache: &Informer<K>,
    desired: impl IntoIterator<Item = &'a K>,
    places: &[&str],
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + 'a,
{
    let ensured =
        desired.into_iter().map(|one| apply::ensure_whole(api, cache.get(&ObjectKey::of(one)), one, places));
    try_join_all(ensured).await.map(drop)
}

/// The address of a Service inside the management cluster.
pub(crate) fn cluster_address(service: &Service) -> Option<IpAddr> {
    service.spec.as_ref()?.cluster_ip.as_deref()?.parse().ok()
}
