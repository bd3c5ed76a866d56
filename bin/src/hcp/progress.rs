//! Waiting for a hosted cluster, and showing how it comes up.
//!
//! Every change of the cluster or of its pools is seen as it happens. On a terminal the whole picture is drawn anew each
//! time; anywhere else every aspect that changed is a line.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::anyhow;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use pilothouse_crds::{ConditionStatus, HistoryState, HostedCluster, NodePool, find_condition};
use tokio::time::{Instant, timeout_at};

use super::{client, values};
use crate::{Failure, Hint};

/// Conditions of a cluster that show how far it is, in the order in which they come true.
const STEPS: [(&str, &str); 6] = [
    ("ValidConfiguration", "what was asked for is understood"),
    ("ValidReleaseImage", "the release is known"),
    ("InfrastructureReady", "the control plane has an address"),
    ("EtcdAvailable", "the cluster's state can be stored"),
    ("KubeAPIServerAvailable", "the API server answers"),
    ("Available", "the cluster can be used"),
];

/// The reason of a condition about something that a cluster does not have.
const NOT_APPLICABLE: &str = "NotApplicable";

/// Says that the control plane has fewer replicas than were asked for.
const HIGHLY_AVAILABLE: &str = "ControlPlaneHighlyAvailable";

/// What fits on a line of the narrowest terminal that is usual.
const WIDTH: usize = 79;

/// One line of the picture.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Aspect {
    name: String,
    state: State,
    /// Why it is so, or what it means.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Done,
    Waiting,
    Refused,
}

/// What was last seen.
#[derive(Default)]
struct Seen {
    cluster: Option<HostedCluster>,
    pools: Vec<NodePool>,
}

enum News {
    Cluster(Option<Box<HostedCluster>>),
    Pool(Box<NodePool>),
}

/// Waits until the cluster is rolled out and has its nodes.
pub(super) async fn wait(
    client: &Client,
    namespace: &str,
    name: &str,
    limit: Duration,
) -> Result<(), Failure> {
    let deadline = Instant::now() + limit;
    let mut view = View::new();
    let mut seen = Seen::default();
    let mut news = Box::pin(news(client, namespace, name));
    loop {
        match timeout_at(deadline, news.try_next()).await {
            Ok(Ok(Some(News::Cluster(Some(cluster))))) => seen.cluster = Some(*cluster),
            Ok(Ok(Some(News::Cluster(None)))) => {
                return Err(anyhow!("HostedCluster {namespace}/{name} was deleted"))
                    .hint("somebody else did that; ask them, or create it again");
            }
            Ok(Ok(Some(News::Pool(pool)))) => seen.put(*pool),
            Ok(Ok(None)) => {
                return Err(anyhow!("the watch of HostedCluster {namespace}/{name} ended"))
                    .hint("the cluster goes on coming up; `kubectl get hostedclusters -w` shows it");
            }
            Ok(Err(error)) => {
                return Err(error)
                    .hint("the cluster goes on coming up; `kubectl get hostedclusters -w` shows it");
            }
            Err(_) => {
                let missing = seen.aspects(name).into_iter().find(|aspect| aspect.state != State::Done);
                let missing =
                    missing.map(|aspect| format!("{}: {}", aspect.name, aspect.text)).unwrap_or_default();
                return Err(anyhow!(
                    "HostedCluster {namespace}/{name} is not complete after {}; it waits for {missing}",
                    values::write_duration(limit)
                ))
                .hint(format!(
                    "it goes on coming up: `kubectl describe hostedcluster {name} -n {namespace}` says more, \
                     --timeout waits longer"
                ));
            }
        }
        view.show(&seen.aspects(name));
        if seen.is_complete(name) {
            break;
        }
    }
    if let Some(note) = seen.note() {
        client::tell(&format!("note: {note}"));
    }
    client::tell(&format!(
        "HostedCluster {namespace}/{name} is complete; `hcp create kubeconfig --name {name} --namespace {namespace}` \
         is the way into it"
    ));
    Ok(())
}

/// Changes of the cluster and of the pools of its namespace. Interruptions are healed.
fn news(client: &Client, namespace: &str, name: &str) -> impl Stream<Item = anyhow::Result<News>> {
    let clusters: Api<HostedCluster> = Api::namespaced(client.clone(), namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let clusters = watcher(clusters, only).default_backoff().filter_map(|event| async {
        match event {
            Ok(watcher::Event::Apply(cluster) | watcher::Event::InitApply(cluster)) => {
                Some(Ok(News::Cluster(Some(Box::new(cluster)))))
            }
            Ok(watcher::Event::Delete(_)) => Some(Ok(News::Cluster(None))),
            // The backoff has waited; the watch begins again by itself.
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => None,
        }
    });
    let pools: Api<NodePool> = Api::namespaced(client.clone(), namespace);
    let pools = watcher(pools, watcher::Config::default()).default_backoff().filter_map(|event| async {
        match event {
            Ok(watcher::Event::Apply(pool) | watcher::Event::InitApply(pool)) => {
                Some(Ok(News::Pool(Box::new(pool))))
            }
            Ok(watcher::Event::Delete(_) | watcher::Event::Init | watcher::Event::InitDone) | Err(_) => None,
        }
    });
    futures::stream::select(clusters, pools)
}

impl Seen {
    fn put(&mut self, pool: NodePool) {
        self.pools.retain(|known| known.metadata.name != pool.metadata.name);
        self.pools.push(pool);
        self.pools.sort_by(|left, right| left.metadata.name.cmp(&right.metadata.name));
    }

    /// The picture.
    fn aspects(&self, name: &str) -> Vec<Aspect> {
        let status = self.cluster.as_ref().and_then(|cluster| cluster.status.as_ref());
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let mut aspects: Vec<_> = STEPS
            .iter()
            .map(|(type_, meaning)| {
                let (state, text) = match find_condition(conditions, type_) {
                    Some(condition) if condition.status == ConditionStatus::True => {
                        (State::Done, (*meaning).to_owned())
                    }
                    // What this cluster does not have is nothing to wait for.
                    Some(condition) if condition.reason == NOT_APPLICABLE => {
                        (State::Done, condition.message.clone())
                    }
                    Some(condition)
                        if type_.starts_with("Valid") && condition.status == ConditionStatus::False =>
                    {
                        (State::Refused, condition.message.clone())
                    }
                    Some(condition) => (State::Waiting, condition.message.clone()),
                    None => (State::Waiting, "not yet looked at".to_owned()),
                };
                Aspect { name: (*type_).to_owned(), state, text }
            })
            .collect();
        let newest = status.and_then(|status| status.version.as_ref()?.history.first());
        let (state, text) = match newest {
            Some(entry) if entry.state == HistoryState::Completed => (State::Done, entry.version.clone()),
            Some(entry) => (State::Waiting, format!("{} is being rolled out", entry.version)),
            None => (State::Waiting, "not yet begun".to_owned()),
        };
        aspects.push(Aspect { name: "Version".to_owned(), state, text });
        for pool in self.pools.iter().filter(|pool| pool.spec.cluster_name == name) {
            let wanted = pool.spec.replicas.unwrap_or_default();
            let there = pool.status.as_ref().map(|status| status.replicas).unwrap_or_default();
            let state = if there >= wanted { State::Done } else { State::Waiting };
            let mut text = format!("{there} of {wanted} nodes are ready");
            // Why not, or how nodes join whom nobody makes.
            let mut conditions = pool.status.iter().flat_map(|status| &status.conditions);
            let ready =
                conditions.find(|condition| condition.type_ == "Ready" && !condition.message.is_empty());
            if let (State::Waiting, Some(ready)) = (state, ready) {
                // It may begin with the same count.
                text = match ready.message.starts_with(&text) {
                    true => ready.message.clone(),
                    false => format!("{text}: {}", ready.message),
                };
            }
            let pool = pool.metadata.name.as_deref().unwrap_or_default();
            aspects.push(Aspect { name: format!("NodePool {pool}"), state, text });
        }
        aspects
    }

    fn is_complete(&self, name: &str) -> bool {
        let has_pool = self.pools.iter().any(|pool| pool.spec.cluster_name == name);
        has_pool && self.aspects(name).iter().all(|aspect| aspect.state == State::Done)
    }

    /// What is otherwise than asked, though it works.
    fn note(&self) -> Option<String> {
        let status = self.cluster.as_ref()?.status.as_ref()?;
        let condition = find_condition(&status.conditions, HIGHLY_AVAILABLE)?;
        (condition.status == ConditionStatus::False).then(|| condition.message.clone())
    }
}

/// Standard error, drawn anew or written on.
struct View {
    is_terminal: bool,
    shown: Vec<Aspect>,
}

impl View {
    fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), shown: Vec::new() }
    }

    fn show(&mut self, aspects: &[Aspect]) {
        let mut text = String::new();
        if self.is_terminal {
            if !self.shown.is_empty() {
                // Up to the first line, and everything below it away.
                text.push_str(&format!("\x1b[{}A\x1b[J", self.shown.len()));
            }
            // A line of the picture is one line of the terminal, or it could not be drawn anew.
            let lines =
                aspects.iter().map(|aspect| aspect.line().trim_end().chars().take(WIDTH).collect::<String>());
            lines.for_each(|line| text.push_str(&(line + "\n")));
        } else {
            let changed = aspects.iter().filter(|aspect| !self.shown.contains(aspect));
            changed.for_each(|aspect| text.push_str(&aspect.line()));
        }
        self.shown = aspects.to_vec();
        let mut stderr = std::io::stderr();
        // Nobody is left to tell if standard error is gone.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

impl Aspect {
    fn line(&self) -> String {
        let mark = match self.state {
            State::Done => "done   ",
            State::Waiting => "waiting",
            State::Refused => "refused",
        };
        format!("{mark}  {:<24} {}\n", self.name, self.text.replace('\n', " "))
    }
}

#[cfg(test)]
mod tests;
