use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster::Status;
use crate::hub;
use crate::invalid::Problems;
use crate::v2026_06_30_preview::NodePoolCommon;
use crate::wire::Properties;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePoolProperties {
    #[serde(flatten)]
    common: NodePoolCommon,
    /// What was observed.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

impl Properties for NodePoolProperties {
    type Hub = hub::NodePool;

    fn read(self, existing: Option<&hub::NodePoolSpec>, problems: &mut Problems) -> hub::NodePoolSpec {
        let Self { common, status: _ } = self;
        common.read(existing, problems)
    }

    fn write(spec: &hub::NodePoolSpec, status: &hub::NodePoolStatus) -> Self {
        Self {
            common: NodePoolCommon::write(spec, status),
            status: Status::write(&status.conditions, &status.active_versions),
        }
    }
}
