//! What can be looked up before a cluster is made: versions, and the roles that operators need.

use jiff::Timestamp;
use pilothouse_arm::ResourceId;

use super::choice::RoleRequirement;
use crate::release::{Minor, OLDEST};

/// A version that clusters are offered in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenShiftVersion {
    /// Its name among all resources, below the location.
    pub id: ResourceId,
    /// The channel it comes from.
    pub channel_group: String,
    /// Whether clusters may be made of it now.
    pub enabled: bool,
    /// Until when it is looked after, if that is known.
    pub end_of_life: Option<Timestamp>,
}

/// What the operators of a version need to be allowed to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorRoleSet {
    /// Its name among all resources, below the location.
    pub id: ResourceId,
    /// In the control plane.
    pub control_plane: Vec<OperatorRoles>,
    /// In the cluster.
    pub data_plane: Vec<OperatorRoles>,
}

/// What one operator needs to be allowed to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorRoles {
    /// The operator.
    pub name: String,
    /// When it needs an identity at all.
    pub required: RoleRequirement,
    /// What its identity must be assigned.
    pub role_definitions: Vec<RoleDefinition>,
}

/// A role of the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleDefinition {
    /// Its name.
    pub name: String,
    /// Its id.
    pub resource_id: String,
}

struct Operator {
    name: &'static str,
    required: RoleRequirement,
    role: &'static str,
    role_id: &'static str,
}

const fn always(name: &'static str, role: &'static str, role_id: &'static str) -> Operator {
    Operator { name, required: RoleRequirement::Always, role, role_id }
}

const DISK: Operator = always(
    "disk-csi-driver",
    "Azure Red Hat OpenShift Disk Storage Operator",
    "5b7237c5-45e1-49d6-bc18-a1f62f400748",
);
const FILE: Operator = always(
    "file-csi-driver",
    "Azure Red Hat OpenShift File Storage Operator",
    "0d7aedc0-15fd-4a67-a412-efad370c947e",
);
const REGISTRY: Operator = always(
    "image-registry",
    "Azure Red Hat OpenShift Image Registry Operator",
    "8b32b316-c2f5-4ddf-b05b-83dacd2d08b5",
);

const CONTROL_PLANE: [Operator; 9] = [
    always(
        "cluster-api-azure",
        "Azure Red Hat OpenShift Hosted Control Planes Cluster API Provider",
        "88366f10-ed47-4cc0-9fab-c8a06148393e",
    ),
    always(
        "control-plane",
        "Azure Red Hat OpenShift Hosted Control Planes Control Plane Operator",
        "fc0c873f-45e9-4d0d-a7d1-585aab30c6ed",
    ),
    always(
        "cloud-controller-manager",
        "Azure Red Hat OpenShift Cloud Controller Manager",
        "a1f96423-95ce-4224-ab27-4e3dc72facd4",
    ),
    always(
        "ingress",
        "Azure Red Hat OpenShift Cluster Ingress Operator",
        "0336e1d3-7a87-462b-b6db-342b63f7802c",
    ),
    DISK,
    FILE,
    REGISTRY,
    always(
        "cloud-network-config",
        "Azure Red Hat OpenShift Network Operator",
        "be7a6435-15ae-4171-8f30-4a343eff9e8f",
    ),
    Operator {
        name: "kms",
        required: RoleRequirement::OnEnablement,
        role: "Key Vault Crypto User",
        role_id: "12338af0-0e69-4776-bea7-57ae8d297424",
    },
];
const DATA_PLANE: [Operator; 3] = [DISK, FILE, REGISTRY];

impl OperatorRoleSet {
    /// What the operators of a minor need; none for a minor that clusters are not offered in. All that are offered
    /// have the same operators.
    pub fn of_minor(id: ResourceId, minor: Minor) -> Option<Self> {
        let roles = |operator: &Operator| OperatorRoles {
            name: operator.name.to_owned(),
            required: operator.required,
            role_definitions: vec![RoleDefinition {
                name: operator.role.to_owned(),
                resource_id: format!(
                    "/providers/Microsoft.Authorization/roleDefinitions/{}",
                    operator.role_id
                ),
            }],
        };
        (minor >= OLDEST).then(|| Self {
            id,
            control_plane: CONTROL_PLANE.iter().map(roles).collect(),
            data_plane: DATA_PLANE.iter().map(roles).collect(),
        })
    }
}

/// The operators of the control plane that can be given an identity.
pub(crate) fn control_plane_operators() -> impl Iterator<Item = &'static str> {
    CONTROL_PLANE.iter().map(|operator| operator.name)
}

/// The operators in the cluster that can be given an identity.
pub(crate) fn data_plane_operators() -> impl Iterator<Item = &'static str> {
    DATA_PLANE.iter().map(|operator| operator.name)
}
