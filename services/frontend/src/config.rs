use pilothouse_access::{self as access, AuditConfig};
use pilothouse_http::ListenerConfig;
use serde::{Deserialize, Serialize};

/// How the frontend runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The region that resources are in.
    pub location: String,
    /// How many resources a page of a list has.
    pub page_size: usize,
    /// How many seconds clients are asked to wait between two looks at an operation.
    pub retry_after_seconds: u32,
    /// Whether a cluster must name an identity for every operator. A region on the local cloud has none to give.
    pub operator_identities_required: bool,
    /// Where managed identities get their credentials, for callers that are not ARM; ARM says it with the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity_url: Option<String>,
    /// Where it listens; port 0 takes a free one.
    pub listener: ListenerConfig,
    /// Who is let in.
    pub access: access::Config,
    /// The record of who did what.
    pub audit: AuditConfig,
    /// Where ARM may ask to be notified.
    pub notifications: Notifications,
    /// The administrators' surface; there is none without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<Admin>,
    /// Where a mesh in front may ask whether a request is to be let through; nowhere without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<ListenerConfig>,
}

/// Which addresses notifications may go to. Others are not refused: the caller then learns the end by asking.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Notifications {
    /// Hosts by their ends, such as `.management.azure.com`; an entry without the dot is that host alone.
    pub host_suffixes: Vec<String>,
    /// Also to addresses of this machine and of private networks.
    pub allow_private_addresses: bool,
}

/// The administrators' surface: a listener and credentials of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// Where it listens; port 0 takes a free one.
    pub listener: ListenerConfig,
    /// Who is let in: those under `administrators`.
    #[serde(default)]
    pub access: access::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            location: "local".to_owned(),
            page_size: 20,
            retry_after_seconds: 1,
            operator_identities_required: true,
            identity_url: None,
            listener: ListenerConfig::loopback(0),
            access: access::Config::default(),
            audit: AuditConfig::default(),
            notifications: Notifications::default(),
            admin: None,
            authorization: None,
        }
    }
}
