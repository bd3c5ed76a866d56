//! Which route has which host.
//!
//! A host belongs to the oldest route that claims it, whatever management cluster that is in. Claims are kept sorted per host,
//! so that one route's change costs the same among ten routes as among ten thousand.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pilothouse_crds::{ConditionStatus, Route, RouteIngress, RouteIngressCondition, RouteTermination};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::{info, warn};

use crate::access::Access;
use crate::cluster::ClusterName;

/// What tells one route from another, also in another management cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteKey {
    /// The name of the management cluster.
    pub management: Arc<str>,
    /// Namespace and name there.
    pub route: ObjectKey,
}

/// Hosts and who claims them.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    claims: RwLock<Claims>,
}

#[derive(Debug, Default)]
struct Claims {
    by_host: HashMap<String, BTreeSet<Claim>>,
    /// Private links, which are claimed as hosts are.
    by_link: HashMap<u32, BTreeSet<Claim>>,
    by_route: HashMap<RouteKey, Held>,
    /// How many routes there are of each cluster.
    by_cluster: HashMap<ClusterName, usize>,
}

/// What is known of a route that claims a host.
#[derive(Debug)]
struct Held {
    host: String,
    claim: Claim,
    access: Arc<Access>,
    turn: Arc<AtomicUsize>,
}

/// The route that has a host, and who may come through it.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) key: RouteKey,
    pub(crate) access: Arc<Access>,
    /// Spreads connections over the endpoints. One for all routes would send clients who come to two in turn always to the same.
    pub(crate) turn: Arc<AtomicUsize>,
}

/// What a change of one route brings about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// The routes whose claims may be others now.
    pub(crate) affected: Vec<RouteKey>,
    /// The cluster that has no route any more.
    pub(crate) gone: Option<ClusterName>,
}

/// One route's claim to a host: the older comes first, and of two of the same second the one that sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    since: Option<Time>,
    route: RouteKey,
}

/// Whether a route gets its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    /// Another route has it.
    Claimed(RouteKey),
    /// It does, but its cluster does not get the way out, because of this.
    NoWayOut(String),
    NoHost,
    /// The gateway only passes TLS on.
    NotPassthrough,
    /// Nobody can say who may come.
    Unclear(String),
}

/// Writes into each route whether it is served.
pub(crate) struct Routes {
    pub(crate) management: Arc<str>,
    pub(crate) client: Client,
    pub(crate) routes: Informer<Route>,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) clock: Clock,
    pub(crate) name: String,
}

// === impl Hosts ===

impl Hosts {
    /// Takes note of a route as it is now; `None` if it is gone.
    pub(crate) fn update(&self, key: &RouteKey, route: Option<&Route>) -> Effect {
        let mut claims = self.claims.write().unwrap_or_else(PoisonError::into_inner);
        let mut affected = BTreeSet::from([key.clone()]);
        let before = claims.by_route.remove(key);
        if let Some(Held { host, claim, access, .. }) = &before {
            withdraw(&mut claims.by_host, host, claim, &mut affected);
            if let Some(link) = access.link() {
                withdraw(&mut claims.by_link, &link, claim, &mut affected);
            }
        }
        let after =
            route.filter(|route| is_passthrough(route)).and_then(|route| Some((route, host_of(route)?)));
        let held = after.is_some();
        if let Some((route, host)) = after {
            let claim = Claim { since: route.metadata.creation_timestamp.clone(), route: key.clone() };
            let access = Arc::new(Access::of(route));
            lay(&mut claims.by_host, host.clone(), &claim, &mut affected);
            if let Some(link) = access.link() {
                lay(&mut claims.by_link, link, &claim, &mut affected);
            }
            let turn = before.as_ref().map(|held| held.turn.clone()).unwrap_or_default();
            claims.by_route.insert(key.clone(), Held { host, claim, access, turn });
        }
        let gone = claims.count(key.cluster(), before.is_some(), held);
        Effect { affected: affected.into_iter().collect(), gone }
    }

    /// The route that has this host.
    pub(crate) fn owner(&self, host: &str) -> Option<Owner> {
        let claims = self.read();
        claims.owner(claims.by_host.get(host)?)
    }

    /// The route whose cluster comes through this private link.
    pub(crate) fn linked(&self, link: u32) -> Option<Owner> {
        let claims = self.read();
        claims.owner(claims.by_link.get(&link)?)
    }

    /// All hosts, with the routes that have them.
    pub(crate) fn all(&self) -> Vec<(String, RouteKey)> {
        let claims = self.read();
        let owners = claims.by_host.iter().filter_map(|(host, claimants)| {
            claimants.first().map(|claim| (host.clone(), claim.route.clone()))
        });
        let mut all: Vec<_> = owners.collect();
        all.sort();
        all
    }

    /// The routes of a management cluster that have a host, or claim one.
    pub(crate) fn of(&self, management: &str) -> Vec<ObjectKey> {
        let claims = self.read();
        let routes = claims.by_route.keys().filter(|key| &*key.management == management);
        routes.map(|key| key.route.clone()).collect()
    }

    fn admission(&self, key: &RouteKey, route: &Route) -> Admission {
        let Some(host) = host_of(route) else { return Admission::NoHost };
        if !is_passthrough(route) {
            return Admission::NotPassthrough;
        }
        match self.owner(&host) {
            Some(owner) if owner.key != *key => Admission::Claimed(owner.key),
            _ => {
                let access = Access::of(route);
                match access.trouble() {
                    Some(trouble) => Admission::Unclear(trouble.to_owned()),
                    None => self.way_out(key, &access),
                }
            }
        }
    }

    /// A cluster without a way out is served all the same.
    fn way_out(&self, key: &RouteKey, access: &Access) -> Admission {
        let link = match &access.way_out {
            Ok(None) => return Admission::Admitted,
            Ok(Some(grant)) => grant.link,
            Err(trouble) => return Admission::NoWayOut(trouble.clone()),
        };
        match self.linked(link) {
            Some(owner) if owner.key.cluster() != key.cluster() => Admission::NoWayOut(format!(
                "private link {link}, which route {} has, and which is older; give each cluster its own",
                owner.key
            )),
            _ => Admission::Admitted,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Claims> {
        self.claims.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lay<K: Eq + Hash>(
    claims: &mut HashMap<K, BTreeSet<Claim>>,
    to: K,
    claim: &Claim,
    affected: &mut BTreeSet<RouteKey>,
) {
    let claimants = claims.entry(to).or_default();
    claimants.insert(claim.clone());
    affected.extend(claimants.iter().map(|claim| claim.route.clone()));
}

fn withdraw<K: Eq + Hash>(
    claims: &mut HashMap<K, BTreeSet<Claim>>,
    to: &K,
    claim: &Claim,
    affected: &mut BTreeSet<RouteKey>,
) {
    let Some(claimants) = claims.get_mut(to) else { return };
    claimants.remove(claim);
    affected.extend(claimants.iter().map(|claim| claim.route.clone()));
    if claimants.is_empty() {
        claims.remove(to);
    }
}

// === impl Claims ===

impl Claims {
    /// Whoever comes first.
    fn owner(&self, claimants: &BTreeSet<Claim>) -> Option<Owner> {
        let key = claimants.first()?.route.clone();
        let Held { access, turn, .. } = self.by_route.get(&key)?;
        Some(Owner { access: access.clone(), turn: turn.clone(), key })
    }

    /// Counts the routes of a cluster; gives it back if it has none any more.
    fn count(&mut self, cluster: ClusterName, before: bool, after: bool) -> Option<ClusterName> {
        match (before, after) {
            (false, true) => *self.by_cluster.entry(cluster).or_default() += 1,
            (true, false) => {
                let routes = self.by_cluster.get_mut(&cluster)?;
                *routes -= 1;
                if *routes == 0 {
                    self.by_cluster.remove(&cluster);
                    return Some(cluster);
                }
            }
            (false, false) | (true, true) => {}
        }
        None
    }
}

// === impl RouteKey ===

impl RouteKey {
    /// The cluster that the route is part of.
    pub(crate) fn cluster(&self) -> ClusterName {
        ClusterName {
            management: self.management.to_string(),
            cluster: self.route.namespace_or_empty().to_owned(),
        }
    }
}

impl fmt::Display for RouteKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.route, self.management)
    }
}

/// The host in the form that clients' names are compared in.
fn host_of(route: &Route) -> Option<String> {
    let host = route.spec.host.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}

fn is_passthrough(route: &Route) -> bool {
    route.spec.tls.as_ref().is_some_and(|tls| tls.termination == RouteTermination::Passthrough)
}

// === status ===

/// The route's status with our entry as it should be, or `None` if it is already.
fn status(route: &Route, admission: &Admission, name: &str, now: Time) -> Option<Vec<RouteIngress>> {
    let (status, reason, message) = match admission {
        Admission::Admitted => (ConditionStatus::True, "", String::new()),
        Admission::Claimed(owner) => (
            ConditionStatus::False,
            "HostAlreadyClaimed",
            format!("route {owner} is older and has the same host; choose another host or delete that route"),
        ),
        Admission::NoWayOut(trouble) => {
            (ConditionStatus::True, "NoWayOut", format!("the cluster has no way out, because of {trouble}"))
        }
        Admission::NoHost => {
            (ConditionStatus::False, "NoHost", "set spec.host: the gateway does not choose one".to_owned())
        }
        Admission::NotPassthrough => (
            ConditionStatus::False,
            "TerminationNotSupported",
            "set spec.tls.termination to passthrough: the gateway does not end TLS".to_owned(),
        ),
        Admission::Unclear(trouble) => {
            (ConditionStatus::False, "AccessNotUnderstood", format!("nobody is let in, because of {trouble}"))
        }
    };
    let before = route.status.as_ref().map(|status| status.ingress.clone()).unwrap_or_default();
    let own = before.iter().find(|ingress| ingress.router_name == name);
    let earlier = own.and_then(|own| own.conditions.iter().find(|condition| condition.type_ == "Admitted"));
    let condition = RouteIngressCondition {
        type_: "Admitted".to_owned(),
        status,
        reason: reason.to_owned(),
        message,
        last_transition_time: earlier
            .filter(|earlier| earlier.status == status)
            .and_then(|earlier| earlier.last_transition_time.clone())
            .or(Some(now)),
    };
    let wanted = RouteIngress {
        host: route.spec.host.clone(),
        router_name: name.to_owned(),
        conditions: vec![condition],
        ..RouteIngress::default()
    };
    if own == Some(&wanted) {
        return None;
    }
    let mut ingress: Vec<_> = before.into_iter().filter(|ingress| ingress.router_name != name).collect();
    ingress.push(wanted);
    Some(ingress)
}

impl Reconcile for Routes {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.routes.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(route) = self.routes.get(key) else { return Ok(Next::Done) };
        let own = RouteKey { management: self.management.clone(), route: key.clone() };
        let admission = self.hosts.admission(&own, &route);
        let Some(ingress) = status(&route, &admission, &self.name, Time(self.clock.now())) else {
            return Ok(Next::Done);
        };
        let host = &route.spec.host;
        match &admission {
            Admission::Admitted => info!(route = %key, host, "route is served"),
            refused => warn!(route = %key, host, ?refused, "route is not served"),
        }
        let api: Api<Route> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": route.resource_version() },
            "status": { "ingress": ingress },
        }));
        match api.patch_status(&key.name, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(Next::Done),
            // Changed or gone meanwhile: the event follows.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(Next::Done),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
