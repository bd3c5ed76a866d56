//! Giving up everything in a subscription that was deleted, however much it is.
//!
//! The subscription's own document says that it is to be done ([`Subscription::deletion_pending`]), so it is done even if
//! nobody asks again: the request that brought the news begins, cluster by cluster, each in a transaction of its own, and
//! goes on for a while; the task of this file does what is left, of this process's requests and of others'.
//!
//! [`Subscription::deletion_pending`]: pilothouse_records::Subscription::deletion_pending

use std::time::Duration;

use pilothouse_arm::{ProvisioningState, ResourceId, SubscriptionId};
use pilothouse_http::Context;
use pilothouse_records::{Cluster, Error, SubscriptionState};
use pilothouse_runtime::{Chain, Shutdown};
use tokio::time::Instant;
use tracing::{info, warn};
use uuid::Uuid;

use crate::accept::{self, ATTEMPTS, Asked, busy};
use crate::answer::Refusal;
use crate::cluster::Clusters;
use crate::resource::begin_deletion;
use crate::service::App;

/// How long a request takes part.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often somebody looks for what was left.
const PERIOD: Duration = Duration::from_secs(15);
/// How many clusters are looked at at once.
const CHUNK: usize = 50;

/// Does what it can while a request waits.
pub(crate) async fn while_asked(
    app: &App,
    subscription: SubscriptionId,
    context: &Context,
) -> Result<(), Refusal> {
    let correlation_id = context.correlation_id().unwrap_or_else(|| context.request_id()).to_owned();
    let client_request_id = context.client_request_id().map(str::to_owned);
    let asked = asked(app, correlation_id, client_request_id);
    sweep(app, subscription, &asked, Some(Instant::now() + PATIENCE)).await
}

/// Looks for what was left, now and then, and does it.
pub(crate) async fn run(app: App, ending: &Shutdown) {
    let work = async {
        loop {
            if let Err(refusal) = pass(&app).await {
                warn!(error = %Chain(&refusal), "deleted subscriptions could not be looked for");
            }
            tokio::time::sleep(PERIOD).await;
        }
    };
    // What is cut off between two transactions is found by whoever looks next.
    tokio::select! {
        () = ending.requested() => {}
        () = work => {}
    }
}

async fn pass(app: &App) -> Result<(), Refusal> {
    for subscription in app.records.subscription_deletion_pending().await? {
        let asked = asked(app, Uuid::new_v4().to_string(), None);
        // The others do not wait for this one.
        if let Err(refusal) = sweep(app, subscription, &asked, None).await {
            warn!(%subscription, error = %Chain(&refusal), "a deleted subscription could not be given up yet");
        }
    }
    Ok(())
}

fn asked(app: &App, correlation_id: String, client_request_id: Option<String>) -> Asked {
    Asked {
        received_at: app.clock.now(),
        correlation_id,
        client_request_id,
        // Nobody's: whoever could ask is gone with the subscription.
        tenant_id: None,
        client_id: None,
        notification: None,
        routed: "follows from the deletion of the subscription".to_owned(),
        known_by: "told by whoever deleted the subscription".to_owned(),
    }
}

async fn sweep(
    app: &App,
    subscription: SubscriptionId,
    asked: &Asked,
    until: Option<Instant>,
) -> Result<(), Refusal> {
    let mut token: Option<String> = None;
    let mut failed = false;
    loop {
        // ARM may have changed its mind.
        let told = app.records.subscription_get(subscription).await?;
        let still = |state| state == SubscriptionState::Deleted;
        let Some(mut told) = told.filter(|told| still(told.state) && told.deletion_pending) else {
            return Ok(());
        };
        let listed = match app.records.cluster_list(subscription, None, CHUNK, token.as_deref()).await {
            // It took so long that the list is not kept any more; what was done is skipped quickly.
            Err(Error::Continuation(_)) if token.is_some() => {
                token = None;
                continue;
            }
            listed => listed?,
        };
        for stored in &listed.items {
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(());
            }
            if is_standing(stored)
                && let Err(refusal) = give_up(app, &stored.resource.id, asked).await
            {
                // The others do not wait for this one.
                failed = true;
                let (cluster, error) = (&stored.resource.id, Chain(&refusal));
                warn!(%cluster, %error, "a cluster of a deleted subscription could not be given up yet");
            }
        }
        token = listed.next;
        if token.is_none() && failed {
            // The mark stays, and whoever looks next tries again.
            return Ok(());
        }
        if token.is_none() {
            told.deletion_pending = false;
            match app.records.subscription_replace(subscription, &told).await {
                Ok(()) => info!(%subscription, "everything in a deleted subscription is being deleted"),
                // Somebody else is as far, or ARM said something new.
                Err(Error::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
            return Ok(());
        }
    }
}

/// Whether something in a subscription is not on its way out: one whose deletion failed, say.
pub(crate) async fn is_left(app: &App, subscription: SubscriptionId) -> Result<bool, Refusal> {
    let mut token: Option<String> = None;
    loop {
        let listed = app.records.cluster_list(subscription, None, CHUNK, token.as_deref()).await?;
        if listed.items.iter().any(|stored| is_standing(stored)) {
            return Ok(true);
        }
        token = listed.next;
        if token.is_none() {
            return Ok(false);
        }
    }
}

fn is_standing(cluster: &Cluster) -> bool {
    cluster.resource.status.provisioning_state != ProvisioningState::Deleting
}

async fn give_up(app: &App, id: &ResourceId, asked: &Asked) -> Result<(), Refusal> {
    for _ in 0..ATTEMPTS {
        let Some(stored) = app.records.cluster_get(id).await? else { return Ok(()) };
        if !is_standing(&stored) {
            return Ok(());
        }
        match begin_deletion::<Clusters>(app, asked, accept::new_id(), stored).await {
            Err(Refusal::Records(Error::Conflict(_))) => {}
            done => return done,
        }
    }
    Err(busy(id))
}
