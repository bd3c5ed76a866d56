use std::fmt;
use std::str::FromStr;

use super::InvalidEvent;

/// The one kind of data that is carried: bundles of manifests.
pub const DATA_TYPE: &str = "io.open-cluster-management.works.v1alpha1.manifestbundles";
/// The type of the event by which a server says that it is there.
pub const HEARTBEAT: &str = "io.open-cluster-management.cloudevents.heartbeat";

/// What an event asks for: `<data type>.<subresource>.<action>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventType {
    /// Of what; [`DATA_TYPE`] unless it is somebody else's.
    pub data_type: String,
    /// Which half of it.
    pub subresource: Subresource,
    /// To do what.
    pub action: Action,
}

/// The halves of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// What is wanted; travels down.
    Spec,
    /// What was observed; travels up.
    Status,
}

/// What an event asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make it.
    Create,
    /// Change it.
    Update,
    /// Remove it.
    Delete,
    /// Send what I have missed.
    ResyncRequest,
    /// This is what was missed.
    ResyncResponse,
}

impl EventType {
    /// A type about bundles of manifests.
    pub fn new(subresource: Subresource, action: Action) -> Self {
        Self { data_type: DATA_TYPE.to_owned(), subresource, action }
    }

    /// Whether it is about bundles of manifests.
    pub fn is_ours(&self) -> bool {
        self.data_type == DATA_TYPE
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subresource = match self.subresource {
            Subresource::Spec => "spec",
            Subresource::Status => "status",
        };
        let action = match self.action {
            Action::Create => "create_request",
            Action::Update => "update_request",
            Action::Delete => "delete_request",
            Action::ResyncRequest => "resync_request",
            Action::ResyncResponse => "resync_response",
        };
        write!(formatter, "{}.{subresource}.{action}", self.data_type)
    }
}

impl FromStr for EventType {
    type Err = InvalidEvent;

    fn from_str(text: &str) -> Result<Self, InvalidEvent> {
        let unknown = || InvalidEvent::Kind(text.to_owned());
        let (rest, action) = text.rsplit_once('.').ok_or_else(unknown)?;
        let (data_type, subresource) = rest.rsplit_once('.').ok_or_else(unknown)?;
        // Group, version and resource; the group may have dots of its own.
        if data_type.split('.').count() < 3 || data_type.split('.').any(str::is_empty) {
            return Err(unknown());
        }
        let subresource = match subresource {
            "spec" => Subresource::Spec,
            "status" => Subresource::Status,
            _ => return Err(unknown()),
        };
        let action = match action {
            "create_request" => Action::Create,
            "update_request" => Action::Update,
            "delete_request" => Action::Delete,
            "resync_request" => Action::ResyncRequest,
            "resync_response" => Action::ResyncResponse,
            _ => return Err(unknown()),
        };
        Ok(Self { data_type: data_type.to_owned(), subresource, action })
    }
}
