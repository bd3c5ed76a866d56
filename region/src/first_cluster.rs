//! A first cluster, asked for as anybody would: through the resource provider's API.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use http::StatusCode;
use pilothouse_access::{IssuerError, LocalIssuer, LocalRole, TokenRequest};
use pilothouse_api::Minor;
use pilothouse_arm::{MalformedResourceId, ResourceId};
use pilothouse_http::{CallError, ClientBuildError, ClientBuilder};
use pilothouse_hypershift::Payload;
use pilothouse_pki::{FileError, Visibility, write_atomically};
use pilothouse_records::Records;
use pilothouse_runtime::{Chain, Clock};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use url::Url;
use uuid::Uuid;

use crate::config::Authentication;
use crate::data_dir::DataDir;
use crate::endpoints::Endpoints;
use crate::hosted_clusters::{HostedClusters, HostedClustersError};

mod frontend;
mod news;
#[cfg(test)]
mod tests;

use frontend::{Frontend, newest, text};

const API_VERSION: &str = "2026-10-01";
/// Whose first cluster it is: on a laptop there is one customer, and this is what it is called. The tenant is where
/// tokens of the region's issuer are at home, unless they are told otherwise.
pub const TENANT: Uuid = Uuid::from_u128(2);
const SUBSCRIPTION: &str = "/subscriptions/00000000-0000-0000-0000-000000000001";
const RESOURCE_GROUP: &str = "first";
const NODE_POOL: &str = "workers";
/// The version whose programs of upstream are built for tests.
const UPSTREAM: Minor = Minor { major: 4, minor: 21 };
/// One call.
const CALL: Duration = Duration::from_secs(30);
/// One operation.
const OPERATION: Duration = Duration::from_secs(600);
/// All of it.
const TOKEN: Duration = Duration::from_secs(3600);
/// How long nothing may be heard of a resource before it is looked at all the same: only should something have been missed.
const REPAIR: Duration = Duration::from_secs(5);

/// A cluster with a node pool, and the way to ask for it.
#[derive(Debug)]
pub struct FirstCluster {
    name: String,
    frontend: String,
    admin: String,
    data_dir: DataDir,
    /// What the resource provider writes down. ARM's operations are asked after and not heard of, so this is what wakes whoever
    /// would have to ask over and over.
    records: Records,
    repair: Duration,
    authentication: Authentication,
    minor: Minor,
}

/// Why there is no first cluster.
#[derive(Debug, thiserror::Error)]
pub enum FirstClusterError {
    /// The frontend's address is none.
    #[error("`{0}` is not an address")]
    Address(String),
    /// There is no client.
    #[error("the frontend cannot be called")]
    Client(#[from] ClientBuildError),
    /// There is no token to show.
    #[error("there is no token for the frontend")]
    Token(#[from] IssuerError),
    /// What it is called is not a name that a resource may have.
    #[error("there can be no cluster of that name")]
    Name(#[from] MalformedResourceId),
    /// Nobody tells what becomes of it.
    #[error("the resource provider's records cannot be followed")]
    Records(#[from] pilothouse_records::Error),
    /// A call failed.
    #[error("the frontend did not answer")]
    Call(#[from] CallError),
    /// The frontend refused.
    #[error("{what} was refused with {status}: {message}")]
    Refused {
        /// What was asked for.
        what: String,
        /// The status.
        status: StatusCode,
        /// What it said.
        message: String,
    },
    /// It was begun, now or by somebody else, and failed.
    #[error("{what} ended as {state}: {message}")]
    Failed {
        /// What was asked for.
        what: String,
        /// Where it is asked for, and could be deleted.
        url: Box<Url>,
        /// How it ended.
        state: String,
        /// Why.
        message: String,
    },
    /// It takes too long.
    #[error("{what} is still {state} after {}s", OPERATION.as_secs())]
    Late {
        /// What was asked for.
        what: String,
        /// How far it is.
        state: String,
    },
    /// Its kubeconfig is not to be had.
    #[error(transparent)]
    Kubeconfig(#[from] HostedClustersError),
    /// Its kubeconfig cannot be written.
    #[error("the kubeconfig was not saved")]
    File(#[from] FileError),
}

/// Something that is to be there.
struct Wanted<'a> {
    what: String,
    /// Its id.
    resource: &'a str,
    body: Value,
}

// === impl FirstCluster ===

impl FirstCluster {
    /// The cluster of this name in a running region, which has these records.
    pub(crate) fn new(name: &str, endpoints: &Endpoints, data_dir: &DataDir, records: Records) -> Self {
        Self {
            name: name.to_owned(),
            frontend: endpoints.frontend.clone(),
            admin: endpoints.admin.clone(),
            data_dir: data_dir.clone(),
            records,
            repair: REPAIR,
            authentication: Authentication::None,
            minor: Minor::DEFAULT,
        }
    }

    /// The same in a region whose clusters consist of these programs.
    #[must_use]
    pub fn with_payload(mut self, payload: Payload) -> Self {
        self.minor = match payload {
            Payload::Light => Minor::DEFAULT,
            Payload::Upstream => UPSTREAM,
        };
        self
    }

    /// The same in a region that asks who calls.
    #[must_use]
    pub fn with_authentication(mut self, authentication: Authentication) -> Self {
        self.authentication = authentication;
        self
    }

    /// Asks for the cluster and its node pool unless they are there, waits for both, and leaves a kubeconfig: the operator's, whose
    /// file the region removes with the cluster, once it was [told](crate::Region::note_kubeconfig).
    ///
    /// # Errors
    ///
    /// If a request is refused or fails. Asking again goes on where this ended.
    pub async fn ensure(&self, say: &(dyn Fn(&str) + Sync)) -> Result<PathBuf, FirstClusterError> {
        // ARM tells of the subscription; the rest is asked for by somebody who is at home in it.
        let arm = self.frontend(Some(LocalRole::Arm))?;
        let registration = json!({
            "state": "Registered",
            "registrationDate": "2026-01-01T00:00:00Z",
            "properties": { "tenantId": TENANT },
        });
        let (status, answer) = arm.put(self.url(SUBSCRIPTION, "2.0")?, &registration).await?;
        accepted("the subscription", status, &answer)?;

        let client = self.frontend(None)?;
        let cluster = format!(
            "{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/{}",
            self.name
        );
        let what = format!("cluster `{}`", self.name);
        let body = cluster_body(&self.name, self.minor);
        let wanted = Wanted { what, resource: &cluster, body };
        self.bring_about(&client, wanted, self.news(&cluster).await?, say).await?;
        let (what, pool) = (format!("node pool `{NODE_POOL}`"), format!("{cluster}/nodePools/{NODE_POOL}"));
        let body = node_pool_body(self.minor);
        let wanted = Wanted { what, resource: &pool, body };
        self.bring_about(&client, wanted, self.news(&pool).await?, say).await?;

        let kubeconfig = HostedClusters::open(&self.data_dir).await?.kubeconfig(&self.name).await?;
        let file = self.data_dir.cluster_kubeconfig(&self.name);
        write_atomically(&file, kubeconfig.as_bytes(), Visibility::OwnerOnly)?;
        Ok(file)
    }

    /// What wakes whoever waits for a resource from now on.
    async fn news(&self, resource: &str) -> Result<impl Stream<Item = ()> + use<>, FirstClusterError> {
        Ok(news::of(&self.records, resource.parse::<ResourceId>()?).await?)
    }

    /// Waits until something is there, and asks for it whenever it is not: one that is on its way out is made anew. It is looked
    /// at when there is news of it.
    async fn bring_about(
        &self,
        client: &Frontend,
        wanted: Wanted<'_>,
        news: impl Stream<Item = ()>,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<(), FirstClusterError> {
        let Wanted { what, resource, body } = wanted;
        let url = self.url(resource, API_VERSION)?;
        let deadline = Instant::now() + OPERATION;
        let mut said = String::new();
        let mut news = pin!(news);
        loop {
            let (mut status, mut answer) = client.get(url.clone()).await?;
            if status == StatusCode::NOT_FOUND {
                (status, answer) = client.put(url.clone(), &body).await?;
            }
            accepted(&what, status, &answer)?;
            let state = text(&answer, "/properties/provisioningState");
            if state != said {
                say(&format!("{what}: {state}"));
                said.clone_from(&state);
            }
            match state.as_str() {
                "Succeeded" => return Ok(()),
                "Failed" | "Canceled" => {
                    let message = self.why(resource, &state).await;
                    return Err(FirstClusterError::Failed { what, url: Box::new(url), state, message });
                }
                _ if Instant::now() >= deadline => return Err(FirstClusterError::Late { what, state }),
                // Nothing comes of its being too late: then this is the look that mends what was missed.
                _ => drop(timeout_at(deadline.min(Instant::now() + self.repair), news.next()).await),
            }
        }
    }

    /// What the newest operation says that left a resource so, whoever asked for it: only administrators are told of
    /// operations of others.
    async fn why(&self, resource: &str, state: &str) -> String {
        let found = async {
            let administrator = self.frontend(Some(LocalRole::Administrator))?;
            let list = parse(format!("{}/admin/v1/operations?resource={resource}", self.admin))?;
            let operations = administrator.list(list).await?;
            let Some(operation) = newest(&operations, state) else { return Ok(None) };
            let (subscription, id) = (text(operation, "/subscription"), text(operation, "/id"));
            let url = parse(format!("{}/admin/v1/operations/{subscription}/{id}", self.admin))?;
            let (status, operation) = administrator.get(url).await?;
            accepted("its operation", status, &operation)?;
            Ok::<_, FirstClusterError>(Some(text(&operation, "/error/message")))
        };
        match found.await {
            Ok(Some(message)) => message,
            Ok(None) => "no operation that is kept says why".to_owned(),
            Err(error) => format!("why is not known, {}", Chain(&error)),
        }
    }

    /// The frontend as somebody of this role.
    fn frontend(&self, role: Option<LocalRole>) -> Result<Frontend, FirstClusterError> {
        let token = match self.authentication {
            Authentication::None => None,
            Authentication::LocalTokens => {
                let request = TokenRequest {
                    name: role.is_none().then(|| "first-cluster".to_owned()),
                    tenant: Some(TENANT),
                    app_id: None,
                    role,
                    lifetime: TOKEN,
                };
                let issuer = LocalIssuer::open(&self.data_dir.issuer())?;
                Some(issuer.issue(&request, Clock::system().now())?)
            }
        };
        Ok(Frontend::new(ClientBuilder::new(CALL).build()?, token))
    }

    fn url(&self, path: &str, version: &str) -> Result<Url, FirstClusterError> {
        parse(format!("{}{path}?api-version={version}", self.frontend))
    }
}

fn parse(text: String) -> Result<Url, FirstClusterError> {
    Url::parse(&text).map_err(|_| FirstClusterError::Address(text))
}

fn accepted(what: &str, status: StatusCode, answer: &Value) -> Result<(), FirstClusterError> {
    if status.is_success() {
        return Ok(());
    }
    Err(FirstClusterError::Refused { what: what.to_owned(), status, message: text(answer, "/error/message") })
}

/// Finds such a cluster at Clusters Service, which writes names in lower case.
pub(crate) fn search(name: &str) -> String {
    let subscription = SUBSCRIPTION.trim_start_matches("/subscriptions/");
    let name = name.to_lowercase().replace('\'', "''");
    format!(
        "azure.subscription_id = '{subscription}' and azure.resource_group_name = '{RESOURCE_GROUP}' \
         and azure.resource_name = '{name}'"
    )
}

/// Clusters share neither subnets nor security groups, so each has a network of its name.
fn cluster_body(name: &str, minor: Minor) -> Value {
    let in_group = |kind: &str| format!("{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/{kind}");
    let identity = in_group("Microsoft.ManagedIdentity/userAssignedIdentities/service");
    let network = in_group(&format!("Microsoft.Network/virtualNetworks/{name}/subnets"));
    json!({
        "identity": { "type": "UserAssigned", "userAssignedIdentities": { (identity.clone()): {} } },
        "properties": {
            "version": { "id": minor.to_string() },
            "platform": {
                "subnetId": format!("{network}/nodes"),
                "vnetIntegrationSubnetId": format!("{network}/control"),
                "networkSecurityGroupId": in_group(&format!("Microsoft.Network/networkSecurityGroups/{name}")),
                "operatorsAuthentication": { "userAssignedIdentities": {
                    "controlPlaneOperators": {}, "dataPlaneOperators": {},
                    "serviceManagedIdentity": identity,
                } },
            },
        },
    })
}

fn node_pool_body(minor: Minor) -> Value {
    json!({ "properties": {
        "version": { "id": minor.newest_release() },
        "platform": { "vmSize": "Standard_D8s_v3" },
        "replicas": 1,
    } })
}
