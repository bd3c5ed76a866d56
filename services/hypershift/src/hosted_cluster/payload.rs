//! Which programs a control plane consists of.
//!
//! `light`, the default, is one process of ours. `upstream` is etcd, kube-apiserver, kube-controller-manager and
//! kube-scheduler as Kubernetes releases them. An annotation chooses, once: what one of them keeps, the other cannot read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pilothouse_crds::HostedCluster;
use serde::{Deserialize, Serialize};

use super::history;
use super::refusal::{Refusal, Refusals};
use crate::Config;
use crate::names;
use crate::versions::{self, Release, Upstream};

/// The programs of payload `upstream`.
const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Which programs a control plane consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// One process of ours.
    #[default]
    Light,
    /// The programs of Kubernetes itself.
    Upstream,
}

/// Where the programs of payload `upstream` come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Images {
    pub(crate) etcd: String,
    pub(crate) api_server: String,
    pub(crate) controller_manager: String,
    pub(crate) scheduler: String,
}

// === impl Payload ===

impl Payload {
    /// What a cluster runs, or is to run if it never has. Another wish than before is a complaint.
    pub(crate) fn of(
        cluster: &HostedCluster,
        config: &Config,
        complaints: &mut Refusals,
    ) -> Result<Self, Refusal> {
        let asked = Self::asked_for(cluster);
        let status = cluster.status.as_ref().filter(|status| history::has_run(status));
        // What ran before there was a choice was `light`.
        let running =
            status.map(|status| status.payload.as_deref().and_then(Self::named).unwrap_or_default());
        match (asked, running) {
            // What is usual may change for others.
            (Ok(None), Some(running)) => Ok(running),
            (Ok(Some(asked)), Some(running)) if asked != running => {
                complaints.add(Refusal::invalid(format!(
                    "annotation {}: the cluster runs payload `{running}`, and `{asked}` cannot read what that one has kept; \
                     make another cluster for it",
                    names::PAYLOAD,
                    running = running.name(),
                    asked = asked.name(),
                )));
                Ok(running)
            }
            (Err(refusal), Some(running)) => {
                complaints.add(refusal);
                Ok(running)
            }
            (asked, _) => asked.map(|asked| asked.unwrap_or(config.payload)),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Upstream => "upstream",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Light, Self::Upstream].into_iter().find(|payload| payload.name() == name)
    }

    fn asked_for(cluster: &HostedCluster) -> Result<Option<Self>, Refusal> {
        let Some(name) = names::annotation(&cluster.metadata, names::PAYLOAD) else { return Ok(None) };
        Self::named(name).map(Some).ok_or_else(|| {
            Refusal::invalid(format!(
                "annotation {}: `{name}` is no payload; there are `light` and `upstream`",
                names::PAYLOAD
            ))
        })
    }

    /// Whether this release can be had with it.
    pub(crate) fn check(self, release: &Release, config: &Config) -> Result<(), Refusal> {
        if self == Self::Light {
            return Ok(());
        }
        let Some(Upstream { kubernetes, .. }) = release.upstream() else {
            return Err(Refusal::release(format!(
                "release {} cannot be had with payload `upstream`, which has {}",
                release.version,
                versions::upstream_minors()
            )));
        };
        let Some(folder) = &config.upstream else { return Ok(()) };
        let there = folder.join(format!("v{kubernetes}"));
        let missing: Vec<_> = PROGRAMS.into_iter().filter(|name| !is_program(&there.join(name))).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Refusal::release(format!(
            "release {} with payload `upstream` is Kubernetes {kubernetes}, of which {} lacks {}; `pilothouse upstream install \
             --version {kubernetes} --cache {}` puts it there",
            release.version,
            there.display(),
            missing.join(", "),
            folder.display()
        )))
    }
}

// === impl Images ===

impl Images {
    /// The images of a release. Where programs are on disk, each of them has the version of Kubernetes that it belongs to.
    pub(crate) fn of(programs: Upstream, config: &Config) -> Self {
        let tag = format!("v{}", programs.kubernetes);
        let image = |name: &str| match &config.upstream {
            Some(_) => format!("{name}:{tag}"),
            None => format!("{}/{name}:{tag}", config.registry),
        };
        Self {
            etcd: match &config.upstream {
                Some(_) => image("etcd"),
                None => format!("{}/etcd:{}", config.registry, programs.etcd),
            },
            api_server: image("kube-apiserver"),
            controller_manager: image("kube-controller-manager"),
            scheduler: image("kube-scheduler"),
        }
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
