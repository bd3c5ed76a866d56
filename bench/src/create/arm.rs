//! Clusters and node pools, asked for as anybody would: through the resource provider's API.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use http::{Method, StatusCode};
use pilothouse_api::Minor;
use pilothouse_arm::{OperationStatus, ProvisioningState};
use pilothouse_http::{Client, ClientBuilder, Response};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use url::Url;

const API_VERSION: &str = "2026-10-01";
const SUBSCRIPTION: &str = "/subscriptions/00000000-0000-0000-0000-000000000001";
const GROUP: &str = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/bench/providers";
/// One call.
const CALL: Duration = Duration::from_secs(30);
/// One operation.
const OPERATION: Duration = Duration::from_secs(120);
/// The error of every time that is measured by looking, at most. More often would slow down what is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// What is asked of a new cluster.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    /// A minor version, such as `4.21`.
    pub(crate) version: String,
    pub(crate) tags: BTreeMap<&'a str, &'a str>,
}

/// The resource provider.
#[derive(Debug)]
pub(crate) struct Arm {
    client: Client,
    frontend: String,
    /// How often to look what became of something.
    look: Duration,
}

impl Arm {
    /// A client with a subscription to work in.
    pub(crate) async fn open(frontend: &str) -> anyhow::Result<Self> {
        let arm =
            Self { client: ClientBuilder::new(CALL).build()?, frontend: frontend.to_owned(), look: LOOK };
        let registration = json!({ "state": "Registered", "registrationDate": "2026-01-01T00:00:00Z" });
        arm.put(arm.url(SUBSCRIPTION, "2.0")?, &registration).await?;
        Ok(arm)
    }

    /// The same for so many at once: together they look as often as one alone, since that is paid for by what is measured.
    pub(crate) fn among(&self, at_once: usize) -> Self {
        let look = LOOK.saturating_mul(u32::try_from(at_once).unwrap_or(u32::MAX));
        Self { client: self.client.clone(), frontend: self.frontend.clone(), look }
    }

    /// Asks for a cluster. Returns where its operation can be looked at.
    pub(crate) async fn create_cluster(&self, name: &str) -> anyhow::Result<Url> {
        self.create(&Wanted { name, version: Minor::DEFAULT.to_string(), tags: BTreeMap::new() }).await
    }

    /// The same, of a cluster that is not as any other.
    pub(crate) async fn create(&self, wanted: &Wanted<'_>) -> anyhow::Result<Url> {
        let resource = self.url(&cluster(wanted.name), API_VERSION)?;
        operation(&self.put(resource, &cluster_body(wanted)).await?)
    }

    /// Asks for another version of a cluster.
    pub(crate) async fn upgrade_cluster(&self, name: &str, version: &str) -> anyhow::Result<Url> {
        let resource = self.url(&cluster(name), API_VERSION)?;
        let change = json!({ "properties": { "version": { "id": version } } });
        operation(&answered(self.client.call(Method::PATCH, resource).json(&change).send().await?).await?)
    }

    /// Asks for a node pool of a cluster.
    pub(crate) async fn create_node_pool(&self, name: &str) -> anyhow::Result<Url> {
        let pool = format!("{}/nodePools/workers", cluster(name));
        operation(&self.put(self.url(&pool, API_VERSION)?, &node_pool_body()).await?)
    }

    /// Waits until an operation has succeeded. Returns the last that was seen of it.
    pub(crate) async fn finish(&self, operation: &Url) -> anyhow::Result<OperationStatus> {
        self.finish_within(operation, OPERATION).await
    }

    /// The same, of an operation that may take as long as this.
    pub(crate) async fn finish_within(
        &self,
        operation: &Url,
        patience: Duration,
    ) -> anyhow::Result<OperationStatus> {
        let deadline = Instant::now() + patience;
        loop {
            let response = answered(self.client.get(operation.clone()).send().await?).await?;
            let status: OperationStatus = response.json().await?;
            match status.status {
                ProvisioningState::Succeeded => return Ok(status),
                ProvisioningState::Failed | ProvisioningState::Canceled => {
                    let message = status.error.map(|error| error.message).unwrap_or_default();
                    bail!("an operation ended as {:?}: {message}", status.status)
                }
                _ if Instant::now() >= deadline => {
                    bail!("an operation takes more than {patience:?}: {:?}", status.operations.last())
                }
                _ => sleep(self.look).await,
            }
        }
    }

    /// Deletes a cluster and waits until nothing of it is left.
    pub(crate) async fn delete_cluster(&self, name: &str) -> anyhow::Result<()> {
        let resource = self.url(&cluster(name), API_VERSION)?;
        answered(self.client.delete(resource.clone()).send().await?).await?;
        let deadline = Instant::now() + OPERATION;
        loop {
            let response = self.client.get(resource.clone()).send().await?;
            if response.status() == StatusCode::NOT_FOUND {
                return Ok(());
            }
            let response = answered(response).await?;
            if Instant::now() >= deadline {
                let seen: Value = response.json().await?;
                bail!("cluster {name} is not gone after {OPERATION:?}: {seen}");
            }
            sleep(self.look).await;
        }
    }

    async fn put(&self, url: Url, body: &Value) -> anyhow::Result<Response> {
        answered(self.client.call(Method::PUT, url).json(body).send().await?).await
    }

    fn url(&self, path: &str, version: &str) -> anyhow::Result<Url> {
        let text = format!("{}{path}?api-version={version}", self.frontend);
        Url::parse(&text).with_context(|| format!("`{text}` is not an address"))
    }
}

/// The response, if it is not a refusal.
async fn answered(response: Response) -> anyhow::Result<Response> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.bytes().await?;
    bail!("the frontend refused with {status}: {}", String::from_utf8_lossy(&body))
}

fn operation(response: &Response) -> anyhow::Result<Url> {
    let header =
        response.headers().get("azure-asyncoperation").context("there is no operation to look at")?;
    Ok(Url::parse(header.to_str()?)?)
}

fn cluster(name: &str) -> String {
    format!("{GROUP}/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/{name}")
}

/// Clusters share neither subnets nor security groups, so each has a network of its name.
fn cluster_body(wanted: &Wanted<'_>) -> Value {
    let Wanted { name, version, tags } = wanted;
    let identity = format!("{GROUP}/Microsoft.ManagedIdentity/userAssignedIdentities/service");
    let network = format!("{GROUP}/Microsoft.Network/virtualNetworks/{name}/subnets");
    json!({
        "tags": tags,
        "identity": { "type": "UserAssigned", "userAssignedIdentities": { (identity.clone()): {} } },
        "properties": {
            "version": { "id": version },
            "platform": {
                "subnetId": format!("{network}/nodes"),
                "vnetIntegrationSubnetId": format!("{network}/control"),
                "networkSecurityGroupId": format!("{GROUP}/Microsoft.Network/networkSecurityGroups/{name}"),
                "operatorsAuthentication": { "userAssignedIdentities": {
                    "controlPlaneOperators": {}, "dataPlaneOperators": {},
                    "serviceManagedIdentity": identity,
                } },
            },
        },
    })
}

fn node_pool_body() -> Value {
    json!({ "properties": {
        "version": { "id": Minor::DEFAULT.newest_release() },
        "platform": { "vmSize": "Standard_D8s_v3" },
        "replicas": 1,
    } })
}
