//! Fields that have one of a few values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! choice {
    ($(#[$about:meta])* $type:ident { $($(#[$what:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $type { $($(#[$what])* #[serde(rename = $name)] $value,)+ }

        impl $type {
            /// The value as the wire has it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }
        }
    };
}

choice! {
    /// Who may reach an endpoint.
    Visibility {
        /// Anybody.
        #[default]
        Public = "Public",
        /// Only from the cluster's own network.
        Private = "Private",
    }
}

choice! {
    /// The network plug-in.
    NetworkType {
        /// The platform's own.
        #[default]
        OvnKubernetes = "OVNKubernetes",
        /// One that the owner brings.
        Other = "Other",
    }
}

choice! {
    /// How traffic leaves the cluster.
    OutboundType {
        /// Through a load balancer.
        #[default]
        LoadBalancer = "LoadBalancer",
    }
}

choice! {
    /// How the customer's key encrypts.
    EncryptionType {
        /// Through a key management service.
        #[default]
        Kms = "KMS",
    }
}

choice! {
    /// Where the customer's key is kept.
    KeyVaultType {
        /// In a vault.
        #[default]
        KeyVault = "KeyVault",
        /// In a hardware module of its own.
        ManagedHsm = "ManagedHSM",
    }
}

choice! {
    /// Whether the cluster has an image registry of its own.
    RegistryState {
        /// It has.
        #[default]
        Enabled = "Enabled",
        /// It has not.
        Disabled = "Disabled",
    }
}

choice! {
    /// Which cryptography is allowed.
    CryptoRestrictions {
        /// Any.
        #[default]
        None = "None",
        /// Validated modules only.
        Fips = "FIPS",
    }
}

choice! {
    /// What a node's disk is made of.
    DiskStorageAccountType {
        /// Fast.
        #[default]
        Premium = "Premium_LRS",
        /// Solid state.
        StandardSsd = "StandardSSD_LRS",
        /// Spinning.
        Standard = "Standard_LRS",
    }
}

choice! {
    /// Whether a node's disk outlives the node's machine.
    DiskType {
        /// It does.
        #[default]
        Managed = "Managed",
        /// It does not.
        Ephemeral = "Ephemeral",
    }
}

choice! {
    /// What a taint does to pods that do not tolerate it.
    Effect {
        /// They are not placed.
        #[default]
        NoSchedule = "NoSchedule",
        /// They are placed elsewhere if possible.
        PreferNoSchedule = "PreferNoSchedule",
        /// They are not placed, and removed.
        NoExecute = "NoExecute",
    }
}

choice! {
    /// Whether a program can keep a secret.
    ClientType {
        /// It can.
        #[default]
        Confidential = "Confidential",
        /// It cannot.
        Public = "Public",
    }
}

choice! {
    /// Whether something is put before a user's name.
    PrefixPolicy {
        /// As the platform sees fit.
        #[default]
        None = "None",
        /// What the owner says.
        Prefix = "Prefix",
        /// Nothing.
        NoPrefix = "NoPrefix",
    }
}

choice! {
    /// When an operator needs an identity.
    RoleRequirement {
        /// In every cluster.
        #[default]
        Always = "Always",
        /// When what it does is asked for.
        OnEnablement = "OnEnablement",
    }
}
