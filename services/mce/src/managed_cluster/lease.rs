//! The namespace of a managed cluster, and the Lease in it that says when the cluster was last heard of.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use pilothouse_crds::ManagedCluster;
use pilothouse_runtime::Clock;
use serde_json::json;

use super::LOCAL_CLUSTER;
use crate::error::{Error, FIELD_MANAGER};
use crate::presence::micro_time;

const LEASE: &str = "managed-cluster-lease";
/// On a namespace that was made for a managed cluster: its name.
const NAMESPACE_OF: &str = "cluster.open-cluster-management.io/managedCluster";

pub(super) struct Leases {
    client: Client,
    clock: Clock,
}

// === impl Leases ===

impl Leases {
    pub(super) fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock }
    }

    /// Says that the cluster was heard of now. How soon to say so again.
    pub(super) async fn renew(&self, cluster: &ManagedCluster) -> Result<Duration, Error> {
        match self.write(cluster).await {
            Err(error) if error.is_missing() => {
                self.ensure_namespace(cluster).await?;
                self.write(cluster).await?;
            }
            outcome => outcome?,
        }
        let seconds = u64::try_from(cluster.spec.lease_duration_seconds).unwrap_or_default();
        Ok(Duration::from_secs(seconds.max(1)))
    }

    async fn write(&self, cluster: &ManagedCluster) -> Result<(), Error> {
        let namespace = cluster.name_any();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": LEASE, "ownerReferences": owners(cluster) },
            "spec": {
                "holderIdentity": LEASE,
                "leaseDurationSeconds": cluster.spec.lease_duration_seconds.max(1),
                "renewTime": micro_time(self.clock.now()),
            },
        });
        Api::<Lease>::namespaced(self.client.clone(), &namespace)
            .patch(LEASE, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(lease))
            .await
            .map_err(|error| Error::cluster("renew", format!("Lease {namespace}/{LEASE}"), error))?;
        Ok(())
    }

    /// Makes the namespace, which goes with its managed cluster. One that was there before belongs to somebody else, and
    /// stays.
    async fn ensure_namespace(&self, cluster: &ManagedCluster) -> Result<(), Error> {
        let name = cluster.name_any();
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        // The works in this one are clusters of many people, whoever stops managing the cluster itself.
        if name != LOCAL_CLUSTER {
            namespace.metadata.labels = Some([(NAMESPACE_OF.to_owned(), name.clone())].into());
            namespace.metadata.owner_references = Some(owners(cluster));
        }
        let created =
            Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &namespace).await;
        match created {
            Ok(_) => Ok(()),
            Err(error) => match Error::cluster("create", format!("Namespace {name}"), error) {
                error if error.is_taken() => Ok(()),
                error => Err(error),
            },
        }
    }
}

fn owners(cluster: &ManagedCluster) -> Vec<OwnerReference> {
    cluster.owner_ref(&()).into_iter().collect()
}
