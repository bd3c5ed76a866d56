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
//! [`all`] is what a management cluster must serve before any of the services can work. The rendered definitions are in
//! `schema/crds`, written by `cargo xtask crds`, so that a change shows as a diff.

mod applied_manifest_work;
mod certificate_revocation_request;
mod certificate_signing_request_approval;
mod cluster_api;
mod condition;
mod console_cli_download;
mod hosted_cluster;
mod hosted_control_plane;
mod ingress_controller;
mod kubevirt;
mod managed_cluster;
mod manifest_work;
mod multi_cluster_engine;
mod node_pool;
mod operator_lifecycle;
mod quantity;
mod route;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

pub use self::applied_manifest_work::{
    AppliedManifestWork, AppliedManifestWorkSpec, AppliedManifestWorkStatus, AppliedResource,
};
pub use self::certificate_revocation_request::{
    CertificateRevocationRequest, CertificateRevocationRequestSpec, CertificateRevocationRequestStatus,
    SignerClass,
};
pub use self::certificate_signing_request_approval::{
    CertificateSigningRequestApproval, CertificateSigningRequestApprovalSpec,
    CertificateSigningRequestApprovalStatus,
};
pub use self::cluster_api::{
    Bootstrap, CapiCluster, CapiClusterSpec, CapiClusterStatus, CapiNetwork, CapiRanges, Machine,
    MachineAddress, MachineDeployment, MachineDeploymentSpec, MachineDeploymentStatus,
    MachineDeploymentStrategy, MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus,
    MachineSet, MachineSetSpec, MachineSetStatus, MachineSpec, MachineStatus, MachineTemplate, MatchLabels,
    TemplateMetadata, UnhealthyCondition,
};
pub use self::condition::{Condition, ConditionStatus, find_condition, is_condition_true, set_condition};
pub use self::console_cli_download::{CliDownloadLink, ConsoleCLIDownload, ConsoleCliDownloadSpec};
pub use self::hosted_cluster::{
    AdvertisedAddress, Aescbc, AgentPlatform, AvailabilityPolicy, AzureKms, AzureKmsKey, Capabilities,
    ClusterAutoscaling, ClusterConfiguration, ClusterNetworkEntry, ClusterVersionStatus,
    ControlPlaneEndpoint, ControlPlaneVersionStatus, DesiredRelease, Dns, Etcd, EtcdManagementType,
    EtcdStorage, EtcdStorageType, EtcdTls, Expander, HistoryEntry, HistoryState, HostedCluster,
    HostedClusterSpec, HostedClusterStatus, ImageContentSource, InfraCredentials, KeyReference, Kms,
    KmsProvider, KubeVirtPlatform, LoadBalancerPublishing, ManagedEtcd, Networking, NodePortPublishing,
    OlmCatalogPlacement, OptionalCapability, PersistentVolumeStorage, Platform, PlatformType,
    PublishedService, PublishingStrategy, PublishingType, Reference, Release, RoutePublishing, ScaleDown,
    Scaling, SecretEncryption, SecretEncryptionType, ServiceNetworkEntry, ServicePublishing,
    StorageClassMapping, StorageDriver, StorageDriverType, StorageMappings, Switch, UnmanagedEtcd,
    VolumeSnapshotClassMapping,
};
pub use self::hosted_control_plane::{HostedControlPlane, HostedControlPlaneSpec, HostedControlPlaneStatus};
pub use self::ingress_controller::{
    IngressController, IngressControllerSpec, IngressControllerStatus, RouteAdmission,
};
pub use self::kubevirt::{
    CloudInit, Domain, DomainCpu, DomainMemory, MachineVolume, VirtualMachine, VirtualMachineCondition,
    VirtualMachineInstance, VirtualMachineInstanceSpec, VirtualMachineInstanceStatus,
    VirtualMachineInterface, VirtualMachineSpec, VirtualMachineStatus, VirtualMachineTemplate,
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
pub use self::multi_cluster_engine::{
    ComponentCondition, ComponentOverride, MultiClusterEngine, MultiClusterEngineOverrides,
    MultiClusterEngineSpec, MultiClusterEngineStatus,
};
pub use self::node_pool::{
    AdditionalNetwork, AutoScaling, CacheStrategy, DiskImage, HostDevice, InPlaceUpgrade, KubeVirtCompute,
    KubeVirtNodePoolPlatform, KubeVirtRootVolume, Multiqueue, NodePool, NodePoolCondition,
    NodePoolManagement, NodePoolPlatform, NodePoolSpec, NodePoolStatus, NodeTaint, NodeVersion, NodesInfo,
    PersistentRootVolume, QosClass, ReplaceStrategy, ReplaceUpgrade, RollingUpdate, UpgradeType,
};
pub use self::operator_lifecycle::{
    OperatorGroup, OperatorGroupSpec, OperatorGroupStatus, Subscription, SubscriptionSpec, SubscriptionStatus,
};
pub use self::route::{
    Route, RouteIngress, RouteIngressCondition, RoutePort, RouteSpec, RouteStatus, RouteTargetReference,
    RouteTermination, RouteTls,
};

/// What a management cluster must serve.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        HostedCluster::crd(),
        HostedControlPlane::crd(),
        NodePool::crd(),
        CertificateSigningRequestApproval::crd(),
        CertificateRevocationRequest::crd(),
        ManifestWork::crd(),
        AppliedManifestWork::crd(),
        ManagedCluster::crd(),
        MultiClusterEngine::crd(),
        CapiCluster::crd(),
        MachineDeployment::crd(),
        MachineSet::crd(),
        Machine::crd(),
        MachineHealthCheck::crd(),
        VirtualMachine::crd(),
        VirtualMachineInstance::crd(),
        ConsoleCLIDownload::crd(),
        IngressController::crd(),
        OperatorGroup::crd(),
        Subscription::crd(),
        Route::crd(),
    ]
}
