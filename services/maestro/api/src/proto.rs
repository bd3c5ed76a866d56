//! The messages of the gRPC API, package `io.cloudevents.v1`, and the names of its calls.
//!
//! Written by hand with prost's derives: there are four messages, they do not change, and building needs no `protoc` this
//! way. The numbers are the contract.

use std::collections::HashMap;

/// The service's full name.
pub const SERVICE: &str = "io.cloudevents.v1.CloudEventService";
/// The path of the call that takes one event.
pub const PUBLISH: &str = "/io.cloudevents.v1.CloudEventService/Publish";
/// The path of the call that streams events.
pub const SUBSCRIBE: &str = "/io.cloudevents.v1.CloudEventService/Subscribe";
/// The header by which a server says that a subscription stands.
pub const SUBSCRIPTION_ID: &str = "subscription-id";

/// What `Publish` takes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PublishRequest {
    /// The event.
    #[prost(message, optional, tag = "1")]
    pub event: Option<CloudEvent>,
}

/// What `Subscribe` takes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SubscriptionRequest {
    /// The source whose events are wanted.
    #[prost(string, tag = "1")]
    pub source: String,
    /// The cluster whose events are wanted, where agents subscribe.
    #[prost(string, tag = "2")]
    pub cluster_name: String,
    /// The kind of data.
    #[prost(string, tag = "3")]
    pub data_type: String,
}

/// An event.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CloudEvent {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Who sent it.
    #[prost(string, tag = "2")]
    pub source: String,
    /// The version of CloudEvents.
    #[prost(string, tag = "3")]
    pub spec_version: String,
    /// What it is.
    #[prost(string, tag = "4")]
    pub r#type: String,
    /// Everything else, by prefixed name.
    #[prost(map = "string, message", tag = "5")]
    pub attributes: HashMap<String, CloudEventAttributeValue>,
    /// The payload.
    #[prost(oneof = "cloud_event::Data", tags = "6, 7, 8")]
    pub data: Option<cloud_event::Data>,
}

/// Parts of [`CloudEvent`].
pub mod cloud_event {
    /// The payload, in one of three forms. Maestro sends the first.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Data {
        /// Bytes.
        #[prost(bytes, tag = "6")]
        BinaryData(Vec<u8>),
        /// Text.
        #[prost(string, tag = "7")]
        TextData(String),
        /// A message.
        #[prost(message, tag = "8")]
        ProtoData(prost_types::Any),
    }
}

/// The value of an attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CloudEventAttributeValue {
    /// The value.
    #[prost(oneof = "cloud_event_attribute_value::Attr", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub attr: Option<cloud_event_attribute_value::Attr>,
}

/// Parts of [`CloudEventAttributeValue`].
pub mod cloud_event_attribute_value {
    /// The value, in one of seven kinds.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Attr {
        /// Yes or no.
        #[prost(bool, tag = "1")]
        CeBoolean(bool),
        /// A number.
        #[prost(int32, tag = "2")]
        CeInteger(i32),
        /// Text.
        #[prost(string, tag = "3")]
        CeString(String),
        /// Bytes.
        #[prost(bytes, tag = "4")]
        CeBytes(Vec<u8>),
        /// An address.
        #[prost(string, tag = "5")]
        CeUri(String),
        /// A relative address.
        #[prost(string, tag = "6")]
        CeUriRef(String),
        /// A moment.
        #[prost(message, tag = "7")]
        CeTimestamp(prost_types::Timestamp),
    }
}
