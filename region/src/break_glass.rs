//! A way into a hosted cluster that is good for a day, by the road that everybody goes: Clusters Service has it signed.
//!
//! Whoever asks again is given the same one, for as long as that is good for a while: Clusters Service keeps its key, and only so
//! many of a cluster may be good at once.

use std::fs;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use kube::ResourceExt as _;
use pilothouse_clusters_service_api::{
    BreakGlassCredential, BreakGlassCredentialStatus, Change, Client, Cluster, ClusterId, Error, ListQuery,
    NewBreakGlassCredential, properties,
};
use pilothouse_http::{ClientBuilder, Context};
use pilothouse_runtime::{Chain, Clock, Policy};
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;
use uuid::Uuid;

use crate::data_dir::DataDir;
use crate::endpoints::Endpoints;
use crate::hosted_clusters::{HostedClusters, HostedClustersError};

/// On every `HostedCluster` that Clusters Service made: its own id of the cluster.
const CLUSTER_ID: &str = "api.openshift.com/id";
/// How long it may take. It is over in less than a second.
const PATIENCE: Duration = Duration::from_secs(120);
/// The property of a credential that was asked for here, and its value. Others may have told theirs to nobody.
const ASKED_BY: (&str, &str) = ("asked_by", "pilothouse-kubeconfig");
/// How many clusters are named where there is none of the name.
const OTHERS: u32 = 20;
/// How much of its day a credential must have left to be given out again.
const GOOD_FOR: Duration = Duration::from_secs(12 * 3600);

/// Ways into the clusters of a Clusters Service, wherever that is.
pub struct BreakGlass {
    client: Client,
    clock: Clock,
    /// Where to say, once, that it is waited for.
    tell: fn(&str),
}

impl HostedClusters {
    /// A kubeconfig that opens a cluster for half a day at least, and a day at most. A cluster that Clusters Service does not know
    /// has the one that its operator made. `tell` is told when it takes longer because Clusters Service is away.
    ///
    /// # Errors
    ///
    /// If there is no such cluster, if it does not answer yet, or if it has nothing signed.
    pub async fn short_lived_kubeconfig(
        &self,
        data_dir: &DataDir,
        name: &str,
        tell: fn(&str),
    ) -> Result<String, HostedClustersError> {
        let cluster = self.find(name).await?;
        let id = cluster.labels().get(CLUSTER_ID).and_then(|id| id.parse::<ClusterId>().ok());
        let ready = cluster.status.as_ref().is_some_and(|status| status.kubeconfig.is_some());
        let Some(id) = id.filter(|_| ready) else { return self.kubeconfig(name).await };
        BreakGlass::of_region(data_dir, tell)?.issued(name, &id).await
    }
}

impl BreakGlass {
    /// Those of the Clusters Service at an address. `tell` is told when it takes longer because that is away.
    ///
    /// # Errors
    ///
    /// If the address is none that it could have.
    pub fn try_new(
        http: pilothouse_http::Client,
        address: &Url,
        tell: fn(&str),
    ) -> Result<Self, HostedClustersError> {
        let client = Client::try_new(http, address).map_err(unanswered)?;
        Ok(Self { client, clock: Clock::system(), tell })
    }

    /// Those of the region in this folder.
    fn of_region(data_dir: &DataDir, tell: fn(&str)) -> Result<Self, HostedClustersError> {
        let file = data_dir.endpoints_file();
        let not_running = |error: &(dyn std::error::Error + 'static)| HostedClustersError::NotRunning {
            file: file.clone(),
            problem: Chain(error).to_string(),
        };
        let text = fs::read(&file).map_err(|error| not_running(&error))?;
        let endpoints: Endpoints = serde_json::from_slice(&text).map_err(|error| not_running(&error))?;
        let address = Url::parse(&endpoints.clusters_service).map_err(|error| not_running(&error))?;
        let http = ClientBuilder::new(PATIENCE).build().map_err(|error| not_running(&error))?;
        Self::try_new(http, &address, tell)
    }

    /// A kubeconfig that opens a cluster for half a day at least, and a day at most; the cluster by its DNS prefix, or its name
    /// in the API if there is one of it.
    ///
    /// # Errors
    ///
    /// If there is no such cluster, or it has nothing signed.
    pub async fn kubeconfig(&self, name: &str) -> Result<String, HostedClustersError> {
        let id = self.find(name).await?.id;
        self.issued(name, &id).await
    }

    async fn find(&self, name: &str) -> Result<Cluster, HostedClustersError> {
        let quoted = name.replace('\'', "''");
        // A prefix belongs to one cluster, a name to one of its resource group.
        for field in ["domain_prefix", "azure.resource_name"] {
            let mut found = self.search(ListQuery::search(format!("{field} = '{quoted}'"))).await?;
            match found.len() {
                0 => {}
                1 => return Ok(found.remove(0)),
                _ => {
                    let prefixes = found.into_iter().map(|cluster| cluster.domain_prefix).collect();
                    return Err(HostedClustersError::Ambiguous { name: name.to_owned(), prefixes });
                }
            }
        }
        let others = self.search(ListQuery { size: Some(OTHERS), ..ListQuery::default() }).await?;
        let others = others.into_iter().map(|cluster| cluster.domain_prefix).collect();
        Err(HostedClustersError::Unknown { name: name.to_owned(), others })
    }

    async fn search(&self, query: ListQuery) -> Result<Vec<Cluster>, HostedClustersError> {
        let found = self.client.cluster_list(&Context::new(PATIENCE), &query).await;
        Ok(found.map_err(unanswered)?.items)
    }

    /// The kubeconfig of a credential that is good for a while: one that there is, or a new one.
    async fn issued(&self, name: &str, cluster: &ClusterId) -> Result<String, HostedClustersError> {
        let Self { client, clock, tell } = self;
        let context = Context::new(PATIENCE);
        let name = || name.to_owned();
        let failed = |error: Error| match error {
            Error::Refused(_) => HostedClustersError::Refused { name: name(), source: Box::new(error) },
            _ => unanswered(error),
        };
        let known = again(client, &context, cluster, clock).await.map_err(failed)?;
        let found = match known {
            Some(known) => known,
            None => ask(client, &context, cluster, *tell).await.map_err(failed)?,
        };
        match (found.status, found.kubeconfig) {
            (BreakGlassCredentialStatus::Issued, Some(kubeconfig)) => Ok(kubeconfig.expose().to_owned()),
            (BreakGlassCredentialStatus::Created, _) => {
                Err(HostedClustersError::TooLong { name: name(), waits: found.message })
            }
            (status, _) => {
                let problem = format!("it is {status:?}: {}", found.message);
                Err(HostedClustersError::NotIssued { name: name(), problem })
            }
        }
    }
}

fn unanswered(error: Error) -> HostedClustersError {
    HostedClustersError::Unanswered { source: Box::new(error) }
}

/// The one of those asked for here that is good for longest, if that is long enough.
async fn again(
    client: &Client,
    context: &Context,
    cluster: &ClusterId,
    clock: &Clock,
) -> Result<Option<BreakGlassCredential>, Error> {
    // All of them are on one page: not more may be good at once.
    let all = client.break_glass_list(context, cluster, &ListQuery::search("status = 'issued'")).await?;
    let ours = |known: &BreakGlassCredential| {
        known.properties.get(ASKED_BY.0).is_some_and(|value| value == ASKED_BY.1)
    };
    let left = |known: &BreakGlassCredential| known.expiration_timestamp.map(|end| clock.until(end));
    let good = all.items.into_iter().filter(|known| ours(known) && left(known) >= Some(GOOD_FOR));
    let Some(known) = good.max_by_key(left) else { return Ok(None) };
    let known = client.break_glass_get(context, cluster, &known.id).await?;
    // All may have been revoked in between.
    Ok(Some(known).filter(|known| known.kubeconfig.is_some()))
}

/// Has one made, and waits until that is decided, or for too long.
async fn ask(
    client: &Client,
    context: &Context,
    cluster: &ClusterId,
    tell: fn(&str),
) -> Result<BreakGlassCredential, Error> {
    let new = NewBreakGlassCredential {
        properties: [
            (ASKED_BY.0.to_owned(), ASKED_BY.1.to_owned()),
            // The call is sent again where nobody knows what became of it.
            (properties::OPERATION_ID.to_owned(), Uuid::new_v4().to_string()),
        ]
        .into(),
        ..NewBreakGlassCredential::default()
    };
    let deadline = Instant::now() + PATIENCE;
    let made = client.break_glass_create(context, cluster, &new).await?;
    // Where it takes too long, the credential itself says what it waits for.
    let _ = timeout_at(deadline, decided(client, &made, tell)).await;
    let context = Context::new(PATIENCE);
    client.break_glass_get(&context, cluster, &made.id).await
}

/// Returns when a credential is no longer waited for.
async fn decided(client: &Client, made: &BreakGlassCredential, tell: fn(&str)) {
    let (mut delays, longest) = (Policy::RECONNECT.delays(), Policy::RECONNECT.cap());
    let mut was_told = false;
    loop {
        // From the beginning, which tells also of what has happened since it was made.
        match client.watch_cluster(&made.cluster_id, None).await {
            Ok(events) => {
                let mut events = pin!(events);
                while let Some(Ok(event)) = events.next().await {
                    if let Change::BreakGlassCredential(_, told) = event.change
                        && told.id == made.id
                        && told.status != BreakGlassCredentialStatus::Created
                    {
                        return;
                    }
                }
            }
            Err(error) if !was_told => {
                was_told = true;
                tell(&format!("{}; waiting for it, {} s at most", Chain(&error), PATIENCE.as_secs()));
            }
            Err(_) => {}
        }
        sleep(delays.next().unwrap_or(longest)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Method;
    use pilothouse_clusters_service_api::NewCluster;
    use pilothouse_clusters_service_api::simulated::{Fault, Mode, Simulated};
    use serde_json::json;

    use super::*;

    fn cluster(service: &Simulated) -> Cluster {
        named(service, "first", "first", None)
    }

    /// One of a resource group, by its name there, with a DNS prefix that it need not have of itself.
    fn named(service: &Simulated, group: &str, name: &str, prefix: Option<&str>) -> Cluster {
        let new: NewCluster = serde_json::from_value(json!({
            "name": name.to_lowercase(),
            "domain_prefix": prefix,
            "version": { "id": "openshift-v4.20.8", "channel_group": "stable" },
            "azure": { "subscription_id": "00000000-0000-0000-0000-000000000001", "resource_group_name": group,
                       "resource_name": name, "managed_resource_group_name": format!("managed-{group}-{name}") },
        }))
        .unwrap();
        service.make_cluster(new)
    }

    fn silent(_: &str) {}

    fn way_in(service: &Simulated) -> BreakGlass {
        BreakGlass { client: service.client(), clock: Clock::system(), tell: silent }
    }

    async fn issued(
        client: &Client,
        cluster: &ClusterId,
        clock: &Clock,
    ) -> Result<String, HostedClustersError> {
        let way_in = BreakGlass { client: client.clone(), clock: clock.clone(), tell: silent };
        way_in.issued("first", cluster).await
    }

    #[tokio::test]
    async fn a_cluster_is_found_by_its_prefix_and_by_its_name_where_that_is_one() {
        let service = Simulated::start(Mode::Automatic).await;
        let way_in = way_in(&service);
        let first = named(&service, "one", "First", Some("prefixed"));
        named(&service, "one", "twin", Some("twin-one"));
        let other = named(&service, "two", "twin", Some("twin-two"));
        for name in ["prefixed", "First"] {
            assert_eq!(way_in.find(name).await.unwrap().id, first.id, "{name}");
        }
        assert_eq!(way_in.find("twin-two").await.unwrap().id, other.id);
        let told = way_in.find("twin").await.unwrap_err();
        assert!(
            matches!(&told, HostedClustersError::Ambiguous { prefixes, .. } if prefixes.len() == 2),
            "{told}"
        );
        let told = way_in.find("o'hara").await.unwrap_err().to_string();
        assert_eq!(told, "there is no cluster `o'hara`; there are: prefixed, twin-one, twin-two");
    }

    #[tokio::test]
    async fn whoever_waits_for_one_cluster_is_told_nothing_of_all_others() {
        let service = Simulated::start(Mode::Automatic).await;
        let (client, cluster) = (service.client(), cluster(&service));
        for number in 0..20 {
            named(&service, "others", &format!("other-{number}"), None);
        }
        issued(&client, &cluster.id, &Clock::system()).await.unwrap();
        let told = service.lines_told();
        assert!(told <= 3, "{told} lines: the cluster, its credential, and where that stands");
    }

    #[tokio::test]
    async fn that_nobody_tells_what_is_waited_for_is_said_once() {
        static SAID: AtomicUsize = AtomicUsize::new(0);
        let service = Simulated::start(Mode::Automatic).await;
        let cluster = cluster(&service);
        let fault = Fault::Refuse { status: 400, target: None, message: "not now" };
        service.inject_times(2, fault, |call| call.path == "/events");
        let tell = |news: &str| {
            assert!(news.contains("not now; waiting for it, 120 s at most"), "{news}");
            SAID.fetch_add(1, Ordering::Relaxed);
        };
        let way_in = BreakGlass { tell, ..way_in(&service) };
        way_in.issued("first", &cluster.id).await.unwrap();
        assert_eq!(SAID.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_service_that_is_not_there_is_told_apart_from_one_that_refuses() {
        let service = Simulated::start(Mode::Automatic).await;
        let (way_in, cluster) = (way_in(&service), cluster(&service));
        let refusal = Fault::Refuse { status: 409, target: None, message: "they are being revoked" };
        service.inject_times(1, refusal, |call| call.method == Method::POST);
        let told = way_in.issued("first", &cluster.id).await.unwrap_err();
        assert!(matches!(told, HostedClustersError::Refused { .. }), "{told:?}");
        let http = ClientBuilder::new(Duration::from_millis(100)).build().unwrap();
        let nowhere = "http://127.0.0.1:1".parse().unwrap();
        let told =
            BreakGlass::try_new(http, &nowhere, silent).unwrap().kubeconfig("first").await.unwrap_err();
        assert!(matches!(told, HostedClustersError::Unanswered { .. }), "{told:?}");
    }

    #[tokio::test]
    async fn one_that_is_good_for_a_while_is_given_out_again_until_it_is_revoked() {
        let (clock, time) = Clock::manual(Clock::system().now());
        let service = Simulated::start_with(Mode::Automatic, clock.clone()).await;
        let (client, cluster) = (service.client(), cluster(&service));
        // Somebody else's is theirs.
        let context = Context::new(PATIENCE);
        client.break_glass_create(&context, &cluster.id, &NewBreakGlassCredential::default()).await.unwrap();
        let first = issued(&client, &cluster.id, &clock).await.unwrap();
        assert!(first.contains("client-key-data"), "{first}");
        time.advance(Duration::from_secs(11 * 3600));
        assert_eq!(issued(&client, &cluster.id, &clock).await.unwrap(), first);
        assert_eq!(service.credentials().len(), 2);
        time.advance(Duration::from_secs(2 * 3600));
        let second = issued(&client, &cluster.id, &clock).await.unwrap();
        assert_ne!(second, first);
        assert_eq!(issued(&client, &cluster.id, &clock).await.unwrap(), second);
        client.break_glass_revoke_all(&context, &cluster.id).await.unwrap();
        assert_ne!(issued(&client, &cluster.id, &clock).await.unwrap(), second);
        assert_eq!(service.credentials().len(), 4);
    }

    #[tokio::test]
    async fn whoever_waits_is_told_and_asks_once() {
        let service = Simulated::start(Mode::Automatic).await;
        let (client, cluster) = (service.client(), cluster(&service));
        service.set_mode(Mode::Explicit);
        let signer = async {
            let mut events = pin!(client.watch(None).await.unwrap());
            let made = loop {
                if let Change::BreakGlassCredential(_, made) = events.next().await.unwrap().unwrap().change {
                    break made;
                }
            };
            // Whoever does not wait has looked by then, and found nothing.
            for _ in 0..10 {
                client.cluster_get(&Context::new(PATIENCE), &cluster.id).await.unwrap();
            }
            service.finish(&*made);
            made
        };
        let clock = Clock::system();
        let (kubeconfig, made) = tokio::join!(issued(&client, &cluster.id, &clock), signer);
        kubeconfig.unwrap();
        let path = format!("/clusters/{}/break_glass_credentials/{}", cluster.id, made.id);
        let asked =
            service.calls().into_iter().filter(|call| call.method == Method::GET && call.path == path);
        assert_eq!(asked.count(), 1);
    }

    #[tokio::test]
    async fn one_that_failed_says_why() {
        let service = Simulated::start(Mode::Automatic).await;
        let (client, cluster) = (service.client(), cluster(&service));
        service.set_mode(Mode::Explicit);
        let refuser = async {
            let mut events = pin!(client.watch(None).await.unwrap());
            loop {
                if let Change::BreakGlassCredential(_, made) = events.next().await.unwrap().unwrap().change {
                    return service.fail(&*made, "", "the signer is away");
                }
            }
        };
        let clock = Clock::system();
        let (told, ()) = tokio::join!(issued(&client, &cluster.id, &clock), refuser);
        assert_eq!(
            told.unwrap_err().to_string(),
            "cluster `first` gives no credential: it is Failed: the signer is away"
        );
    }
}
