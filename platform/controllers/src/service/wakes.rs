//! Which change wakes whom.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{Resource, ResourceExt};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::reconcile::Handle;
use serde::de::DeserializeOwned;

use super::{node_of_lease, volume_keys};
use crate::bootstrap_token;
use crate::certificate_request::CertificateRequests;
use crate::disruption;
use crate::endpoints::EndpointsOfServices;
use crate::inventory::Listener;
use crate::job;
use crate::namespace_defaults::{ACCOUNT, ROOT_AUTHORITY};
use crate::node_lifecycle::is_executing;
use crate::ownership::{controller_of, is_deleting, selects};
use crate::placement;
use crate::pod;
use crate::scheduler::{Shared, claims_of};
use crate::volume;
use crate::watches::{Caches, Watches};

/// The object of kind `K` that controls this one.
fn controlled_by<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let owner = controller_of(metadata)?;
    let matches = owner.kind == K::kind(&()) && owner.api_version == K::api_version(&());
    matches.then(|| ObjectKey { namespace: metadata.namespace.clone(), name: owner.name.clone() })
}

pub(super) fn deployments(watches: &mut Watches, caches: &Caches, handle: &Handle<ObjectKey>) {
    let wake = handle.clone();
    watches.deployments.listen(move |deployment| wake.wake(ObjectKey::of(deployment)));
    let wake = handle.clone();
    watches.replica_sets.listen(move |set| {
        controlled_by::<Deployment>(&set.metadata).into_iter().for_each(|key| wake.wake(key));
    });
    // Recreating waits for the end of old pods, which the sets' own numbers do not show.
    let (wake, caches) = (handle.clone(), caches.clone());
    watches.pods.listen(move |pod| {
        let Some(set) = controlled_by::<ReplicaSet>(&pod.metadata) else { return };
        if caches.pods.get(&ObjectKey::of(pod)).is_none()
            && let Some(set) = caches.replica_sets.get(&set)
        {
            controlled_by::<Deployment>(&set.metadata).into_iter().for_each(|key| wake.wake(key));
        }
    });
}

pub(super) fn replica_sets(watches: &mut Watches, caches: &Caches, handle: &Handle<ObjectKey>) {
    let wake = handle.clone();
    watches.replica_sets.listen(move |set| wake.wake(ObjectKey::of(set)));
    let wake = handle.clone();
    watches.pods.listen(move |pod| {
        controlled_by::<ReplicaSet>(&pod.metadata).into_iter().for_each(|key| wake.wake(key));
    });
    orphans(watches, &caches.replica_sets, handle, |set| Some(set.spec.as_ref()?.selector.clone()));
}

pub(super) fn replication_controllers(watches: &mut Watches, caches: &Caches, handle: &Handle<ObjectKey>) {
    let wake = handle.clone();
    watches.replication_controllers.listen(move |controller| wake.wake(ObjectKey::of(controller)));
    let wake = handle.clone();
    watches.pods.listen(move |pod| {
        controlled_by::<ReplicationController>(&pod.metadata).into_iter().for_each(|key| wake.wake(key));
    });
    orphans(watches, &caches.replication_controllers, handle, |controller| {
        let match_labels = controller.spec.as_ref()?.selector.clone();
        Some(LabelSelector { match_labels, match_expressions: None })
    });
}

/// A pod of nobody may be what some owner is looking for.
fn orphans<K>(
    watches: &mut Watches,
    owners: &Informer<K>,
    handle: &Handle<ObjectKey>,
    selector: impl Fn(&K) -> Option<LabelSelector> + Send + Sync + 'static,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (wake, owners) = (handle.clone(), owners.clone());
    watches.pods.listen(move |pod| {
        if controller_of(&pod.metadata).is_some() || is_deleting(&pod.metadata) {
            return;
        }
        let all = owners.list_in(pod.metadata.namespace.as_deref().unwrap_or_default());
        let takes = |owner: &K| {
            selector(owner).is_some_and(|selector| selects(&selector, pod.metadata.labels.as_ref()))
        };
        all.iter().filter(|owner| takes(owner)).for_each(|owner| wake.wake(ObjectKey::of(&**owner)));
    });
}

pub(super) fn stateful_sets(watches: &mut Watches, caches: &Caches, handle: &Handle<ObjectKey>) {
    orphans(watches, &caches.stateful_sets, handle, |set| Some(set.spec.as_ref()?.selector.clone()));
    let wake = handle.clone();
    watches.stateful_sets.listen(move |set| wake.wake(ObjectKey::of(set)));
    let wake = handle.clone();
    watches.pods.listen(move |pod| {
        controlled_by::<StatefulSet>(&pod.metadata).into_iter().for_each(|key| wake.wake(key));
    });
    let wake = handle.clone();
    watches.revisions.listen(move |revision| {
        controlled_by::<StatefulSet>(&revision.metadata).into_iter().for_each(|key| wake.wake(key));
    });
}

pub(super) fn daemon_sets(watches: &mut Watches, caches: &Caches, handle: &Handle<ObjectKey>) {
    orphans(watches, &caches.daemon_sets, handle, |set| Some(set.spec.as_ref()?.selector.clone()));
    let wake = handle.clone();
    watches.daemon_sets.listen(move |set| wake.wake(ObjectKey::of(set)));
    let wake = handle.clone();
    watches.pods.listen(move |pod| {
        controlled_by::<DaemonSet>(&pod.metadata).into_iter().for_each(|key| wake.wake(key));
    });
    let wake = handle.clone();
    watches.revisions.listen(move |revision| {
        controlled_by::<DaemonSet>(&revision.metadata).into_iter().for_each(|key| wake.wake(key));
    });
    // Kubelets report every few seconds; only labels and taints say where pods belong.
    let (wake, nodes) = (handle.clone(), caches.nodes.clone());
    let seen = Mutex::new(HashMap::new());
    watches.nodes.listen(move |node| {
        let key = ObjectKey::of(node);
        let facts =
            nodes.get(&key).map(|node| (node.metadata.labels.clone(), placement::taints(&node).to_vec()));
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match &facts {
            Some(facts) => seen.insert(key, facts.clone()),
            None => seen.remove(&key),
        };
        if before != facts {
            wake.wake_all();
        }
    });
}

pub(super) fn jobs(watches: &mut Watches, caches: &Caches, handle: &Handle<ObjectKey>) {
    orphans(watches, &caches.jobs, handle, |job| job.spec.as_ref()?.selector.clone());
    let wake = handle.clone();
    watches.jobs.listen(move |job| wake.wake(ObjectKey::of(job)));
    let wake = handle.clone();
    watches.pods.listen(move |pod| job::job_of(pod).into_iter().for_each(|key| wake.wake(key)));
}

pub(super) fn cron_jobs(watches: &mut Watches, handle: &Handle<ObjectKey>) {
    let wake = handle.clone();
    watches.cron_jobs.listen(move |cron| wake.wake(ObjectKey::of(cron)));
    let wake = handle.clone();
    watches.jobs.listen(move |job| {
        controlled_by::<CronJob>(&job.metadata).into_iter().for_each(|key| wake.wake(key));
    });
}

pub(super) fn scheduler(
    watches: &mut Watches,
    caches: &Caches,
    shared: &Arc<Shared>,
    handle: &Handle<ObjectKey>,
) {
    let (wake, known, all) = (handle.clone(), shared.clone(), caches.clone());
    watches.pods.listen(move |pod| known.pod_changed(&all, pod, &wake));
    let (wake, known, all) = (handle.clone(), shared.clone(), caches.clone());
    watches.nodes.listen(move |node| known.node_changed(&all, node, &wake));
    let (wake, known) = (handle.clone(), shared.clone());
    watches.claims.listen(move |_| known.volume_changed(&wake));
    let (wake, known) = (handle.clone(), shared.clone());
    watches.volumes.listen(move |_| known.volume_changed(&wake));
}

pub(super) fn endpoints(watches: &mut Watches, caches: &Caches, handle: &Handle<ObjectKey>) {
    let wake = handle.clone();
    watches.services.listen(move |service| wake.wake(ObjectKey::of(service)));
    let (wake, caches) = (handle.clone(), caches.clone());
    watches.pods.listen(move |pod| {
        EndpointsOfServices::of_pod(&caches, pod).into_iter().for_each(|key| wake.wake(key));
    });
    // Repaired when somebody else changes them.
    let wake = handle.clone();
    watches.endpoints.listen(move |endpoints| wake.wake(ObjectKey::of(endpoints)));
    let wake = handle.clone();
    watches.endpoint_slices.listen(move |slice| {
        EndpointsOfServices::of_slice(slice).into_iter().for_each(|key| wake.wake(key));
    });
}

pub(super) fn namespace_defaults(watches: &mut Watches, handle: &Handle<ObjectKey>) {
    let wake = handle.clone();
    watches.namespaces.listen(move |namespace| wake.wake(ObjectKey::of(namespace)));
    let wake_for = |handle: &Handle<ObjectKey>, name: &'static str| {
        let wake = handle.clone();
        move |metadata: &ObjectMeta| {
            if metadata.name.as_deref() == Some(name)
                && let Some(namespace) = &metadata.namespace
            {
                wake.wake(ObjectKey::cluster(namespace));
            }
        }
    };
    let wake = wake_for(handle, ACCOUNT);
    watches.service_accounts.listen(move |account| wake(&account.metadata));
    let wake = wake_for(handle, ROOT_AUTHORITY);
    watches.root_authorities.listen(move |map| wake(&map.metadata));
}

/// Answers what wakes a namespace when its content changes.
pub(super) fn namespaces(watches: &mut Watches, caches: &Caches, handle: &Handle<ObjectKey>) -> Listener {
    let wake = handle.clone();
    watches.namespaces.listen(move |namespace| {
        if is_deleting(&namespace.metadata) {
            wake.wake(ObjectKey::of(namespace));
        }
    });
    let (wake, caches) = (handle.clone(), caches.clone());
    Box::new(move |change| {
        let item = change.before.as_ref().or(change.after.as_ref());
        let Some(namespace) = item.and_then(|item| item.key.namespace.as_ref()) else { return };
        let key = ObjectKey::cluster(namespace);
        if caches.namespaces.get(&key).is_some_and(|namespace| is_deleting(&namespace.metadata)) {
            wake.wake(key);
        }
    })
}

pub(super) fn nodes(watches: &mut Watches, handle: &Handle<ObjectKey>) {
    let wake = handle.clone();
    watches.nodes.listen(move |node| wake.wake(ObjectKey::of(node)));
}

pub(super) fn node_lifecycle(watches: &mut Watches, caches: &Caches, handle: &Handle<ObjectKey>) {
    nodes(watches, handle);
    let wake = handle.clone();
    watches.leases.listen(move |lease| {
        node_of_lease(&ObjectKey::of(lease)).into_iter().for_each(|key| wake.wake(key));
    });
    let (wake, caches) = (handle.clone(), caches.clone());
    watches.pods.listen(move |pod| {
        if let Some(node) = pod::node_name(pod).map(ObjectKey::cluster)
            && caches.nodes.get(&node).is_none()
        {
            wake.wake(node);
        }
    });
}

pub(super) fn evictions(watches: &mut Watches, caches: &Caches, handle: &Handle<ObjectKey>) {
    let (wake, nodes) = (handle.clone(), caches.nodes.clone());
    watches.pods.listen(move |pod| {
        let node = pod::node_name(pod).and_then(|node| nodes.get(&ObjectKey::cluster(node)));
        if node.is_some_and(|node| placement::taints(&node).iter().any(is_executing)) {
            wake.wake(ObjectKey::of(pod));
        }
    });
    // Only when such a taint comes or goes is every pod of the node worth a look.
    let (wake, caches) = (handle.clone(), caches.clone());
    let seen = Mutex::new(HashMap::new());
    watches.nodes.listen(move |node| {
        let key = ObjectKey::of(node);
        let found = caches.nodes.get(&key);
        let taints = found.map(|node| placement::taints(&node).to_vec()).unwrap_or_default();
        let taints: Vec<_> = taints.into_iter().filter(is_executing).collect();
        let before = seen.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), taints.clone());
        if before.unwrap_or_default() != taints {
            let pods = caches.pods.list();
            let there = pods.iter().filter(|pod| pod::node_name(pod) == Some(&key.name));
            there.for_each(|pod| wake.wake(ObjectKey::of(&**pod)));
        }
    });
}

pub(super) fn certificate_requests(watches: &mut Watches, caches: Caches, handle: &Handle<ObjectKey>) {
    let wake = handle.clone();
    watches.certificate_requests.listen(move |request| wake.wake(ObjectKey::of(request)));
    // A node that says where it is may have been waited for.
    let wake = handle.clone();
    watches.nodes.listen(move |node| {
        CertificateRequests::of_node(&caches, node).into_iter().for_each(|key| wake.wake(key));
    });
}

pub(super) fn bootstrap_tokens(watches: &mut Watches, handle: &Handle<bootstrap_token::Key>) {
    let wake = handle.clone();
    watches.bootstrap_tokens.listen(move |secret| {
        wake.wake(bootstrap_token::Key::Token(ObjectKey::of(secret)));
        wake.wake(bootstrap_token::Key::ClusterInfo);
    });
    let wake = handle.clone();
    watches.cluster_info.listen(move |_| wake.wake(bootstrap_token::Key::ClusterInfo));
}

pub(super) fn disruptions(watches: &mut Watches, caches: &Caches, handle: &Handle<ObjectKey>) {
    let wake = handle.clone();
    watches.budgets.listen(move |budget| wake.wake(ObjectKey::of(budget)));
    let (wake, budgets) = (handle.clone(), caches.budgets.clone());
    watches.pods.listen(move |pod| {
        let all = budgets.list_in(pod.metadata.namespace.as_deref().unwrap_or_default());
        let covering = all.iter().filter(|budget| disruption::covers(budget, pod));
        covering.for_each(|budget| wake.wake(ObjectKey::of(&**budget)));
    });
}

pub(super) fn volumes(watches: &mut Watches, handle: &Handle<volume::Key>) {
    let wake = handle.clone();
    watches.claims.listen(move |claim| {
        wake.wake(volume::Key::Claim(ObjectKey::of(claim)));
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone());
        let own = format!("pvc-{}", claim.uid().unwrap_or_default());
        wake.wake(volume::Key::Volume(ObjectKey::cluster(volume.unwrap_or(own))));
    });
    let wake = handle.clone();
    watches.volumes.listen(move |volume| {
        volume_keys(volume).into_iter().for_each(|key| wake.wake(key));
    });
    let wake = handle.clone();
    watches.storage_classes.listen(move |_| wake.wake_all());
}

pub(super) fn protection(watches: &mut Watches, handle: &Handle<volume::Key>) {
    let wake = handle.clone();
    watches.claims.listen(move |claim| wake.wake(volume::Key::Claim(ObjectKey::of(claim))));
    let wake = handle.clone();
    watches.volumes.listen(move |volume| wake.wake(volume::Key::Volume(ObjectKey::of(volume))));
    let wake = handle.clone();
    watches.pods.listen(move |pod| claims_of(pod).for_each(|key| wake.wake(volume::Key::Claim(key))));
}

pub(super) fn discovery(watches: &mut Watches, handle: &Handle<&'static str>) {
    let wake = handle.clone();
    watches.definitions.listen(move |_| wake.wake("resources"));
}
