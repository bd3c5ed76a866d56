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
    BreakGlassCredential, BreakGlassCredentialStatus, Change, Client, ClusterId, Error, ListQuery,
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
/// How much of its day a credential must have left to be given out again.
const GOOD_FOR: Duration = Duration::from_secs(12 * 3600);

impl HostedClusters {
    /// A kubeconfig that opens a cluster for half a day at least, and a day at most. A cluster that Clusters Service does not know
    /// has the one that its operator made.
    ///
    /// # Errors
    ///
    /// If there is no such cluster, if it does not answer yet, or if it has nothing signed.
    pub async fn short_lived_kubeconfig(
        &self,
        data_dir: &DataDir,
        name: &str,
    ) -> Result<String, HostedClustersError> {
        let cluster = self.find(name).await?;
        let id = cluster.labels().get(CLUSTER_ID).and_then(|id| id.parse::<ClusterId>().ok());
        let ready = cluster.status.as_ref().is_some_and(|status| status.kubeconfig.is_some());
        let Some(id) = id.filter(|_| ready) else { return self.kubeconfig(name).await };
        let refused = |problem| HostedClustersError::NotIssued { name: name.to_owned(), problem };
        let client = clusters_service(data_dir).map_err(refused)?;
        issued(&client, &id, &Clock::system()).await.map_err(refused)
    }
}

fn clusters_service(data_dir: &DataDir) -> Result<Client, String> {
    let text = fs::read(data_dir.endpoints_file()).map_err(|error| words(&error))?;
    let endpoints: Endpoints = serde_json::from_slice(&text).map_err(|error| words(&error))?;
    let address = Url::parse(&endpoints.clusters_service).map_err(|error| words(&error))?;
    let http = ClientBuilder::new(PATIENCE).build().map_err(|error| words(&error))?;
    Client::try_new(http, &address).map_err(|error| words(&error))
}

/// The kubeconfig of a credential that is good for a while: one that there is, or a new one.
async fn issued(client: &Client, cluster: &ClusterId, clock: &Clock) -> Result<String, String> {
    let context = Context::new(PATIENCE);
    let known = again(client, &context, cluster, clock).await.map_err(|error| words(&error))?;
    let found = match known {
        Some(known) => known,
        None => ask(client, &context, cluster).await?,
    };
    match (found.status, found.kubeconfig) {
        (BreakGlassCredentialStatus::Issued, Some(kubeconfig)) => Ok(kubeconfig.expose().to_owned()),
        (BreakGlassCredentialStatus::Created, _) => Err(format!("it takes too long; {}", found.message)),
        (status, _) => Err(format!("it is {status:?}: {}", found.message)),
    }
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
) -> Result<BreakGlassCredential, String> {
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
    let made = client.break_glass_create(context, cluster, &new).await.map_err(|error| words(&error))?;
    // Where it takes too long, the credential itself says what it waits for.
    let _ = timeout_at(deadline, decided(client, &made)).await;
    let context = Context::new(PATIENCE);
    client.break_glass_get(&context, cluster, &made.id).await.map_err(|error| words(&error))
}

/// Returns when a credential is no longer waited for.
async fn decided(client: &Client, made: &BreakGlassCredential) {
    let (mut delays, longest) = (Policy::RECONNECT.delays(), Policy::RECONNECT.cap());
    loop {
        // From the beginning, which tells also of what has happened since it was made.
        if let Ok(events) = client.watch(None).await {
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
        sleep(delays.next().unwrap_or(longest)).await;
    }
}

fn words(error: &(dyn std::error::Error + 'static)) -> String {
    Chain(error).to_string()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use pilothouse_clusters_service_api::simulated::{Mode, Simulated};
    use pilothouse_clusters_service_api::{Cluster, NewCluster};
    use serde_json::json;

    use super::*;

    fn cluster(service: &Simulated) -> Cluster {
        let new: NewCluster = serde_json::from_value(json!({
            "name": "first",
            "version": { "id": "openshift-v4.20.8", "channel_group": "stable" },
            "azure": { "subscription_id": "00000000-0000-0000-0000-000000000001", "resource_group_name": "first",
                       "resource_name": "first", "managed_resource_group_name": "managed" },
        }))
        .unwrap();
        service.make_cluster(new)
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
        assert_eq!(told.unwrap_err(), "it is Failed: the signer is away");
    }
}
