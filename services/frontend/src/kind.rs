//! What clusters, node pools and external authentications have in common, and what each does in its own way.

use pilothouse_api::{Invalid, Target, hub};
use pilothouse_arm::{OperationId, ProvisioningState, ResourceId, SystemData};
use pilothouse_records::{
    Change, Cluster, Error, ExternalAuth, Listed, NodePool, Operation, Records, Reservation, Stored,
};
use serde_json::Value;

use crate::answer::Refusal;
use crate::call::Call;
use crate::page::Part;
use crate::service::App;

/// A kind of resource. The flow of requests is the same for all ([`crate::resource`]); this is what differs.
pub(crate) trait Kind: Send + Sync + 'static {
    /// The resource in the hub model.
    type Hub: Hub;
    /// The resource as it is stored.
    type Record: Record<Hub = Self::Hub>;
    /// Whether it lies below a cluster.
    const IS_CHILD: bool;
    /// Whether what else is below the cluster decides if one may be made.
    const IS_ONLY_CHILD: bool;

    fn get(
        records: &Records,
        id: &ResourceId,
    ) -> impl Future<Output = Result<Option<Stored<Self::Record>>, Error>> + Send;

    /// A part of those below a scope or a cluster, in the order of their ids.
    fn list(
        records: &Records,
        call: &Call,
        above: &ResourceId,
        part: &Part,
    ) -> impl Future<Output = Result<Listed<Self::Record>, Error>> + Send;

    /// As the caller's version shows it.
    fn show(call: &Call, resource: &Self::Hub) -> Value;

    /// What a PUT asks for.
    fn put(
        call: &Call,
        body: &[u8],
        target: &Target<'_, Self::Hub>,
        parent: Option<&Cluster>,
    ) -> Result<Self::Hub, Invalid>;

    /// What a PATCH asks for.
    fn patch(
        call: &Call,
        body: &[u8],
        target: &Target<'_, Self::Hub>,
        parent: Option<&Cluster>,
    ) -> Result<Self::Hub, Invalid>;

    /// Completes a resource that is to be made, or refuses it by what else there is. The answer is what it reserves, for
    /// itself or for its cluster.
    fn admit(
        app: &App,
        call: &Call,
        parent: Option<&Cluster>,
        wanted: &mut Self::Hub,
    ) -> impl Future<Output = Result<Vec<Reservation>, Refusal>> + Send;

    /// Asks Clusters Service whether it would make this. The answer is what it is to be asked for.
    fn ask_to_create(
        app: &App,
        call: &Call,
        parent: Option<&Cluster>,
        wanted: &Self::Hub,
        operation: OperationId,
    ) -> impl Future<Output = Result<Value, Refusal>> + Send;

    /// Asks Clusters Service whether it would change this. The answer is what it is to be asked for, if it is anything.
    fn ask_to_update(
        app: &App,
        call: &Call,
        parent: Option<&Cluster>,
        stored: &Self::Record,
        wanted: &Self::Hub,
        operation: OperationId,
    ) -> impl Future<Output = Result<Option<Value>, Refusal>> + Send;

    /// Refuses a deletion by what else there is.
    fn admit_deletion(
        app: &App,
        parent: Option<&Cluster>,
        stored: &Self::Record,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// A new record, held by the operation that makes the resource.
    fn record(
        app: &App,
        call: &Call,
        resource: Self::Hub,
        operation: OperationId,
        reservations: &[Reservation],
    ) -> Result<Self::Record, Refusal>;

    fn stage_create(change: &mut Change<'_>, record: &Self::Record) -> Result<(), Error>;

    fn stage_replace(change: &mut Change<'_>, stored: &Stored<Self::Record>) -> Result<(), Error>;

    /// Marks what lies below a resource that goes.
    fn stage_deletion_below(
        app: &App,
        change: &mut Change<'_>,
        id: &ResourceId,
        operation: &Operation,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;
}

/// A resource in the hub model.
pub(crate) trait Hub: Clone + PartialEq + Send + Sync {
    fn id(&self) -> &ResourceId;
    fn system_data_mut(&mut self) -> &mut SystemData;
    fn state(&self) -> ProvisioningState;
    fn state_mut(&mut self) -> &mut ProvisioningState;
}

/// A resource as it is stored.
pub(crate) trait Record: Clone + Send + Sync {
    type Hub;
    fn resource(&self) -> &Self::Hub;
    fn resource_mut(&mut self) -> &mut Self::Hub;
    fn active_operation(&self) -> Option<OperationId>;
    /// From now on this operation alone may write it.
    fn hold(&mut self, operation: OperationId);
}

macro_rules! common {
    ($kind:ident) => {
        impl Hub for hub::$kind {
            fn id(&self) -> &ResourceId {
                &self.id
            }

            fn system_data_mut(&mut self) -> &mut SystemData {
                &mut self.system_data
            }

            fn state(&self) -> ProvisioningState {
                self.status.provisioning_state
            }

            fn state_mut(&mut self) -> &mut ProvisioningState {
                &mut self.status.provisioning_state
            }
        }

        impl Record for $kind {
            type Hub = hub::$kind;

            fn resource(&self) -> &hub::$kind {
                &self.resource
            }

            fn resource_mut(&mut self) -> &mut hub::$kind {
                &mut self.resource
            }

            fn active_operation(&self) -> Option<OperationId> {
                self.active_operation
            }

            fn hold(&mut self, operation: OperationId) {
                self.active_operation = Some(operation);
            }
        }
    };
}

common!(Cluster);
common!(NodePool);
common!(ExternalAuth);
