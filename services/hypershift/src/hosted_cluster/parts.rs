//! What a control plane consists of, whatever its payload: beside the objects that every one has, some files and some
//! workloads, which change in an order.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt as _;

use super::blueprint::Blueprint;
use super::keeping;
use super::manifests;
use super::payload::{Images, Payload};
use super::pki::Signers;
use super::upstream;
use super::workload;
use crate::Config;
use crate::error::Error;
use crate::names;
use crate::pod::{is_pod_ready, is_pod_running, pod_state};

/// What a payload consists of.
pub(crate) struct Parts {
    pub(crate) config_maps: Vec<ConfigMap>,
    /// In the order in which a new release reaches them.
    pub(crate) components: Vec<Component>,
}

/// One workload.
pub(crate) struct Component {
    pub(crate) stateful_set: StatefulSet,
    /// Pods with another one are those of before.
    pub(crate) hash: String,
    /// How many of its pods have to be ready.
    pub(crate) needed: usize,
    /// It changes when everything of an earlier stage has changed.
    pub(crate) stage: u8,
}

/// What is seen of a component's pods.
struct Look {
    /// How many are ready and of now.
    ready: usize,
    /// How many are ready and of before.
    of_before: usize,
    /// What keeps the others.
    seen: String,
}

/// Services of a payload beside that of the API server.
pub(crate) fn services(blueprint: &Blueprint) -> Vec<Service> {
    match blueprint.payload {
        Payload::Light => Vec::new(),
        Payload::Upstream => upstream::services(blueprint),
    }
}

// === impl Parts ===

impl Parts {
    pub(crate) fn of(
        blueprint: &Blueprint,
        config: &Config,
        address: IpAddr,
        signers: &Signers,
    ) -> Result<Self, Error> {
        let of_upstream = signers.upstream().zip(blueprint.control_plane_release.upstream());
        let mut parts = match of_upstream {
            None => {
                let (root, clients) = (signers.root().to_pem(), signers.clients()?.to_pem());
                Self {
                    config_maps: vec![manifests::config_map(blueprint, address, &root, &clients)?],
                    components: vec![Component {
                        stateful_set: workload::stateful_set(blueprint, &config.image),
                        hash: blueprint.config_hash(),
                        needed: 1,
                        stage: 0,
                    }],
                }
            }
            Some((authorities, programs)) => {
                let images = Images::of(programs, config);
                upstream::parts(blueprint, &images, address, signers, authorities)?
            }
        };
        for component in &mut parts.components {
            keeping::sign(&mut component.stateful_set, blueprint, address, &component.hash);
        }
        Ok(parts)
    }

    /// Those that may be written now: whatever is missing, and changes up to the first stage that has not changed yet.
    pub(crate) fn due(
        &self,
        pods: &[Arc<Pod>],
        exists: impl Fn(&StatefulSet) -> bool,
    ) -> impl Iterator<Item = &Component> {
        let unfinished = self.components.iter().filter(|component| component.missing(pods).is_some());
        let current = unfinished.map(|component| component.stage).min().unwrap_or(u8::MAX);
        self.components
            .iter()
            .filter(move |component| component.stage <= current || !exists(&component.stateful_set))
    }

    /// Whether enough of every component runs, of now or of before; if not, what is seen instead.
    pub(crate) fn serve(&self, pods: &[Arc<Pod>]) -> Result<(), String> {
        self.components.iter().try_for_each(|component| component.serves(pods))
    }

    /// The same of one component, if the payload has it.
    pub(crate) fn serves(&self, name: &str, pods: &[Arc<Pod>]) -> Option<Result<(), String>> {
        let component = self.components.iter().find(|component| component.name() == name)?;
        Some(component.serves(pods))
    }

    /// Every pod of a component, once all of its replicas run as they should and none of before is left.
    pub(crate) fn replicas(&self, name: &str, pods: &[Arc<Pod>]) -> Result<Vec<Arc<Pod>>, String> {
        let component = self.components.iter().find(|component| component.name() == name);
        let component = component.ok_or_else(|| format!("there is no {name}"))?;
        match component.missing(pods) {
            Some(missing) => Err(missing),
            None => component.current(pods),
        }
    }

    /// Whether enough of every component runs as it should now; if not, what is seen instead.
    pub(crate) fn run(&self, pods: &[Arc<Pod>]) -> Result<(), String> {
        self.components.iter().try_for_each(|component| component.runs(pods))
    }

    /// Whether every replica of everything runs as it should.
    pub(crate) fn complete(&self, pods: &[Arc<Pod>]) -> Result<(), String> {
        match self.components.iter().find_map(|component| component.missing(pods)) {
            None => Ok(()),
            Some(missing) => Err(missing),
        }
    }
}

// === impl Component ===

impl Component {
    fn name(&self) -> String {
        self.stateful_set.name_any()
    }

    /// What is to be written where `found` is.
    pub(crate) fn beside(&self, found: Option<&StatefulSet>, pods: &[Arc<Pod>]) -> Cow<'_, StatefulSet> {
        let stays = |pod: &&Arc<Pod>| pod.metadata.deletion_timestamp.is_none();
        let running = self.own(pods).filter(stays).filter(|pod| self.describes(pod) && is_pod_running(pod));
        keeping::keep(&self.stateful_set, found, running.count() >= self.needed)
    }

    fn own<'a>(&self, pods: &'a [Arc<Pod>]) -> impl Iterator<Item = &'a Arc<Pod>> {
        let name = self.name();
        let of = move |pod: &&Arc<Pod>| pod.labels().get(names::COMPONENT).is_some_and(|of| *of == name);
        pods.iter().filter(of)
    }

    /// Whether a pod of it is one of now.
    fn describes(&self, pod: &Pod) -> bool {
        names::annotation(&pod.metadata, names::CONFIG_HASH) == Some(self.hash.as_str())
    }

    fn replicas(&self) -> usize {
        let replicas = self.stateful_set.spec.as_ref().and_then(|spec| spec.replicas);
        replicas.and_then(|replicas| usize::try_from(replicas).ok()).unwrap_or(1)
    }

    fn serves(&self, pods: &[Arc<Pod>]) -> Result<(), String> {
        let look = self.look(pods);
        if look.ready + look.of_before >= self.needed { Ok(()) } else { Err(look.seen) }
    }

    fn runs(&self, pods: &[Arc<Pod>]) -> Result<(), String> {
        let look = self.look(pods);
        if look.ready >= self.needed { Ok(()) } else { Err(look.seen) }
    }

    /// What is missing until every replica runs as it should.
    fn missing(&self, pods: &[Arc<Pod>]) -> Option<String> {
        let look = self.look(pods);
        (look.ready < self.replicas()).then_some(look.seen)
    }

    /// All of its pods, if there are none but those of now.
    fn current(&self, pods: &[Arc<Pod>]) -> Result<Vec<Arc<Pod>>, String> {
        let own: Vec<_> = self.own(pods).cloned().collect();
        let of_before =
            own.iter().find(|pod| pod.metadata.deletion_timestamp.is_some() || !self.describes(pod));
        match of_before {
            Some(pod) => Err(format!("pod {} of before is still there", pod.name_any())),
            None => Ok(own),
        }
    }

    fn look(&self, pods: &[Arc<Pod>]) -> Look {
        let name = self.name();
        let (mut ready, mut of_before, mut seen) = (0, 0, None);
        for pod in self.own(pods) {
            let leaves = pod.metadata.deletion_timestamp.is_some();
            let is_ready = !leaves && is_pod_ready(pod);
            if !self.describes(pod) {
                of_before += usize::from(is_ready);
                // What does not become ready is what has to be told, not what waits for it.
                seen.get_or_insert_with(|| {
                    format!("pod {} still runs the previous release or configuration", pod.name_any())
                });
            } else if leaves {
                seen = Some(format!("pod {} is being deleted", pod.name_any()));
            } else if is_ready {
                ready += 1;
            } else {
                seen = Some(format!("pod {} is not ready: {}", pod.name_any(), pod_state(pod)));
            }
        }
        let seen = seen.unwrap_or_else(|| match ready {
            0 => format!("no pod of StatefulSet {name} yet"),
            ready => format!("{ready} of {} pods of StatefulSet {name} are ready", self.replicas()),
        });
        Look { ready, of_before, seen }
    }
}
