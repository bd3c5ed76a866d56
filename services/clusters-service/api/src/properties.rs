//! Names in `properties`, the free-form part of a cluster or node pool, that both sides know.

/// The operation of the resource provider that asks for the resource. Together with the ARM resource it makes
/// creation repeatable: the same pair is the same cluster. Of a change it is the operation that asks for the change.
pub const OPERATION_ID: &str = "rp_operation_id";

/// Which programs a cluster's control plane consists of, `light` or `upstream`: chosen when it is made. Where it is not
/// sent, the management cluster decides.
pub const PAYLOAD: &str = "payload";

/// The id that follows the work through every process. A request's `x-ms-correlation-request-id` header is kept
/// here when the property is not sent.
pub const CORRELATION_ID: &str = "correlation_id";
