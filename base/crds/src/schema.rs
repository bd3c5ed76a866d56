//! Pieces of schemas that no Rust type gives by itself.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// What a quantity such as `8Gi` or `500m` looks like.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A moment, as Kubernetes writes it.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A moment that may be missing.
pub(crate) fn optional_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time", "nullable": true })
}

/// A list of objects of a shape that is not ours, which may be `null`.
pub(crate) fn optional_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "nullable": true,
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// A list of objects of a shape that is not ours.
pub(crate) fn objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// An object of a shape that is not ours.
pub(crate) fn open_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Whole Kubernetes objects of any kind.
pub(crate) fn embedded_resources(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        },
    })
}

/// A number or a text: a port and its name, a count and a share in percent.
pub(crate) fn number_or_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-int-or-string": true })
}

/// An amount of memory or storage, as [`crate::quantity`] reads it.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-int-or-string": true, "pattern": QUANTITY })
}

/// Tolerations of pods.
pub(crate) fn tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 25,
        "items": {
            "type": "object",
            "properties": {
                "key": { "type": "string" },
                "operator": { "type": "string" },
                "value": { "type": "string" },
                "effect": { "type": "string" },
                "tolerationSeconds": { "type": "integer", "format": "int64" },
            },
        },
    })
}

/// A rule in the expression language, and what is said when it does not hold.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}

/// A rule that refuses a change of the field it is put on.
pub(crate) fn immutable(field: &str) -> Value {
    json!([rule("self == oldSelf", &format!("{field} is immutable"))])
}

/// A rule for the object that holds `field`, which refuses to take it away.
pub(crate) fn irremovable(field: &str) -> Value {
    rule(&format!("!has(oldSelf.{field}) || has(self.{field})"), &format!("{field} cannot be removed"))
}

/// A pause is a moment or yes or no.
pub(crate) fn pause() -> Value {
    let moment =
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$";
    rule(
        &format!("self in ['true', 'false', 'True', 'False'] || self.matches('{moment}')"),
        "pausedUntil is a time such as 2030-01-31T00:00:00Z, true or false",
    )
}

/// Makes fields required that the types read leniently, because there are objects from before they were.
pub(crate) fn required(fields: &'static [&'static str]) -> impl FnMut(&mut Schema) {
    move |schema| {
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        for field in properties.into_iter().flat_map(|properties| properties.iter_mut()) {
            if let (true, Some(definition)) = (fields.contains(&field.0.as_str()), field.1.as_object_mut()) {
                definition.remove("default");
            }
        }
        let object = schema.ensure_object();
        let list = object.entry("required").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.extend(fields.iter().map(|field| json!(field)));
        }
    }
}

/// `platform.azure` of a hosted cluster.
pub(crate) fn azure_of_a_cluster(_: &mut SchemaGenerator) -> Schema {
    let fixed = |field: &str, longest: u32| {
        json!({
            "type": "string",
            "maxLength": longest,
            "x-kubernetes-validations": immutable(&format!("platform.azure.{field}")),
        })
    };
    let open = || json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "cloud": {
                "type": "string",
                "default": "AzurePublicCloud",
                "enum": [
                    "AzurePublicCloud", "AzureUSGovernmentCloud", "AzureChinaCloud", "AzureGermanCloud",
                    "AzureStackCloud",
                ],
            },
            "location": fixed("location", 255),
            "resourceGroup": fixed("resourceGroup", 90),
            "vnetID": fixed("vnetID", 512),
            "subnetID": fixed("subnetID", 512),
            "subscriptionID": fixed("subscriptionID", 255),
            "securityGroupID": fixed("securityGroupID", 512),
            "tenantID": fixed("tenantID", 255),
            "azureAuthenticationConfig": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "azureAuthenticationConfigType": {
                        "type": "string", "enum": ["ManagedIdentities", "WorkloadIdentities"],
                    },
                    "managedIdentities": open(),
                    "workloadIdentities": open(),
                },
            },
            "topology": {
                "type": "string",
                "enum": ["Public", "PublicAndPrivate", "Private"],
                "x-kubernetes-validations": [rule(
                    "(self == 'Public') == (oldSelf == 'Public')",
                    "platform.azure.topology cannot change between Public and a private one",
                )],
            },
            "private": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "type": { "type": "string", "enum": ["PrivateLink", "Swift"] },
                    "privateLink": open(),
                    "swift": open(),
                },
            },
            "containerRegistry": open(),
        },
    })
}

/// `platform.azure` of a pool of nodes.
pub(crate) fn azure_of_a_pool(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "vmSize": { "type": "string", "maxLength": 255 },
            "image": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "type": { "type": "string", "enum": ["ImageID", "AzureMarketplace"] },
                    "imageID": { "type": "string" },
                    "azureMarketplace": {
                        "type": "object",
                        "properties": {
                            "imageGeneration": { "type": "string", "enum": ["Gen1", "Gen2"], "default": "Gen2" },
                            "publisher": { "type": "string" },
                            "offer": { "type": "string" },
                            "sku": { "type": "string" },
                            "version": { "type": "string" },
                        },
                        "x-kubernetes-validations": [rule(
                            "has(self.publisher) == has(self.offer) && has(self.offer) == has(self.sku) && \
                             has(self.sku) == has(self.version)",
                            "publisher, offer, sku and version are set all or none",
                        )],
                    },
                },
            },
            "osDisk": {
                "type": "object",
                "properties": {
                    "sizeGiB": {
                        "type": "integer", "format": "int32", "minimum": 16, "maximum": 32767, "default": 30,
                    },
                    "diskStorageAccountType": {
                        "type": "string",
                        "default": "Premium_LRS",
                        "enum": ["Premium_LRS", "PremiumV2_LRS", "StandardSSD_LRS", "Standard_LRS"],
                    },
                    "encryptionSetID": { "type": "string", "maxLength": 512 },
                    "persistence": { "type": "string", "enum": ["Persistent", "Ephemeral"] },
                },
            },
            "availabilityZone": { "type": "string", "enum": ["1", "2", "3"] },
            "encryptionAtHost": { "type": "string", "enum": ["Enabled", "Disabled"], "default": "Enabled" },
            "subnetID": {
                "type": "string",
                "maxLength": 512,
                "x-kubernetes-validations": immutable("platform.azure.subnetID"),
            },
            "diagnostics": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "storageAccountType": {
                        "type": "string", "enum": ["Disabled", "Managed", "UserManaged"], "default": "Disabled",
                    },
                },
            },
        },
    })
}
