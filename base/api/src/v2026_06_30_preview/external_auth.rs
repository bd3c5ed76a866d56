use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hub;
use crate::invalid::Problems;
use crate::v2025_12_23_preview::ExternalAuthCommon;
use crate::wire::Properties;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExternalAuthProperties {
    #[serde(flatten)]
    common: ExternalAuthCommon,
    /// What was observed.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    status: Option<ExternalAuthStatus>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ExternalAuthStatus {
    /// What was observed.
    conditions: Vec<hub::Condition>,
}

impl Properties for ExternalAuthProperties {
    type Hub = hub::ExternalAuth;

    fn read(self, _: Option<&hub::ExternalAuthSpec>, problems: &mut Problems) -> hub::ExternalAuthSpec {
        let Self { common, status: _ } = self;
        common.read(problems)
    }

    fn write(spec: &hub::ExternalAuthSpec, status: &hub::ExternalAuthStatus) -> Self {
        let conditions = status.conditions.clone();
        Self {
            common: ExternalAuthCommon::write(spec, status),
            status: (!conditions.is_empty()).then_some(ExternalAuthStatus { conditions }),
        }
    }
}
