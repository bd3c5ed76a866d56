//! A first cluster, asked for as anybody would: through the resource provider's API.

use std::path::PathBuf;
use std::time::Duration;

use http::{Method, StatusCode};
use pilothouse_access::{IssuerError, LocalIssuer, LocalRole, TokenRequest};
use pilothouse_api::Minor;
use pilothouse_http::{Call, CallError, Client, ClientBuildError, ClientBuilder};
use pilothouse_hypershift::Payload;
use pilothouse_pki::{FileError, Visibility, write_atomically};
use pilothouse_runtime::Clock;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use url::Url;
use uuid::Uuid;

use crate::config::Authentication;
use crate::data_dir::DataDir;
use crate::endpoints::Endpoints;
use crate::hosted_clusters::{HostedClusters, HostedClustersError};

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
/// ARM's operations are asked after, not heard of. A local one is over in less than a second.
const LOOK: Duration = Duration::from_millis(20);

/// A cluster with a node pool, and the way to ask for it.
#[derive(Debug)]
pub struct FirstCluster {
    name: String,
    frontend: String,
    data_dir: DataDir,
    authentication: Authentication,
    minor: Minor,
}

/// The frontend, and what it is shown.
struct Frontend {
    client: Client,
    token: Option<SecretString>,
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
    /// It was begun, and failed.
    #[error("{what} ended as {state}: {message}")]
    Failed {
        /// What was asked for.
        what: String,
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

/// A PUT that was accepted, or found done.
struct Accepted {
    what: String,
    resource: Url,
    /// Where its operation can be looked at, if there is one.
    operation: Option<Url>,
}

// === impl FirstCluster ===

impl FirstCluster {
    /// The cluster of this name in a running region.
    pub fn new(name: &str, endpoints: &Endpoints, data_dir: &DataDir) -> Self {
        Self {
            name: name.to_owned(),
            frontend: endpoints.frontend.clone(),
            data_dir: data_dir.clone(),
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
        let (status, answer, _) = arm.put(self.url(SUBSCRIPTION, "2.0")?, &registration).await?;
        accepted("the subscription", status, &answer)?;

        let client = self.frontend(None)?;
        let cluster = format!(
            "{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/{}",
            self.name
        );
        let asked = self
            .ask(&client, format!("cluster `{}`", self.name), &cluster, &cluster_body(&self.name, self.minor))
            .await?;
        asked.finish(&client, say).await?;
        let pool = format!("{cluster}/nodePools/{NODE_POOL}");
        let asked =
            self.ask(&client, format!("node pool `{NODE_POOL}`"), &pool, &node_pool_body(self.minor)).await?;
        asked.finish(&client, say).await?;

        let kubeconfig = HostedClusters::open(&self.data_dir).await?.kubeconfig(&self.name).await?;
        let file = self.data_dir.cluster_kubeconfig(&self.name);
        write_atomically(&file, kubeconfig.as_bytes(), Visibility::OwnerOnly)?;
        Ok(file)
    }

    async fn ask(
        &self,
        client: &Frontend,
        what: String,
        path: &str,
        body: &Value,
    ) -> Result<Accepted, FirstClusterError> {
        let resource = self.url(path, API_VERSION)?;
        let (status, _) = client.get(resource.clone()).await?;
        if status != StatusCode::NOT_FOUND {
            return Ok(Accepted { what, resource, operation: None });
        }
        let (status, answer, operation) = client.put(resource.clone(), body).await?;
        accepted(&what, status, &answer)?;
        Ok(Accepted { what, resource, operation })
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
        Ok(Frontend { client: ClientBuilder::new(CALL).build()?, token })
    }

    fn url(&self, path: &str, version: &str) -> Result<Url, FirstClusterError> {
        let text = format!("{}{path}?api-version={version}", self.frontend);
        Url::parse(&text).map_err(|_| FirstClusterError::Address(text))
    }
}

// === impl Accepted ===

impl Accepted {
    /// Waits until it has succeeded.
    async fn finish(self, client: &Frontend, say: &(dyn Fn(&str) + Sync)) -> Result<(), FirstClusterError> {
        let Self { what, resource, operation } = self;
        let deadline = Instant::now() + OPERATION;
        let mut said = String::new();
        loop {
            let (status, answer) = client.get(resource.clone()).await?;
            accepted(&what, status, &answer)?;
            let state = text(&answer, "/properties/provisioningState");
            if state != said {
                say(&format!("{what}: {state}"));
                said.clone_from(&state);
            }
            match state.as_str() {
                "Succeeded" => return Ok(()),
                "Failed" | "Canceled" => {
                    let message = match operation {
                        Some(operation) => text(&client.get(operation).await?.1, "/error/message"),
                        None => "the operation's error says why".to_owned(),
                    };
                    return Err(FirstClusterError::Failed { what, state, message });
                }
                _ if Instant::now() >= deadline => return Err(FirstClusterError::Late { what, state }),
                _ => sleep(LOOK).await,
            }
        }
    }
}

// === impl Frontend ===

impl Frontend {
    async fn get(&self, url: Url) -> Result<(StatusCode, Value), FirstClusterError> {
        let response = self.call(Method::GET, url).send().await?;
        let status = response.status();
        Ok((status, serde_json::from_slice(&response.bytes().await?).unwrap_or_default()))
    }

    async fn put(
        &self,
        url: Url,
        body: &Value,
    ) -> Result<(StatusCode, Value, Option<Url>), FirstClusterError> {
        let response = self.call(Method::PUT, url).json(body).send().await?;
        let status = response.status();
        let operation = response.headers().get("azure-asyncoperation").and_then(|value| value.to_str().ok());
        let operation = operation.and_then(|text| Url::parse(text).ok());
        Ok((status, serde_json::from_slice(&response.bytes().await?).unwrap_or_default(), operation))
    }

    fn call(&self, method: Method, url: Url) -> Call {
        let call = self.client.call(method, url);
        match &self.token {
            Some(token) => call.bearer(token.expose_secret()),
            None => call,
        }
    }
}

fn accepted(what: &str, status: StatusCode, answer: &Value) -> Result<(), FirstClusterError> {
    if status.is_success() {
        return Ok(());
    }
    Err(FirstClusterError::Refused { what: what.to_owned(), status, message: text(answer, "/error/message") })
}

fn text(answer: &Value, pointer: &str) -> String {
    answer.pointer(pointer).and_then(Value::as_str).unwrap_or("(nothing)").to_owned()
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
