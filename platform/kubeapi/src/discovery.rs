//! What a client asks first: which groups, versions and kinds there are.
//!
//! Two forms of the same facts. The older one is a document per level (`/api`, `/apis`, `/apis/G`, `/apis/G/V`); the
//! aggregated one is all of it at once, and is what current clients ask for.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::catalogue::{Catalogue, Group, Resource, Subresource, group_version};

#[cfg(test)]
mod tests;

/// The media type of the aggregated form, as asked for and as answered.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api`. The address is the one clients may use instead of the one they came by.
pub(crate) fn api_versions(catalogue: &Catalogue, address: &str) -> Value {
    let versions: Vec<_> = catalogue
        .groups()
        .into_iter()
        .filter(|group| group.name.is_empty())
        .flat_map(|group| group.versions)
        .collect();
    json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": address }],
    })
}

/// `/apis`.
pub(crate) fn api_group_list(catalogue: &Catalogue) -> Value {
    let groups: Vec<_> =
        catalogue.groups().iter().filter(|group| !group.name.is_empty()).map(describe).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `/apis/G`.
pub(crate) fn api_group(catalogue: &Catalogue, name: &str) -> Option<Value> {
    let groups = catalogue.groups();
    let mut group = describe(groups.iter().find(|group| group.name == name && !name.is_empty())?);
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    Some(group)
}

/// `/api/v1` and `/apis/G/V`.
pub(crate) fn api_resource_list(catalogue: &Catalogue, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for resource in sorted(catalogue, group, version) {
        resources.push(listed(resource));
        resources.extend(resource.subresources.iter().map(|part| listed_part(resource, part)));
    }
    if resources.is_empty() {
        return None;
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version(group, version),
        "resources": resources,
    });
    // The oldest list is older than this field of it.
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

/// `/api` (`core`) or `/apis` in the aggregated form.
pub(crate) fn aggregated(catalogue: &Catalogue, core: bool) -> Value {
    let items: Vec<_> = catalogue
        .groups()
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| {
            let versions: Vec<_> = group
                .versions
                .iter()
                .map(|version| {
                    let resources = sorted(catalogue, group.name, version);
                    let resources: Vec<_> = resources.into_iter().map(aggregated_resource).collect();
                    json!({ "version": version, "freshness": "Current", "resources": resources })
                })
                .collect();
            let metadata = match group.name {
                "" => json!({}),
                name => json!({ "name": name }),
            };
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

/// The kinds of a version by name.
fn sorted<'a>(catalogue: &'a Catalogue, group: &'a str, version: &'a str) -> Vec<&'a Resource> {
    let mut resources: Vec<_> = catalogue.of_version(group, version).map(AsRef::as_ref).collect();
    resources.sort_by(|left, right| left.plural.cmp(&right.plural));
    resources
}

/// The entity tag of a discovery document: quoted upper-case SHA-512 of its text.
pub(crate) fn entity_tag(document: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA512, document);
    let mut tag = String::with_capacity(130);
    tag.push('"');
    for byte in hash.as_ref() {
        tag.push_str(&format!("{byte:02X}"));
    }
    tag.push('"');
    tag
}

fn describe(group: &Group<'_>) -> Value {
    let describe_version =
        |version: &&str| json!({ "groupVersion": group_version(group.name, version), "version": version });
    json!({
        "name": group.name,
        "versions": group.versions.iter().map(describe_version).collect::<Vec<_>>(),
        "preferredVersion": group.versions.first().map(describe_version),
    })
}

fn listed(resource: &Resource) -> Value {
    let mut listed = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    names(&mut listed, resource);
    if !resource.is_virtual() {
        listed["storageVersionHash"] = json!(storage_version_hash(resource));
    }
    listed
}

fn listed_part(resource: &Resource, part: &Subresource) -> Value {
    let mut listed = json!({
        "name": format!("{}/{}", resource.plural, part.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": part.kind,
        "verbs": part.verbs,
    });
    if part.group != resource.group {
        listed["group"] = json!(part.group);
        listed["version"] = json!(part.version);
    }
    listed
}

fn aggregated_resource(resource: &Resource) -> Value {
    let parts: Vec<_> = resource
        .subresources
        .iter()
        .map(|part| {
            json!({
                "subresource": part.name,
                "responseKind": response_kind(resource, &part.group, &part.version, &part.kind),
                "verbs": part.verbs,
            })
        })
        .collect();
    let mut described = json!({
        "resource": resource.plural,
        "responseKind": response_kind(resource, &resource.group, &resource.version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    names(&mut described, resource);
    if !parts.is_empty() {
        described["subresources"] = Value::Array(parts);
    }
    described
}

/// The core group's own kinds are named without their version; clients take the one they asked for.
fn response_kind(resource: &Resource, group: &str, version: &str, kind: &str) -> Value {
    let own = resource.group.is_empty() && group.is_empty();
    json!({ "group": group, "version": if own { "" } else { version }, "kind": kind })
}

/// Absent rather than empty, as clients expect.
fn names(described: &mut Value, resource: &Resource) {
    let mut add = |key: &str, names: &[crate::catalogue::Text]| {
        if !names.is_empty() {
            described[key] = json!(names);
        }
    };
    add("shortNames", &resource.short_names);
    add("categories", &resource.categories);
}

fn storage_version_hash(resource: &Resource) -> String {
    // Clients compare these with what the real server says, which keeps some kinds in older forms.
    let (group, version) = match (resource.group.as_ref(), resource.kind.as_ref()) {
        ("events.k8s.io", "Event") => ("", "v1"),
        (group @ "apiextensions.k8s.io", "CustomResourceDefinition")
        | (group @ "storage.k8s.io", "VolumeAttributesClass") => (group, "v1beta1"),
        (group, _) => (group, resource.storage_version.as_ref()),
    };
    let text = format!("{group}/{version}/{}", resource.kind);
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    STANDARD.encode(&hash.as_ref()[..8])
}
