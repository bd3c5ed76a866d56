//! What Maestro speaks: CloudEvents, resource bundles, the gRPC source API and its client.
//!
//! Maestro carries Kubernetes manifests from a *source* (here: Clusters Service) to a *consumer* (a management cluster)
//! and brings their status back. This crate is the contract of both sides:
//!
//! * [`CloudEvent`] is the envelope, with its three written forms: protobuf over gRPC ([`proto`]), user properties over
//!   MQTT ([`CloudEvent::to_properties`]), and JSON, as it is stored. The protobuf form is Maestro's own, not that of the
//!   CloudEvents project: attribute names carry the prefix `ce-`.
//! * [`EventType`] says what an event asks for; the names in [`extension`] are what else it carries.
//! * [`ManifestBundle`] is the payload on the way down, [`BundleStatus`] the one on the way up. They are for both ends; what
//!   stands in between passes payloads on as they are, or it would lose the fields it does not know yet.
//! * [`EventChannel`] is the connection to a server's gRPC interface; [`SourceClient`] publishes works and subscribes to their status; [`RestClient`] reads what the server knows.
//!
//! The crate runs no tasks. A [`Subscription`] that breaks ends with an error; connecting again, and asking for what was
//! missed ([`SourceClient::resync`]), is the caller's decision.

mod bundle;
mod client;
mod error;
mod event;
pub mod proto;
mod rest;
mod status;
mod work;

pub use self::bundle::{
    ManifestBundle, ResourceVersion, ResourceVersionList, StatusHash, StatusHashList, StatusPayload,
};
pub use self::client::{Dial, EventChannel, Events, RestClient, SourceClient, Subscription};
pub use self::error::Error;
pub use self::event::{
    Action, Attribute, CloudEvent, DATA_TYPE, EventType, HEARTBEAT, InvalidEvent, Subresource, extension,
};
pub use self::rest::{Consumer, ErrorBody, List, ResourceBundle, ResourceBundleStatus};
pub use self::status::{BundleStatus, feedback};
pub use self::work::{StatusEvent, Work, work_uid};
