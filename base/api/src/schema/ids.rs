//! Ids of resources elsewhere, each with the type it must have.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

macro_rules! resource_id {
    ($(#[$about:meta])* $name:ident = $type:literal) => {
        $(#[$about])*
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "format": "arm-id",
                    "x-ms-arm-id-details": {"allowedResources": [{"type": $type}]},
                })
            }
        }
    };
}

resource_id! {
    /// A subnet.
    SubnetId = "Microsoft.Network/virtualNetworks/subnets"
}
resource_id! {
    /// A network security group.
    SecurityGroupId = "Microsoft.Network/networkSecurityGroups"
}
resource_id! {
    /// A managed identity that its owner looks after.
    IdentityId = "Microsoft.ManagedIdentity/userAssignedIdentities"
}
resource_id! {
    /// What a disk is encrypted with.
    DiskEncryptionSetId = "Microsoft.Compute/diskEncryptionSets"
}
