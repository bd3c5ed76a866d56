//! The requests in a life, and what each of them leads to.

use http::Method;
use pilothouse_arm::ResourceId;
use pilothouse_clusters_service_api::BreakGlassCredentialStatus;
use pilothouse_clusters_service_api::simulated::Simulated;
use serde_json::{Value, json};

use crate::bad_requests;
use crate::bodies::{self, SUBSCRIPTION};

/// One request in the life of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    ClusterCreate,
    NodePoolCreate,
    ExternalAuthCreate,
    ClusterUpdate,
    NodePoolUpdate,
    ExternalAuthUpdate,
    CredentialRequest,
    CredentialsRevoke,
    ExternalAuthDelete,
    NodePoolDelete,
    ClusterDelete,
    /// Of another one, with a cluster in it.
    SubscriptionDelete,
}

pub(super) const LIFE: [Step; 12] = [
    Step::ClusterCreate,
    Step::NodePoolCreate,
    Step::ExternalAuthCreate,
    Step::ClusterUpdate,
    Step::NodePoolUpdate,
    Step::ExternalAuthUpdate,
    Step::CredentialRequest,
    Step::CredentialsRevoke,
    Step::ExternalAuthDelete,
    Step::NodePoolDelete,
    Step::ClusterDelete,
    Step::SubscriptionDelete,
];

impl Step {
    /// What is asked for.
    pub(super) fn request(self, name: &str) -> (Method, String, Value) {
        let cluster = bodies::cluster_id(name);
        let pool = format!("{cluster}/nodePools/workers");
        let auth = format!("{cluster}/externalAuths/entra");
        let (method, path, body) = match self {
            Self::ClusterCreate => (Method::PUT, cluster, bodies::cluster(name)),
            Self::NodePoolCreate => (Method::PUT, pool, bodies::node_pool()),
            Self::ExternalAuthCreate => (Method::PUT, auth, bodies::external_auth()),
            Self::ClusterUpdate => {
                (Method::PATCH, cluster, json!({"properties": {"nodeDrainTimeoutMinutes": 7}}))
            }
            Self::NodePoolUpdate => (Method::PATCH, pool, json!({"properties": {"replicas": 3}})),
            Self::ExternalAuthUpdate => {
                (Method::PATCH, auth, json!({"properties": {"issuer": {"audiences": ["others"]}}}))
            }
            Self::CredentialRequest => (
                Method::POST,
                format!("{cluster}/requestAdminCredential"),
                bad_requests::right_credential_request(),
            ),
            Self::CredentialsRevoke => (Method::POST, format!("{cluster}/revokeCredentials"), Value::Null),
            Self::ExternalAuthDelete => (Method::DELETE, auth, Value::Null),
            Self::NodePoolDelete => (Method::DELETE, pool, Value::Null),
            Self::ClusterDelete => (Method::DELETE, cluster, Value::Null),
            Self::SubscriptionDelete => {
                (Method::PUT, format!("/subscriptions/{}", other(name)), subscription("Deleted"))
            }
        };
        let version = if self == Self::SubscriptionDelete { "2.0" } else { "2026-10-01" };
        (method, format!("{path}?api-version={version}"), body)
    }

    /// The resource that the operation is on, and which kind of operation it is.
    pub(super) fn operation(self, name: &str) -> (ResourceId, &'static str) {
        let cluster = bodies::cluster_id(name);
        let pool = format!("{cluster}/nodePools/workers");
        let auth = format!("{cluster}/externalAuths/entra");
        let (id, request) = match self {
            Self::ClusterCreate => (cluster, "Create"),
            Self::NodePoolCreate => (pool, "Create"),
            Self::ExternalAuthCreate => (auth, "Create"),
            Self::ClusterUpdate => (cluster, "Update"),
            Self::NodePoolUpdate => (pool, "Update"),
            Self::ExternalAuthUpdate => (auth, "Update"),
            Self::CredentialRequest => (cluster, "RequestCredential"),
            Self::CredentialsRevoke => (cluster, "RevokeCredentials"),
            Self::ExternalAuthDelete => (auth, "Delete"),
            Self::NodePoolDelete => (pool, "Delete"),
            Self::ClusterDelete => (cluster, "Delete"),
            Self::SubscriptionDelete => (other_cluster(name).0, "Delete"),
        };
        (id.parse().unwrap(), request)
    }

    /// Whether asking again without an answer to the first time may be asking for another one.
    pub(super) fn may_be_repeated(self) -> bool {
        matches!(
            self,
            Self::ClusterUpdate
                | Self::NodePoolUpdate
                | Self::ExternalAuthUpdate
                | Self::CredentialRequest
                | Self::CredentialsRevoke
        )
    }

    /// What Clusters Service has when `operations` of this kind are done.
    pub(super) fn assert_done(self, service: &Simulated, name: &str, operations: usize) {
        let wanted =
            if self == Self::SubscriptionDelete { other_cluster(name).0 } else { bodies::cluster_id(name) };
        let clusters = service.clusters();
        let clusters: Vec<_> = clusters
            .iter()
            .filter(|cluster| cluster.azure.resource_id().eq_ignore_ascii_case(&wanted))
            .collect();
        let pools = service.node_pools();
        let pools: Vec<_> = pools
            .iter()
            .filter(|pool| {
                pool.id.as_str() == "workers" && clusters.iter().any(|one| one.id == pool.cluster_id)
            })
            .collect();
        let auths = service.external_auths();
        let auths: Vec<_> =
            auths.iter().filter(|auth| clusters.iter().any(|one| one.id == auth.cluster_id)).collect();
        let expected = match self {
            Self::ClusterCreate | Self::NodePoolDelete => (1, 0, 0),
            Self::NodePoolCreate | Self::ExternalAuthDelete => (1, 1, 0),
            Self::ClusterDelete | Self::SubscriptionDelete => (0, 0, 0),
            _ => (1, 1, 1),
        };
        assert_eq!((clusters.len(), pools.len(), auths.len()), expected, "{self:?} of {name}");
        let credentials = service.credentials();
        let credentials = credentials.iter().filter(|one| clusters.iter().any(|of| of.id == one.cluster_id));
        let statuses: Vec<_> = credentials.map(|credential| credential.status).collect();
        match self {
            Self::ClusterUpdate => {
                let minutes = clusters[0].node_drain_grace_period.as_ref().map(|period| period.value);
                assert_eq!(minutes, Some(7), "{name}");
            }
            Self::NodePoolUpdate => assert_eq!(pools[0].replicas, Some(3), "{name}"),
            Self::ExternalAuthUpdate => assert_eq!(auths[0].issuer.audiences, ["others"], "{name}"),
            Self::CredentialRequest => {
                assert_eq!(statuses, vec![BreakGlassCredentialStatus::Issued; operations], "{name}");
            }
            Self::CredentialsRevoke => {
                let revoked = |status: &_| *status == BreakGlassCredentialStatus::Revoked;
                assert!(!statuses.is_empty() && statuses.iter().all(revoked), "{name}: {statuses:?}");
            }
            _ => {}
        }
    }
}

/// A subscription that is there to be deleted in one life.
pub(super) fn other(name: &str) -> String {
    let number = name.bytes().fold(0_u64, |number, byte| number * 31 + u64::from(byte));
    format!("00000000-0000-4000-8000-{:012x}", number & 0xffff_ffff_ffff)
}

/// A cluster in it: its id, and what makes it.
pub(super) fn other_cluster(name: &str) -> (String, Value) {
    let own = |text: String| text.replace(SUBSCRIPTION, &other(name));
    let id = own(bodies::cluster_id(name));
    (id, serde_json::from_str(&own(bodies::cluster(name).to_string())).unwrap())
}

/// What ARM tells of a subscription.
pub(super) fn subscription(state: &str) -> Value {
    json!({"state": state, "registrationDate": "Sun, 15 Nov 2026 10:00:00 GMT",
           "properties": {"tenantId": "00000000-0000-0000-0000-0000000000ff"}})
}
