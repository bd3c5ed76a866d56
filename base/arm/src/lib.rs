//! Resource ids, api-versions, errors and asynchronous operations as ARM writes them.
//!
//! This is vocabulary: no input or output, no clock, no HTTP library. Whoever speaks ARM, as server or as client, takes
//! the words from here, so that an id is compared, an error is shaped and a link is built in one place.
//!
//! * [`ResourceId`] compares case-insensitively and remembers the casing it was given; [`ResourceId::key`] is the form
//!   under which things are stored.
//! * [`ApiVersion`] orders by date, a preview before the release of the same day.
//! * [`CloudError`] is the only form in which a caller sees that something went wrong: a status, a code of
//!   [`ErrorCode`], a target and, for a failure further down, a [`Failure`] that says where, what and what to do.
//! * [`OperationStatus`] is the document behind `Azure-AsyncOperation`; [`OperationLinks`] builds the headers.
//! * [`Correlation`] and [`CallerIdentity`] are what ARM says of a request in headers; [`TagProblem`] what may be wrong with
//!   tags.
//! * [`dns`]: zones and record sets.
//! * [`Page`] and [`Caller`] build the links that lead a client on: they start from what the client called,
//!   which behind a proxy is not what arrived here.

mod api_version;
mod caller_identity;
mod correlation;
pub mod dns;
mod error;
mod error_code;
mod failure;
pub mod header;
mod link;
mod operation;
mod paging;
mod provisioning_state;
mod resource_id;
mod subscription;
mod system_data;
mod tags;

pub use self::api_version::{ApiVersion, MalformedApiVersion};
pub use self::caller_identity::{CallerIdentity, MalformedIdentityUrl};
pub use self::correlation::Correlation;
pub use self::error::{AdditionalInfo, CloudError, ErrorDetails};
pub use self::error_code::ErrorCode;
pub use self::failure::Failure;
pub use self::link::Caller;
pub use self::operation::{OperationId, OperationLinks, OperationStatus, StepStatus};
pub use self::paging::Page;
pub use self::provisioning_state::ProvisioningState;
pub use self::resource_id::{MalformedResourceId, ResourceId, ResourceType};
pub use self::subscription::{MalformedSubscriptionId, SubscriptionId};
pub use self::system_data::{IdentityType, SystemData};
pub use self::tags::TagProblem;

/// The namespace of everything this resource provider offers.
pub const PROVIDER: &str = "Microsoft.RedHatOpenShift";
