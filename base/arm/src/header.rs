//! Names of headers, lower-case as HTTP/2 has them.

/// Where the state of an asynchronous operation is.
pub const AZURE_ASYNC_OPERATION: &str = "azure-asyncoperation";
/// Where the result of an asynchronous operation will be.
pub const LOCATION: &str = "location";
/// Seconds to wait before asking again.
pub const RETRY_AFTER: &str = "retry-after";
/// The code of an error, beside the body.
pub const ERROR_CODE: &str = "x-ms-error-code";
/// The id of one request, made by whoever answers it.
pub const REQUEST_ID: &str = "x-ms-request-id";
/// The id of all requests that belong together.
pub const CORRELATION_REQUEST_ID: &str = "x-ms-correlation-request-id";
/// The id that the user's tool gave its request.
pub const CLIENT_REQUEST_ID: &str = "x-ms-client-request-id";
/// Whether the client wants its own id back.
pub const RETURN_CLIENT_REQUEST_ID: &str = "x-ms-return-client-request-id";
/// Who made and changed a resource, as ARM knows it; JSON of [`SystemData`](crate::SystemData).
pub const SYSTEM_DATA: &str = "x-ms-arm-resource-system-data";
/// The tenant the caller is at home in.
pub const HOME_TENANT_ID: &str = "x-ms-home-tenant-id";
/// The caller's object id in its tenant.
pub const CLIENT_OBJECT_ID: &str = "x-ms-client-object-id";
/// What the client called, before any proxy.
pub const REFERER: &str = "referer";
/// The name of whoever called, as ARM shows it.
pub const CLIENT_PRINCIPAL_NAME: &str = "x-ms-client-principal-name";
/// Where the credentials of a resource's identities are to be had.
pub const IDENTITY_URL: &str = "x-ms-identity-url";
/// The principal of the identity that the platform looks after for the resource.
pub const IDENTITY_PRINCIPAL_ID: &str = "x-ms-identity-principal-id";
/// Where ARM wants to hear of an operation's end.
pub const ASYNC_NOTIFICATION_URI: &str = "azure-asyncnotificationuri";
/// Whether ARM will hear of an operation's end.
pub const ASYNC_NOTIFICATION: &str = "azure-asyncnotification";
/// The scheme of what the client called, before any proxy.
pub const FORWARDED_PROTO: &str = "x-forwarded-proto";
/// Which state of a resource an answer shows.
pub const ETAG: &str = "etag";
/// Only if the resource is still in this state.
pub const IF_MATCH: &str = "if-match";
/// Only if the resource is not in this state; `*`: only if there is none.
pub const IF_NONE_MATCH: &str = "if-none-match";
