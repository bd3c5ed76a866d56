//! What all wire versions share: the envelope, and reading of fields that can be wrong.
//!
//! Members that only the service may set are never read, so whatever a caller sends there is ignored.

use std::collections::BTreeMap;

use pilothouse_arm::{ResourceId, SystemData};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::hub;
use crate::hub::Choice;
use crate::invalid::{FieldError, Invalid, Problems};

/// The envelope of a tracked resource.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Resource<P> {
    #[serde(skip_deserializing)]
    pub(crate) id: Option<ResourceId>,
    pub(crate) name: Option<String>,
    #[serde(rename = "type", skip_deserializing)]
    pub(crate) kind: Option<String>,
    #[serde(skip_deserializing)]
    pub(crate) location: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tags: Option<BTreeMap<String, String>>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub(crate) system_data: Option<SystemData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<Identity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) properties: Option<P>,
}

/// The identities of a resource.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Identity {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_assigned_identities: Option<BTreeMap<String, Option<AssignedIdentity>>>,
}

/// What is known of an assigned identity.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AssignedIdentity {
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    principal_id: Option<String>,
}

/// Reads JSON; a mismatch names the field.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Invalid> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let target = match error.path().to_string() {
            path if path == "." || error.inner().is_syntax() || error.inner().is_eof() => String::new(),
            path => path,
        };
        let message = format!("The request content could not be deserialised: {}.", error.inner());
        Invalid(vec![FieldError { target, message }])
    })
}

/// One of a few values, or its default.
pub(crate) fn choice<T: Choice + Default>(problems: &mut Problems, target: &str, value: Option<&str>) -> T {
    match value {
        None => T::default(),
        Some(name) => T::of(name).unwrap_or_else(|| {
            problems.unsupported(target, name, T::NAMES);
            T::default()
        }),
    }
}

/// The id of a resource elsewhere.
pub(crate) fn id(problems: &mut Problems, target: &str, value: Option<&str>) -> Option<ResourceId> {
    let text = value?;
    match text.parse() {
        Ok(id) => Some(id),
        Err(error) => {
            problems.invalid(target, text, error);
            None
        }
    }
}

/// Ids of resources elsewhere, by name.
pub(crate) fn ids(
    problems: &mut Problems,
    target: &str,
    values: BTreeMap<String, String>,
) -> BTreeMap<String, ResourceId> {
    let mut found = BTreeMap::new();
    for (name, value) in values {
        if let Some(id) = id(problems, &format!("{target}[{name}]"), Some(&value)) {
            found.insert(name, id);
        }
    }
    found
}

impl<P> Resource<P> {
    /// `name` may be repeated in the body, and then has to be the one of the path.
    pub(crate) fn check_name(&self, problems: &mut Problems, id: &ResourceId) {
        if let Some(name) = &self.name
            && !name.eq_ignore_ascii_case(id.name())
        {
            problems.invalid("name", name, format_args!("must be '{}', as in the path", id.name()));
        }
    }
}

impl Identity {
    pub(crate) fn read(self, problems: &mut Problems) -> hub::Identity {
        let Self { kind, user_assigned_identities } = self;
        if kind.is_none() {
            problems.required("identity.type");
        }
        let mut user_assigned = BTreeMap::new();
        for text in user_assigned_identities.unwrap_or_default().into_keys() {
            let target = format!("identity.userAssignedIdentities[{text}]");
            if let Some(id) = id(problems, &target, Some(&text))
                && user_assigned.insert(id, hub::AssignedIdentity::default()).is_some()
            {
                problems.duplicate(target, text);
            }
        }
        hub::Identity { kind: choice(problems, "identity.type", kind.as_deref()), user_assigned }
    }

    pub(crate) fn write(identity: &hub::Identity) -> Self {
        let hub::Identity { kind, user_assigned } = identity;
        let assigned = user_assigned.iter().map(|(id, assigned)| {
            let hub::AssignedIdentity { client_id, principal_id } = assigned.clone();
            (id.to_string(), Some(AssignedIdentity { client_id, principal_id }))
        });
        Self {
            kind: Some(kind.name().to_owned()),
            user_assigned_identities: (!user_assigned.is_empty()).then(|| assigned.collect()),
        }
    }
}
