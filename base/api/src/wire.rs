//! What all wire versions share: the envelopes, and the way from bytes to the hub and back.
//!
//! Members that only the service may set are never read, so whatever a caller sends there is ignored.

use std::collections::BTreeMap;

use pilothouse_arm::{ResourceId, SystemData};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hub;
use crate::invalid::{FieldError, Invalid, Problems};
use crate::schema::CREATED;
use crate::version::Target;

/// A resource as one version has it.
pub(crate) trait Wire: Serialize + DeserializeOwned + JsonSchema {
    /// What it is inside.
    type Hub;

    fn read(self, target: &Target<'_, Self::Hub>, problems: &mut Problems) -> Self::Hub;
    fn write(resource: &Self::Hub) -> Self;
}

/// What is in the envelope.
pub(crate) trait Properties: Serialize + DeserializeOwned + JsonSchema {
    /// The resource they belong to.
    type Hub: InEnvelope;

    /// What is asked for. What this version does not know stays as it is in `existing`.
    fn read(
        self,
        existing: Option<&<Self::Hub as InEnvelope>::Spec>,
        problems: &mut Problems,
    ) -> <Self::Hub as InEnvelope>::Spec;
    fn write(spec: &<Self::Hub as InEnvelope>::Spec, status: &<Self::Hub as InEnvelope>::Status) -> Self;
}

/// A resource of the hub, seen as an envelope and what is in it.
pub(crate) trait InEnvelope: Sized {
    type Spec: Default;
    type Status;

    fn id(&self) -> &ResourceId;
    fn system_data(&self) -> &SystemData;
    fn spec(&self) -> &Self::Spec;
    fn status(&self) -> &Self::Status;
}

/// A resource with a place and tags.
pub(crate) trait Tracked: InEnvelope {
    fn location(&self) -> &str;
    fn tags(&self) -> &BTreeMap<String, String>;
    fn identity(&self) -> Option<&hub::Identity>;
    /// The resource as it is to be, with what only the service sets taken from what is stored.
    fn made(
        target: &Target<'_, Self>,
        tags: Option<BTreeMap<String, String>>,
        identity: Option<hub::Identity>,
        spec: Self::Spec,
    ) -> Self;
}

/// The envelope of a tracked resource.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource<P> {
    /// The resource's path.
    #[serde(skip_deserializing)]
    id: Option<ResourceId>,
    /// The resource's name. A request may repeat it.
    name: Option<String>,
    /// The resource's type.
    #[serde(rename = "type", skip_deserializing)]
    kind: Option<String>,
    /// Who made and changed the resource.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    system_data: Option<SystemData>,
    /// Where the resource is: always in the region of the service.
    #[schemars(extend("x-ms-mutability" = CREATED))]
    location: Option<String>,
    /// What its owner calls it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<BTreeMap<String, String>>,
    /// What it may act under.
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
    /// What was asked for, and what is.
    properties: Option<P>,
}

/// The envelope of a resource without a place of its own.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Proxy<P> {
    /// The resource's path.
    #[serde(skip_deserializing)]
    id: Option<ResourceId>,
    /// The resource's name. A request may repeat it.
    name: Option<String>,
    /// The resource's type.
    #[serde(rename = "type", skip_deserializing)]
    kind: Option<String>,
    /// Who made and changed the resource.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    system_data: Option<SystemData>,
    /// What was asked for, and what is.
    properties: Option<P>,
}

/// The identities of a resource.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    /// Which kinds there are.
    #[serde(rename = "type")]
    #[schemars(required)]
    kind: Option<IdentityKind>,
    /// Those that the owner assigned, by their ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_assigned_identities: Option<BTreeMap<String, Option<AssignedIdentity>>>,
}

/// Kinds of identity. The hub's own names are those of stored documents.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
enum IdentityKind {
    None,
    SystemAssigned,
    UserAssigned,
    #[serde(rename = "SystemAssigned,UserAssigned")]
    Both,
}

/// What is known of an assigned identity.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssignedIdentity {
    /// Its client.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    /// Its principal.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    principal_id: Option<String>,
}

/// Reads JSON.
pub(crate) fn parse(body: &[u8]) -> Result<Value, Invalid> {
    serde_json::from_slice(body).map_err(|error| malformed(String::new(), &error))
}

/// From JSON that has the right form.
pub(crate) fn convert<T: DeserializeOwned>(body: Value) -> Result<T, Invalid> {
    // The form was checked, so this is where a form that promises more than the type takes would show.
    serde_path_to_error::deserialize(body).map_err(|error| malformed(error.path().to_string(), error.inner()))
}

fn malformed(target: String, error: &serde_json::Error) -> Invalid {
    let message = format!("The request content could not be deserialised: {error}.");
    Invalid(vec![FieldError { target, message }])
}

/// To JSON.
pub(crate) fn json(value: &impl Serialize) -> Value {
    // Cannot fail: the wire types have text as keys of maps and nothing that writes can refuse.
    serde_json::to_value(value).unwrap_or_default()
}

/// A name may be repeated in the body, and then has to be the one of the path.
fn check_name(name: Option<&String>, id: &ResourceId, problems: &mut Problems) {
    if let Some(name) = name.filter(|name| !name.eq_ignore_ascii_case(id.name())) {
        problems.invalid("name", name, format_args!("must be '{}', as in the path", id.name()));
    }
}

impl<P> Wire for Resource<P>
where
    P: Properties,
    P::Hub: Tracked,
{
    type Hub = P::Hub;

    fn read(self, target: &Target<'_, P::Hub>, problems: &mut Problems) -> P::Hub {
        let Self { id: _, name, kind: _, system_data: _, location: _, tags, identity, properties } = self;
        check_name(name.as_ref(), &target.id, problems);
        let identity = identity.map(|identity| identity.read(problems));
        let spec = read_properties(properties, target, problems);
        P::Hub::made(target, tags, identity, spec)
    }

    fn write(resource: &P::Hub) -> Self {
        Self {
            id: Some(resource.id().clone()),
            name: Some(resource.id().name().to_owned()),
            kind: Some(resource.id().resource_type().to_string()),
            system_data: Some(resource.system_data().clone()),
            location: Some(resource.location().to_owned()),
            tags: Some(resource.tags().clone()).filter(|tags| !tags.is_empty()),
            identity: resource.identity().map(Identity::write),
            properties: Some(P::write(resource.spec(), resource.status())),
        }
    }
}

impl<P> Wire for Proxy<P>
where
    P: Properties<Hub = hub::ExternalAuth>,
{
    type Hub = hub::ExternalAuth;

    fn read(self, target: &Target<'_, hub::ExternalAuth>, problems: &mut Problems) -> hub::ExternalAuth {
        let Self { id: _, name, kind: _, system_data: _, properties } = self;
        check_name(name.as_ref(), &target.id, problems);
        hub::ExternalAuth {
            id: target.id.clone(),
            system_data: target.existing.map(|existing| existing.system_data.clone()).unwrap_or_default(),
            spec: read_properties(properties, target, problems),
            status: target.existing.map(|existing| existing.status.clone()).unwrap_or_default(),
        }
    }

    fn write(resource: &hub::ExternalAuth) -> Self {
        let hub::ExternalAuth { id, system_data, spec, status } = resource;
        Self {
            id: Some(id.clone()),
            name: Some(id.name().to_owned()),
            kind: Some(id.resource_type().to_string()),
            system_data: Some(system_data.clone()),
            properties: Some(P::write(spec, status)),
        }
    }
}

impl<P> Proxy<P> {
    /// One that can only be looked at.
    pub(crate) fn of(id: &ResourceId, properties: P) -> Self {
        Self {
            id: Some(id.clone()),
            name: Some(id.name().to_owned()),
            kind: Some(id.resource_type().to_string()),
            system_data: None,
            properties: Some(properties),
        }
    }
}

fn read_properties<P: Properties>(
    properties: Option<P>,
    target: &Target<'_, P::Hub>,
    problems: &mut Problems,
) -> <P::Hub as InEnvelope>::Spec {
    match properties {
        Some(properties) => properties.read(target.existing.map(InEnvelope::spec), problems),
        // Reported where the form was checked: a body always has properties by then, unless they are no object.
        None => <P::Hub as InEnvelope>::Spec::default(),
    }
}

impl Identity {
    fn read(self, problems: &mut Problems) -> hub::Identity {
        let Self { kind, user_assigned_identities } = self;
        let mut user_assigned = BTreeMap::new();
        for text in user_assigned_identities.unwrap_or_default().into_keys() {
            let target = format!("identity.userAssignedIdentities[{text}]");
            match text.parse::<ResourceId>() {
                Err(error) => problems.invalid(target, &text, error.problem()),
                Ok(id) => {
                    if user_assigned.insert(id, hub::AssignedIdentity::default()).is_some() {
                        problems.duplicate(target, &text);
                    }
                }
            }
        }
        let kind = match kind {
            None | Some(IdentityKind::None) => hub::IdentityKind::None,
            Some(IdentityKind::SystemAssigned) => hub::IdentityKind::SystemAssigned,
            Some(IdentityKind::UserAssigned) => hub::IdentityKind::UserAssigned,
            Some(IdentityKind::Both) => hub::IdentityKind::Both,
        };
        hub::Identity { kind, user_assigned }
    }

    fn write(identity: &hub::Identity) -> Self {
        let hub::Identity { kind, user_assigned } = identity;
        let assigned = user_assigned.iter().map(|(id, assigned)| {
            let hub::AssignedIdentity { client_id, principal_id } = assigned.clone();
            (id.to_string(), Some(AssignedIdentity { client_id, principal_id }))
        });
        let kind = match kind {
            hub::IdentityKind::None => IdentityKind::None,
            hub::IdentityKind::SystemAssigned => IdentityKind::SystemAssigned,
            hub::IdentityKind::UserAssigned => IdentityKind::UserAssigned,
            hub::IdentityKind::Both => IdentityKind::Both,
        };
        Self {
            kind: Some(kind),
            user_assigned_identities: (!user_assigned.is_empty()).then(|| assigned.collect()),
        }
    }
}
