//! `ConsoleCLIDownload`: where a program for the command line is offered.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is offered.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "console.openshift.io",
    version = "v1",
    kind = "ConsoleCLIDownload",
    plural = "consoleclidownloads",
    derive = "Default",
    derive = "PartialEq",
    doc = "Where a program for the command line is offered.",
    printcolumn = r#"{"name": "Display name", "type": "string", "jsonPath": ".spec.displayName"}"#,
    printcolumn = r#"{"name": "Age", "type": "string", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleCliDownloadSpec {
    /// What the program is called.
    pub display_name: String,
    /// What it is for.
    pub description: String,
    /// Where it is, one link per kind of machine.
    pub links: Vec<CliDownloadLink>,
}

/// Where a program is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CliDownloadLink {
    /// What the link is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The URL.
    #[schemars(regex(pattern = "^https?://"))]
    pub href: String,
}
