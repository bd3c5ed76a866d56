//! `version`: which build this is, and what the management cluster can do.

use comfy_table::Table;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde::Serialize;
use serde_json::Value;

use super::client::{self, ClientArgs};
use super::values;
use crate::output;
use crate::{Failure, Output, Render};

/// Print which build this is, and which versions the management cluster supports.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print nothing but the commit of this build
    #[arg(long)]
    commit_only: bool,
    /// Do not ask the management cluster
    #[arg(long)]
    client_only: bool,
    /// The namespace of the operator
    #[arg(long, default_value = Supported::NAMESPACE, value_parser = values::label)]
    namespace: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// What the operator says it supports.
#[derive(Debug, Default, Serialize)]
pub(super) struct Supported {
    /// Its own version.
    pub(super) server: Option<String>,
    /// Minor versions, the newest first.
    pub(super) versions: Vec<String>,
}

/// What a bug report should begin with.
#[derive(Debug, Serialize)]
struct Version {
    name: &'static str,
    version: &'static str,
    /// See `commands::version`.
    commit: Option<&'static str>,
    server: Option<Supported>,
}

impl Args {
    pub(super) async fn run(self, output: &mut Output) -> Result<(), Failure> {
        let commit = option_env!("PILOTHOUSE_COMMIT");
        if self.commit_only {
            return output.raw(format!("{}\n", commit.unwrap_or("unknown")).as_bytes());
        }
        let server = if self.client_only { None } else { self.ask().await };
        output.show(&Version { name: "hcp", version: env!("CARGO_PKG_VERSION"), commit, server })
    }

    /// What the operator says. Whoever has no management cluster at hand still has a version.
    async fn ask(&self) -> Option<Supported> {
        let client = self.client.connect().await.ok()?;
        let maps: Api<ConfigMap> = Api::namespaced(client, &self.namespace);
        match maps.get_opt(Supported::NAME).await {
            Ok(Some(map)) => Some(Supported::read(&map)),
            Ok(None) => {
                client::tell("the management cluster does not say which versions it supports");
                None
            }
            Err(_) => {
                client::tell("the management cluster did not answer");
                None
            }
        }
    }
}

impl Supported {
    /// Where the operator says it.
    pub(super) const NAMESPACE: &str = "hypershift";
    pub(super) const NAME: &str = "supported-versions";

    pub(super) fn read(map: &ConfigMap) -> Self {
        let data = |key: &str| map.data.as_ref().and_then(|data| data.get(key));
        let list = data("supported-versions").and_then(|text| serde_json::from_str::<Value>(text).ok());
        let versions = list.as_ref().and_then(|list| list["versions"].as_array());
        Self {
            server: data("server-version").cloned(),
            versions: versions
                .into_iter()
                .flatten()
                .filter_map(|version| version.as_str().map(str::to_owned))
                .collect(),
        }
    }
}

impl Render for Version {
    fn table(&self) -> Table {
        let client = format!("Client Version: {} {}", self.version, self.commit.unwrap_or("unknown"));
        let mut lines = vec![client];
        if let Some(server) = &self.server {
            lines.push(format!("Server Version: {}", server.server.as_deref().unwrap_or("unknown")));
            lines.push(format!("Server Supports OCP Versions: {}", server.versions.join(", ")));
        }
        output::lines(&lines)
    }
}
