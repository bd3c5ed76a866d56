use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_arm::{IdentityType, SubscriptionId};

/// Who makes a request. An extension on every request that passed the gate. A cheap handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(Arc<Known>);

/// What is known of somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) standing: Standing,
    pub(crate) administrator: bool,
    pub(crate) credential: Credential,
    pub(crate) name: String,
    pub(crate) identity_type: IdentityType,
    pub(crate) tenant_id: Option<String>,
    pub(crate) object_id: Option<String>,
    pub(crate) app_id: Option<String>,
    pub(crate) roles: Reach,
}

/// How far somebody's word is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody was asked for credentials.
    Unauthenticated,
    /// Azure Resource Manager, which has authenticated its own callers and speaks for them.
    Arm,
    /// Somebody who speaks for itself.
    Caller,
}

/// What somebody showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    None,
    Token,
    Certificate,
}

/// Subscriptions that the role list gives somebody, whatever their tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    All,
    Some(BTreeSet<SubscriptionId>),
}

impl Reach {
    /// No subscription at all.
    pub(crate) fn none() -> Self {
        Self::Some(BTreeSet::new())
    }
}

impl Principal {
    /// Whoever is on this machine, where no authentication is configured.
    pub fn unauthenticated() -> Self {
        Self::new(Known {
            standing: Standing::Unauthenticated,
            administrator: true,
            credential: Credential::None,
            name: "somebody on this machine".to_owned(),
            identity_type: IdentityType::Application,
            tenant_id: None,
            object_id: None,
            app_id: None,
            roles: Reach::All,
        })
    }

    pub(crate) fn new(known: Known) -> Self {
        Self(Arc::new(known))
    }

    /// Whether it is configured as ARM: what its headers say of its callers is believed, and required.
    pub fn is_arm(&self) -> bool {
        self.0.standing == Standing::Arm
    }

    /// Whether its `X-Ms-*` headers are its own. Those of others have been dropped and replaced by what their
    /// credentials say before a handler sees the request.
    pub fn believes_headers(&self) -> bool {
        matches!(self.0.standing, Standing::Arm | Standing::Unauthenticated)
    }

    /// Whether it may use the administrators' surface.
    pub fn is_administrator(&self) -> bool {
        self.0.administrator
    }

    /// What it is called, for people: a user's name, an application's id, a certificate's subject.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What kind of identity it is.
    pub fn identity_type(&self) -> IdentityType {
        self.0.identity_type
    }

    /// The tenant it is at home in.
    pub fn tenant_id(&self) -> Option<&str> {
        self.0.tenant_id.as_deref()
    }

    /// Its id in that tenant.
    pub fn object_id(&self) -> Option<&str> {
        self.0.object_id.as_deref()
    }

    /// The application that it uses or is.
    pub fn app_id(&self) -> Option<&str> {
        self.0.app_id.as_deref()
    }

    pub(crate) fn credential(&self) -> Credential {
        self.0.credential
    }

    /// How it is known, for people who read an operation's timeline.
    pub fn how(&self) -> String {
        match (self.0.credential, &self.0.app_id) {
            (Credential::None, _) => "accepted from this machine; no authentication is configured".to_owned(),
            (Credential::Token, Some(app_id)) => format!("token of app {app_id}"),
            (Credential::Token, None) => format!("token of {}", self.0.name),
            (Credential::Certificate, _) => format!("client certificate {}", self.0.name),
        }
    }

    /// Whether it may look at and change what is in a subscription: ARM in any, others in those of their tenant and in
    /// those that the role list gives them. A subscription whose tenant nobody told is nobody's.
    pub fn may_act_on(&self, subscription: SubscriptionId, tenant_of_subscription: Option<&str>) -> bool {
        let at_home = match (self.tenant_id(), tenant_of_subscription) {
            (Some(own), Some(other)) => own.eq_ignore_ascii_case(other),
            _ => false,
        };
        at_home || self.may_manage(subscription)
    }

    /// Whether it may tell what state the subscription itself is in: ARM does, and whoever the role list names. Being at
    /// home in its tenant does not suffice, since `Deleted` deletes everything.
    pub fn may_manage(&self, subscription: SubscriptionId) -> bool {
        self.believes_headers()
            || match &self.0.roles {
                Reach::All => true,
                Reach::Some(subscriptions) => subscriptions.contains(&subscription),
            }
    }
}
