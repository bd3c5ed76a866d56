//! Which route has which host.
//!
//! A host belongs to the oldest route that claims it. Claims are kept sorted per host, so that one route's change costs the
//! same among ten routes as among ten thousand.

use std::collections::{BTreeSet, HashMap};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pilothouse_crds::{ConditionStatus, Route, RouteIngress, RouteIngressCondition, RouteTermination};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::{info, warn};

/// Hosts and who claims them.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    claims: RwLock<Claims>,
}

#[derive(Debug, Default)]
struct Claims {
    by_host: HashMap<String, BTreeSet<Claim>>,
    by_route: HashMap<ObjectKey, (String, Claim)>,
}

/// One route's claim to a host: the older comes first, and of two of the same second the one that sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    since: Option<Time>,
    route: ObjectKey,
}

/// Whether a route gets its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    /// Another route has it.
    Claimed(ObjectKey),
    NoHost,
    /// The gateway only passes TLS on.
    NotPassthrough,
}

/// Writes into each route whether it is served.
pub(crate) struct Routes {
    pub(crate) client: Client,
    pub(crate) routes: Informer<Route>,
    pub(crate) hosts: std::sync::Arc<Hosts>,
    pub(crate) clock: Clock,
    pub(crate) name: String,
}

// === impl Hosts ===

impl Hosts {
    /// Takes note of a route as it is now; `None` if it is gone. Answers the routes whose claims that may change.
    pub(crate) fn update(&self, key: &ObjectKey, route: Option<&Route>) -> Vec<ObjectKey> {
        let mut claims = self.claims.write().unwrap_or_else(PoisonError::into_inner);
        let mut affected = BTreeSet::from([key.clone()]);
        if let Some((host, claim)) = claims.by_route.remove(key)
            && let Some(claimants) = claims.by_host.get_mut(&host)
        {
            claimants.remove(&claim);
            affected.extend(claimants.iter().map(|claim| claim.route.clone()));
            if claimants.is_empty() {
                claims.by_host.remove(&host);
            }
        }
        if let Some(route) = route
            && is_passthrough(route)
            && let Some(host) = host_of(route)
        {
            let claim = Claim { since: route.metadata.creation_timestamp.clone(), route: key.clone() };
            let claimants = claims.by_host.entry(host.clone()).or_default();
            claimants.insert(claim.clone());
            affected.extend(claimants.iter().map(|claim| claim.route.clone()));
            claims.by_route.insert(key.clone(), (host, claim));
        }
        affected.into_iter().collect()
    }

    /// The route that has this host.
    pub(crate) fn owner(&self, host: &str) -> Option<ObjectKey> {
        Some(self.read().by_host.get(host)?.first()?.route.clone())
    }

    /// All hosts, with the routes that have them.
    pub(crate) fn all(&self) -> Vec<(String, ObjectKey)> {
        let claims = self.read();
        let owners = claims.by_host.iter().filter_map(|(host, claimants)| {
            claimants.first().map(|claim| (host.clone(), claim.route.clone()))
        });
        let mut all: Vec<_> = owners.collect();
        all.sort();
        all
    }

    fn admission(&self, key: &ObjectKey, route: &Route) -> Admission {
        let Some(host) = host_of(route) else { return Admission::NoHost };
        if !is_passthrough(route) {
            return Admission::NotPassthrough;
        }
        match self.owner(&host) {
            Some(owner) if owner != *key => Admission::Claimed(owner),
            _ => Admission::Admitted,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Claims> {
        self.claims.read().unwrap_or_else(PoisonError::into_inner)
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
        Admission::NoHost => {
            (ConditionStatus::False, "NoHost", "set spec.host: the gateway does not choose one".to_owned())
        }
        Admission::NotPassthrough => (
            ConditionStatus::False,
            "TerminationNotSupported",
            "set spec.tls.termination to passthrough: the gateway does not end TLS".to_owned(),
        ),
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
        let admission = self.hosts.admission(key, &route);
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
