//! Which programs a control plane consists of.
//!
//! `light`, the default, is one process of ours. `upstream` is etcd, kube-apiserver, kube-controller-manager and
//! kube-scheduler as Kubernetes releases them. An annotation chooses, once: what one of them keeps, the other cannot read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pilothouse_crds::HostedCluster;

use super::history;
use super::refusal::{Refusal, Refusals};
use crate::Config;
use crate::names;
use crate::versions::{self, Release};

/// The programs of payload `upstream`.
const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Which programs a control plane consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Payload {
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
    pub(crate) fn of(cluster: &HostedCluster, complaints: &mut Refusals) -> Result<Self, Refusal> {
        let asked = Self::asked_for(cluster);
        let status = cluster.status.as_ref().filter(|status| history::has_run(status));
        // What ran before there was a choice was `light`.
        let running =
            status.map(|status| status.payload.as_deref().and_then(Self::named).unwrap_or_default());
        match (asked, running) {
            (Ok(asked), Some(running)) if asked != running => {
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
            (asked, _) => asked,
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

    fn asked_for(cluster: &HostedCluster) -> Result<Self, Refusal> {
        let Some(name) = names::annotation(&cluster.metadata, names::PAYLOAD) else {
            return Ok(Self::default());
        };
        Self::named(name).ok_or_else(|| {
            Refusal::invalid(format!(
                "annotation {}: `{name}` is no payload; there are `light` and `upstream`",
                names::PAYLOAD
            ))
        })
    }

    /// Whether this release can be had with it.
    pub(crate) fn check(self, release: &Release, config: &Config) -> Result<(), Refusal> {
        let kubernetes = &release.kubernetes;
        if self == Self::Light {
            return Ok(());
        }
        if release.etcd().is_none() {
            return Err(Refusal::release(format!(
                "release {} cannot be had with payload `upstream`, which has {}",
                release.version,
                versions::upstream_minors()
            )));
        }
        let Some(folder) = &config.upstream else { return Ok(()) };
        let there = folder.join(format!("v{kubernetes}"));
        let missing: Vec<_> = PROGRAMS.into_iter().filter(|name| !is_program(&there.join(name))).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Refusal::release(format!(
            "release {} is Kubernetes {kubernetes}, of which this machine lacks {}; install it with `pilothouse upstream \
             install --version {kubernetes}`",
            release.version,
            missing.join(", ")
        )))
    }
}

// === impl Images ===

impl Images {
    /// The images of a release. Where programs are on disk, each of them has the version of Kubernetes that it belongs to.
    pub(crate) fn of(release: &Release, config: &Config) -> Self {
        let tag = format!("v{}", release.kubernetes);
        match &config.upstream {
            Some(_) => Self {
                etcd: format!("etcd:{tag}"),
                api_server: format!("kube-apiserver:{tag}"),
                controller_manager: format!("kube-controller-manager:{tag}"),
                scheduler: format!("kube-scheduler:{tag}"),
            },
            None => {
                let registry = &config.registry;
                Self {
                    etcd: format!("{registry}/etcd:{}", release.etcd().unwrap_or_default()),
                    api_server: format!("{registry}/kube-apiserver:{tag}"),
                    controller_manager: format!("{registry}/kube-controller-manager:{tag}"),
                    scheduler: format!("{registry}/kube-scheduler:{tag}"),
                }
            }
        }
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
