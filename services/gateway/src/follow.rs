//! Which management clusters are followed. They come, change and go while the gateway runs.
//!
//! What one says counts as it is heard. Of one that is reached in another way than before it counts once all of it was heard, and
//! until then the former way is followed: nobody is refused for want of a list, and a kubeconfig that leads nowhere takes nothing away.
//! The routes of one that is left are gone for everybody, as if each had been deleted.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::{ArcSwap, Guard};
use pilothouse_crds::Route;
use pilothouse_http::{Health, Verdict};
use pilothouse_informer::{ObjectKey, Reachability};
use pilothouse_runtime::Clock;
use pilothouse_runtime::reconcile::ControllerStatus;
use tokio::sync::{mpsc, oneshot};
use tracing::info;

use crate::cluster::Clusters;
use crate::config::{Contradiction, ManagementCluster};
use crate::error::Error;
use crate::management::{Management, Origin};
use crate::resolve::Source;
use crate::route::{Effect, Hosts, RouteKey};
use crate::watch::Watch;

/// What there is to look up of the management clusters, by name.
pub(crate) type Sources = HashMap<Arc<str>, Source>;

/// The management clusters that are followed. A cheap handle.
#[derive(Clone)]
pub(crate) struct Following(Arc<Inner>);

struct Inner {
    parts: Parts,
    /// As in `members`, for those who come in: they wait for nobody.
    sources: ArcSwap<Sources>,
    /// Held by whatever changes who has a host, so that nobody who is not followed any more has the last word.
    members: Mutex<Members>,
    /// Held by whoever changes the configuration.
    changing: Mutex<()>,
    begun: mpsc::UnboundedSender<Watch>,
}

/// What following takes.
pub(crate) struct Parts {
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) clock: Clock,
    pub(crate) health: Health,
    /// What the gateway calls itself in the status of routes.
    pub(crate) name: String,
}

#[derive(Default)]
struct Members {
    /// How many there have been.
    count: u64,
    /// Those whose word counts.
    current: HashMap<Arc<str>, Member>,
    /// Those that will take the place of a current one when they have been heard.
    coming: HashMap<Arc<str>, Member>,
}

/// One way to one management cluster, which is followed for as long as this is kept.
struct Member {
    number: u64,
    /// Absent if it was given to the gateway.
    configured: Option<(Origin, Reachability)>,
    source: Source,
    _kept: oneshot::Sender<()>,
}

/// Other management clusters than before: they can be connected to, and nothing has changed yet.
pub(crate) struct Change<'a> {
    following: &'a Following,
    _changing: MutexGuard<'a, ()>,
    wanted: Vec<Wanted>,
}

enum Wanted {
    /// There is such a way already.
    Kept(Origin),
    New(Origin, Management, Reachability),
}

// === impl Following ===

impl Following {
    /// Of nobody yet. Whatever is to be watched is told the receiver.
    pub(crate) fn new(parts: Parts) -> (Self, mpsc::UnboundedReceiver<Watch>) {
        let (begun, watches) = mpsc::unbounded_channel();
        let (sources, members, changing) = Default::default();
        (Self(Arc::new(Inner { parts, sources, members, changing, begun })), watches)
    }

    /// Follows one that is not of the configuration.
    pub(crate) fn give(&self, management: Management) {
        self.begin(&mut self.lock(), management, None);
    }

    /// Connects to those of the configuration that are not followed in the same way already. Blocks as long as reading takes.
    ///
    /// # Errors
    ///
    /// If one cannot be connected to, or is called as one that is not of the configuration; then nothing has changed.
    pub(crate) fn prepare(&self, clusters: &[ManagementCluster]) -> Result<Change<'_>, Error> {
        let changing = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = clusters.iter().map(|cluster| {
            if self.lock().is_given(&cluster.name) {
                return Err(Contradiction::SameName(cluster.name.clone()).into());
            }
            // Before it is connected to: what changes in between is seen the next time.
            let origin = Origin::read(cluster);
            if self.lock().has(&origin) {
                return Ok(Wanted::Kept(origin));
            }
            let (management, reachability) = origin.connect()?;
            Ok(Wanted::New(origin, management, reachability))
        });
        let wanted = wanted.collect::<Result<_, Error>>()?;
        Ok(Change { following: self, _changing: changing, wanted })
    }

    /// Whether these are followed as their files say now.
    pub(crate) fn is_as_in_files(&self, clusters: &[ManagementCluster]) -> bool {
        clusters.iter().all(|cluster| {
            let origin = Origin::read(cluster);
            self.lock().is_last(&origin)
        })
    }

    /// What there is to look up.
    pub(crate) fn sources(&self) -> Guard<Arc<Sources>> {
        self.0.sources.load()
    }

    /// What the controllers of routes are at.
    pub(crate) fn statuses(&self) -> Vec<(String, ControllerStatus)> {
        let members = self.lock();
        let statuses = members.current.iter();
        statuses.map(|(name, member)| (name.to_string(), member.source.statuses.status())).collect()
    }

    /// Whether routes are known.
    pub(crate) fn verdict(&self) -> Verdict {
        let sources = self.sources();
        let unknown = sources.iter().filter(|(_, source)| !source.is_synced());
        let mut unknown: Vec<_> = unknown.map(|(name, _)| name.to_string()).collect();
        unknown.sort();
        if unknown.is_empty() {
            Verdict::ready("routes are known")
        } else if unknown.len() == sources.len() {
            Verdict::failed("routes and endpoints have not been listed yet")
        } else {
            // The others' clusters are served all the same.
            Verdict::warning(format!("routes of {} have not been listed yet", unknown.join(", ")))
        }
    }

    /// A route of this member has changed: that takes effect at once, before anybody is told of it.
    pub(crate) fn changed(&self, management: &Arc<str>, number: u64, route: &Route) {
        let members = self.lock();
        let Some(member) = members.counting(management, number) else {
            // Not yet: all of it is looked at when it takes its place. Or not any more.
            return;
        };
        let key = RouteKey { management: management.clone(), route: ObjectKey::of(route) };
        let current = member.source.routes.get(&key.route);
        self.tell(&members, self.0.parts.hosts.update(&key, current.as_deref()));
    }

    /// Whether the word of this member counts.
    pub(crate) fn counts(&self, management: &str, number: u64) -> bool {
        self.lock().counting(management, number).is_some()
    }

    /// Everything of this member has been heard; from now on it is the one that counts, unless it is not wanted any more.
    pub(crate) fn heard(&self, management: &Arc<str>, number: u64) {
        let mut members = self.lock();
        if members.coming.get(management).is_none_or(|member| member.number != number) {
            return;
        }
        let Some(member) = members.coming.remove(management) else { return };
        info!(%management, "management cluster is followed in the new way");
        let before: BTreeSet<_> = self.parts().hosts.of(management).into_iter().collect();
        let after: BTreeSet<_> = member.source.routes.keys().into_iter().collect();
        let _former = members.current.insert(management.clone(), member);
        self.publish(&members);
        // Those that come before those that go: a host, or a cluster, that has another route now is never without one.
        for routes in [&after - &before, &after & &before, &before - &after] {
            self.look_again(&members, management, routes);
        }
    }

    fn begin(
        &self,
        members: &mut Members,
        management: Management,
        configured: Option<(Origin, Reachability)>,
    ) {
        members.count += 1;
        let number = members.count;
        let (keep, kept) = oneshot::channel();
        let name: Arc<str> = management.name.as_str().into();
        let (watch, source) = Watch::new(number, management, kept, self);
        let member = Member { number, configured, source, _kept: keep };
        match members.current.entry(name) {
            Entry::Occupied(current) => {
                info!(management = %current.key(), "management cluster will be followed in a new way");
                members.coming.insert(current.key().clone(), member);
            }
            Entry::Vacant(place) => {
                place.insert(member);
                self.publish(members);
            }
        }
        // Nobody watches any more at shutdown only.
        let _ = self.0.begun.send(watch);
    }

    fn leave(&self, members: &mut Members, management: &Arc<str>) {
        let _left = [members.coming.remove(management), members.current.remove(management)];
        // Hosts go to whoever claims them next before it cannot be looked up any more.
        self.look_again(members, management, self.parts().hosts.of(management));
        self.publish(members);
        self.parts().health.withdraw(&check(management));
    }

    /// These routes may be others now, or none.
    fn look_again(
        &self,
        members: &Members,
        management: &Arc<str>,
        routes: impl IntoIterator<Item = ObjectKey>,
    ) {
        let known = members.current.get(management).map(|member| &member.source.routes);
        for route in routes {
            let current = known.and_then(|known| known.get(&route));
            let key = RouteKey { management: management.clone(), route };
            self.tell(members, self.0.parts.hosts.update(&key, current.as_deref()));
        }
    }

    /// Tells whoever it concerns.
    fn tell(&self, members: &Members, effect: Effect) {
        if let Some(gone) = effect.gone {
            self.0.parts.clusters.forget(&gone);
        }
        for RouteKey { management, route } in effect.affected {
            if let Some(member) = members.current.get(&management) {
                member.source.statuses.wake(route);
            }
        }
    }

    fn publish(&self, members: &Members) {
        let sources = members.current.iter().map(|(name, member)| (name.clone(), member.source.clone()));
        self.0.sources.store(Arc::new(sources.collect()));
    }

    /// Has the health page say whether a management cluster answers.
    fn report(&self, management: &str) {
        let (following, name) = (Arc::downgrade(&self.0), management.to_owned());
        self.parts().health.register(check(management), move || {
            let following = Weak::upgrade(&following).map(Self);
            following
                .map_or_else(|| Verdict::ready("the gateway has ended"), |following| following.reached(&name))
        });
    }

    fn reached(&self, management: &str) -> Verdict {
        let members = self.lock();
        let coming = members.coming.get(management);
        let Some(Member { configured: Some((_, reachability)), .. }) =
            coming.or_else(|| members.current.get(management))
        else {
            return Verdict::ready("it is not followed any more");
        };
        match reachability.trouble() {
            Some(trouble) => Verdict::warning(trouble),
            None if coming.is_some() => Verdict::warning(
                "it has not listed its routes since its kubeconfig changed; followed as before",
            ),
            None => Verdict::ready("the management cluster answers"),
        }
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.0.parts
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.0.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the health page calls a management cluster.
fn check(management: &str) -> String {
    format!("management-{management}")
}

impl fmt::Debug for Following {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.sources().keys()).finish()
    }
}

// === impl Change ===

impl Change<'_> {
    /// Follows others than before. Those that are followed as they were notice nothing.
    pub(crate) fn make(self) {
        let following = self.following;
        let mut members = following.lock();
        let wanted: BTreeSet<_> = self.wanted.iter().map(|wanted| wanted.name().to_owned()).collect();
        for name in members.configured() {
            if !wanted.contains(&*name) {
                info!(management = %name, "management cluster is not followed any more");
                following.leave(&mut members, &name);
            }
        }
        for wanted in self.wanted {
            match wanted {
                Wanted::Kept(origin) => members.keep(&origin),
                Wanted::New(origin, management, reachability) => {
                    following.report(&management.name);
                    following.begin(&mut members, management, Some((origin, reachability)));
                }
            }
        }
    }
}

impl Wanted {
    fn name(&self) -> &str {
        match self {
            Self::Kept(origin) | Self::New(origin, ..) => &origin.cluster.name,
        }
    }
}

// === impl Members ===

impl Members {
    /// The names of those of the configuration.
    fn configured(&self) -> BTreeSet<Arc<str>> {
        let configured = self.current.iter().filter(|(_, member)| member.configured.is_some());
        configured.map(|(name, _)| name.clone()).collect()
    }

    fn is_given(&self, management: &str) -> bool {
        self.current.get(management).is_some_and(|member| member.configured.is_none())
    }

    /// The member of this number, if its word counts.
    fn counting(&self, management: &str, number: u64) -> Option<&Member> {
        self.current.get(management).filter(|member| member.number == number)
    }

    /// Whether one is followed in this way, or will be.
    fn has(&self, origin: &Origin) -> bool {
        let name = origin.cluster.name.as_str();
        [&self.current, &self.coming]
            .into_iter()
            .filter_map(|members| members.get(name))
            .any(|member| member.is(origin))
    }

    /// Whether that is the last way that was asked for.
    fn is_last(&self, origin: &Origin) -> bool {
        let name = origin.cluster.name.as_str();
        self.coming.get(name).or_else(|| self.current.get(name)).is_some_and(|member| member.is(origin))
    }

    /// Follows it in this way, although another may be coming. One that has just come stays until files are looked at again.
    fn keep(&mut self, origin: &Origin) {
        let name = origin.cluster.name.as_str();
        if self.current.get(name).is_some_and(|member| member.is(origin)) {
            self.coming.remove(name);
        }
    }
}

// === impl Member ===

impl Member {
    fn is(&self, origin: &Origin) -> bool {
        self.configured.as_ref().is_some_and(|(own, _)| own == origin)
    }
}

#[cfg(test)]
mod tests;
