//! Names in `properties`, the free-form part of a cluster or node pool, that both sides know.

/// The operation of the resource provider that asks for the resource. Together with the ARM resource it makes
/// creation repeatable: the same pair is the same cluster. Of a change it is the operation that asks for the change.
pub const OPERATION_ID: &str = "rp_operation_id";

/// The id that follows the work through every process. A request's `x-ms-correlation-request-id` header is kept
/// here when the property is not sent.
pub const CORRELATION_ID: &str = "correlation_id";
