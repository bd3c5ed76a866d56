//! Names in `properties`, the free-form part of a cluster or node pool, that both sides know.

/// The operation of the resource provider that asks for the resource. Together with the ARM resource it makes
/// creation repeatable: the same pair is the same cluster. Of a change it is the operation that asks for the change.
pub const OPERATION_ID: &str = "rp_operation_id";

/// Which programs a cluster's control plane consists of, `light` or `upstream`: chosen when it is made. Where it is not
/// sent, the management cluster decides.
pub const PAYLOAD: &str = "payload";

/// Whether every part of a cluster's control plane runs once: `true`, which is also what is done where it is not sent, or
/// `false`, for several of each. Chosen when it is made.
pub const SINGLE_REPLICA: &str = "hosted_cluster_single_replica";

/// The id that follows the work through every process. A request's `x-ms-correlation-request-id` header is kept
/// here when the property is not sent.
pub const CORRELATION_ID: &str = "correlation_id";
