//! Clusters as they are asked for, and stores that have many of them.

use std::path::PathBuf;

use anyhow::Context as _;
use pilothouse_api::{Rules, Target, Version, hub};
use pilothouse_arm::{OperationId, ProvisioningState, ResourceId, SubscriptionId};
use pilothouse_records::{Cluster, Records, Subscription, catalog};
use pilothouse_runtime::Shutdown;
use pilothouse_store::{Location, Options, Store};
use serde_json::json;

use crate::harness::{Folder, Progress};

const VERSION: &str = "2026-10-01";
pub(super) const LOCATION: &str = "here";

/// A subscription and a group in it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    subscription: String,
}

impl Place {
    /// The subscription of this number.
    pub(super) fn new(number: usize) -> Self {
        Self { subscription: format!("00000000-0000-0000-0000-{number:012}") }
    }

    fn group(&self) -> String {
        format!("/subscriptions/{}/resourceGroups/bench/providers", self.subscription)
    }

    fn id(&self, name: &str) -> String {
        format!("{}/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/{name}", self.group())
    }

    /// The path of a cluster that was there from the beginning.
    pub(super) fn cluster(&self, number: usize) -> String {
        self.cluster_named(&format!("cluster-{number}"))
    }

    pub(super) fn cluster_named(&self, name: &str) -> String {
        format!("{}?api-version={VERSION}", self.id(name))
    }

    /// The path of the list of all clusters.
    pub(super) fn clusters(&self) -> String {
        let Self { subscription } = self;
        format!(
            "/subscriptions/{subscription}/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters?api-version={VERSION}"
        )
    }

    /// A cluster with networks and identities of its own.
    pub(super) fn body(&self, name: &str) -> String {
        let group = self.group();
        let identity = format!("{group}/Microsoft.ManagedIdentity/userAssignedIdentities/{name}");
        let network = format!("{group}/Microsoft.Network/virtualNetworks/{name}/subnets");
        let body = json!({
            "location": LOCATION,
            "tags": { "purpose": "bench" },
            "identity": { "type": "UserAssigned", "userAssignedIdentities": { (identity.clone()): {} } },
            "properties": {
                "version": { "id": "4.20" },
                "platform": {
                    "subnetId": format!("{network}/nodes"),
                    "vnetIntegrationSubnetId": format!("{network}/control"),
                    "networkSecurityGroupId": format!("{group}/Microsoft.Network/networkSecurityGroups/{name}"),
                    "operatorsAuthentication": { "userAssignedIdentities": {
                        "controlPlaneOperators": {}, "dataPlaneOperators": {}, "serviceManagedIdentity": identity,
                    } },
                },
            },
        });
        body.to_string()
    }

    fn record(&self, number: usize) -> anyhow::Result<Cluster> {
        let name = format!("cluster-{number}");
        let id: ResourceId = self.id(&name).parse()?;
        let rules = Rules { operator_identities: false, ..Rules::default() };
        let target = Target { id, location: LOCATION.to_owned(), existing: None, rules };
        let mut resource: hub::Cluster =
            Version::V20261001.cluster_put(self.body(&name).as_bytes(), &target)?;
        resource.status.provisioning_state = ProvisioningState::Succeeded;
        let mut cluster = Cluster::new(resource, OperationId::new(uuid::Uuid::new_v4()));
        cluster.active_operation = None;
        cluster.clusters_service_id = Some(uuid::Uuid::new_v4().simple().to_string());
        Ok(cluster)
    }
}

/// Where a store of this name is.
pub(super) fn path(folder: &Folder, name: &str) -> PathBuf {
    folder.path().join(format!("{name}.db"))
}

/// Fills a store: so many registered subscriptions from the first on, with so many clusters each.
pub(super) async fn populate(
    folder: &Folder,
    name: &str,
    subscriptions: usize,
    clusters: usize,
) -> anyhow::Result<()> {
    let path = path(folder, name);
    let location = Location::sqlite(path.to_str().context("the temporary folder's name is not UTF-8")?);
    let store = Store::open(Options::new(location, catalog()?, Shutdown::new())).await?;
    let records = Records::new(store.clone());
    let registered: Subscription =
        serde_json::from_value(json!({ "state": "Registered", "registrationDate": "now" }))?;
    for number in 1..=subscriptions {
        let place = Place::new(number);
        let subscription: SubscriptionId = place.subscription.parse()?;
        records.subscription_put(subscription, &registered).await?;
        let mut change = records.change(subscription)?;
        for cluster in 0..clusters {
            change.cluster_create(&place.record(cluster)?)?;
        }
        change.commit().await?;
        if number % 100 == 0 {
            Progress.say(&format!("  {} clusters are in the store", number * clusters));
        }
    }
    store.close().await;
    Ok(())
}
