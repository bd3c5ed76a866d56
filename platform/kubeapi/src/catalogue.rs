//! Every kind this server serves.
//!
//! Built-in kinds are a static table; custom resource definitions add to it. A [`Catalogue`] is an immutable snapshot:
//! whoever changes the definitions makes a new one and swaps it in, so a request sees one set of kinds from start to
//! end. Discovery, OpenAPI, routing and the printing of tables all read this and nothing else; a kind that is not
//! here does not exist.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, value::RawValue};

use crate::schema::Structural;
use crate::table::Column;

mod builtin;
mod custom;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use builtin::resource as built_in;

/// Text of a built-in kind is static; that of a custom one is owned.
pub(crate) type Text = Cow<'static, str>;

/// One kind at one version.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Empty for the core group.
    pub(crate) group: Text,
    pub(crate) version: Text,
    pub(crate) kind: Text,
    pub(crate) plural: Text,
    pub(crate) singular: Text,
    pub(crate) list_kind: Text,
    pub(crate) short_names: Vec<Text>,
    pub(crate) categories: Vec<Text>,
    pub(crate) namespaced: bool,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) subresources: Vec<Subresource>,
    /// The structural schema of a custom resource.
    pub(crate) schema: Option<Arc<Structural>>,
    /// The same schema as its author wrote it, for OpenAPI.
    pub(crate) published_schema: Option<Box<RawValue>>,
    /// What a custom resource's definition wants printed; built-in kinds have theirs in `table`.
    pub(crate) printer_columns: Vec<Column>,
    /// Paths a custom resource offers to field selectors.
    pub(crate) selectable_fields: Vec<String>,
    pub(crate) custom: bool,
    pub(crate) status_subresource: bool,
    pub(crate) scale: Option<Scale>,
    /// In which version objects are stored; differs from `version` only for custom resources.
    pub(crate) storage_version: Text,
    /// The schema of that version, where it is another one: what it does not know is not kept.
    pub(crate) storage_schema: Option<Arc<Structural>>,
    /// The definition was changed after it was made: what is stored may lack what it says now, and have what it no longer does.
    pub(crate) evolved: bool,
    /// Sent as a warning with every answer.
    pub(crate) deprecation: Option<String>,
}

/// What stands behind a second slash: `pods/log`.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    pub(crate) kind: Text,
    pub(crate) group: Text,
    pub(crate) version: Text,
    pub(crate) verbs: &'static [&'static str],
}

/// Where the numbers of `…/scale` live in the object.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub(crate) spec_replicas: Text,
    pub(crate) status_replicas: Text,
    /// A custom resource keeps its selector as text; a built-in one as a `LabelSelector`.
    pub(crate) label_selector: Option<Text>,
}

/// One group with its versions, the preferred one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group<'a> {
    pub(crate) name: &'a str,
    pub(crate) versions: Vec<&'a str>,
}

/// A snapshot of all kinds.
#[derive(Debug, Clone)]
pub(crate) struct Catalogue {
    /// In the order of discovery: built-in groups first. A few dozen, so looking one up is a walk.
    resources: Vec<Arc<Resource>>,
}

// === impl Catalogue ===

impl Catalogue {
    /// The kinds of Kubernetes 1.`minor` that are served without any definition.
    pub(crate) fn built_in(minor: u16) -> Self {
        Self { resources: builtin::resources(minor).into_iter().map(Arc::new).collect() }
    }

    /// These built-in kinds, and those of the given definitions (established ones; whoever calls has looked).
    pub(crate) fn with_custom(&self, definitions: &[Value]) -> Self {
        let mut resources: Vec<_> = self.resources.iter().filter(|one| !one.custom).cloned().collect();
        let mut added: Vec<_> = definitions.iter().flat_map(custom::resources).collect();
        added.sort_by(|left, right| {
            (&left.group, custom::priority(&left.version), &left.plural).cmp(&(
                &right.group,
                custom::priority(&right.version),
                &right.plural,
            ))
        });
        resources.extend(added.into_iter().map(Arc::new));
        Self { resources }
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|one| one.plural == plural && one.group == group && one.version == version)
    }

    /// All kinds, in the order of discovery.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }

    /// The kinds of one group and version.
    pub(crate) fn of_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> + 'a {
        self.resources.iter().filter(move |one| one.group == group && one.version == version)
    }

    /// All groups, the core group (empty name) first.
    pub(crate) fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for resource in &self.resources {
            match groups.iter_mut().find(|group| group.name == resource.group) {
                Some(group) if group.versions.contains(&resource.version.as_ref()) => {}
                Some(group) => group.versions.push(&resource.version),
                None => groups.push(Group { name: &resource.group, versions: vec![&resource.version] }),
            }
        }
        for group in &mut groups {
            group.versions.sort_by_key(|version| custom::priority(version));
        }
        groups
    }
}

// === impl Resource ===

impl Resource {
    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    /// `pods` or `deployments.apps`: how messages name it.
    pub(crate) fn qualified(&self) -> String {
        match self.group.as_ref() {
            "" => self.plural.to_string(),
            group => format!("{}.{group}", self.plural),
        }
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|one| one.name == name)
    }

    pub(crate) fn offers(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Answers are computed, nothing is stored: access and token reviews, and how the parts are.
    pub(crate) fn is_virtual(&self) -> bool {
        self.verbs == builtin::CREATE_ONLY || self.verbs == builtin::GET_AND_LIST
    }

    /// A PUT to an absent name makes the object.
    pub(crate) fn creates_on_update(&self) -> bool {
        !self.custom
            && matches!(
                (self.group.as_ref(), self.plural.as_ref()),
                ("", "services" | "endpoints" | "events" | "limitranges")
                    | ("events.k8s.io", _)
                    | ("coordination.k8s.io", "leases")
                    | ("node.k8s.io", "runtimeclasses")
                    | ("rbac.authorization.k8s.io", _)
            )
    }

    /// A PUT without a resource version is taken as it is.
    pub(crate) fn updates_unconditionally(&self) -> bool {
        !self.custom
            && !matches!(
                (self.group.as_ref(), self.plural.as_ref()),
                ("coordination.k8s.io", _)
                    | ("apiextensions.k8s.io" | "apiregistration.k8s.io" | "admissionregistration.k8s.io", _)
                    | ("policy", "poddisruptionbudgets")
                    | ("node.k8s.io", "runtimeclasses")
                    | (
                        "storage.k8s.io",
                        "csidrivers" | "csinodes" | "csistoragecapacities" | "volumeattachments"
                    )
            )
    }

    /// A DELETE answers with the object rather than with a `Status`.
    pub(crate) fn returns_deleted(&self) -> bool {
        matches!(
            (self.group.as_ref(), self.plural.as_ref()),
            (
                "",
                "namespaces"
                    | "pods"
                    | "persistentvolumes"
                    | "persistentvolumeclaims"
                    | "services"
                    | "serviceaccounts"
                    | "podtemplates"
                    | "resourcequotas"
            ) | ("storage.k8s.io", _)
                | ("resource.k8s.io", _)
        )
    }
}

/// `v1` for the core group, else `group/version`.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}
