//! The custom resources of the flow, as a management cluster serves them.
//!
//! The shapes are those of the projects that own these kinds: a client written for them must not notice a difference.
//! Two rules make that possible without modelling every field:
//!
//! * **What is not modelled is kept.** Objects with more fields than we read have a member `other`, which holds the
//!   rest and becomes `x-kubernetes-preserve-unknown-fields` in the schema. Reading and writing back loses nothing.
//! * **Defaults are in the schema**, not in code that reads: the API server fills them in, so that every reader sees
//!   the same object.
//!
//! [`all`] is what a management cluster must serve before any of the services can work. The rendered definitions are golden
//! files beside the tests, so that a change shows as a diff.

mod applied_manifest_work;
mod condition;
mod hosted_cluster;
mod managed_cluster;
mod manifest_work;
mod node_pool;
mod route;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

pub use self::applied_manifest_work::{
    AppliedManifestWork, AppliedManifestWorkSpec, AppliedManifestWorkStatus, AppliedResource,
};
pub use self::condition::{Condition, ConditionStatus, find_condition, is_condition_true, set_condition};
pub use self::hosted_cluster::{
    AdvertisedAddress, AvailabilityPolicy, ClusterNetworkEntry, ClusterVersionStatus, ControlPlaneEndpoint,
    ControlPlaneVersionStatus, Dns, Etcd, EtcdManagementType, EtcdStorage, EtcdStorageType, HistoryEntry,
    HistoryState, HostedCluster, HostedClusterSpec, HostedClusterStatus, LoadBalancerPublishing, ManagedEtcd,
    Networking, NodePortPublishing, PersistentVolumeStorage, Platform, PlatformType, PublishedService,
    PublishingStrategy, PublishingType, Reference, Release, RoutePublishing, ServiceNetworkEntry,
    ServicePublishing,
};
pub use self::managed_cluster::{
    ClientConfig, ClusterClaim, ClusterTaint, ManagedCluster, ManagedClusterSpec, ManagedClusterStatus,
    ManagedClusterVersion,
};
pub use self::manifest_work::{
    DeleteOption, FeedbackRule, FeedbackRuleType, FeedbackValue, FieldValue, FieldValueType, JsonPath,
    ManifestCondition, ManifestConfig, ManifestResourceMeta, ManifestResourceStatus, ManifestWork,
    ManifestWorkSpec, ManifestWorkStatus, OrphaningRule, PropagationPolicy, ResourceIdentifier,
    SelectivelyOrphan, ServerSideApply, StatusFeedback, UpdateStrategy, UpdateStrategyType, Workload,
};
pub use self::node_pool::{
    AutoScaling, NodePool, NodePoolCondition, NodePoolManagement, NodePoolSpec, NodePoolStatus, NodeTaint,
    NodeVersion, NodesInfo, UpgradeType,
};
pub use self::route::{
    Route, RouteIngress, RouteIngressCondition, RoutePort, RouteSpec, RouteStatus, RouteTargetReference,
    RouteTermination, RouteTls,
};

/// What a management cluster must serve.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        HostedCluster::crd(),
        NodePool::crd(),
        ManifestWork::crd(),
        AppliedManifestWork::crd(),
        ManagedCluster::crd(),
        Route::crd(),
    ]
}
