use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hub;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CredentialRequest {
    /// A PKCS#10 request as PEM, for `system:customer-break-glass:system-admin` in `system:masters`.
    #[schemars(required, length(min = 1))]
    certificate_signing_request: Option<String>,
}

impl CredentialRequest {
    pub(crate) fn read(self) -> hub::CredentialRequest {
        let Self { certificate_signing_request } = self;
        hub::CredentialRequest { certificate_signing_request }
    }
}
