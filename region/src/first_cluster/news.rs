//! What wakes whoever waits for a resource: the region has the resource provider's records, and whatever becomes of a resource is
//! written there together with an operation on it.
//!
//! Only that something was written is taken from here. What the resource is by then is asked of the API, as anybody would.

use futures::Stream;
use futures::stream::unfold;
use pilothouse_arm::ResourceId;
use pilothouse_records::{Error, Followed, OperationFeed, Records};
use pilothouse_runtime::Policy;
use pilothouse_runtime::backoff::Delays;
use tokio::time::sleep;

/// The operations on one resource.
struct News {
    feed: OperationFeed,
    resource: ResourceId,
    delays: Delays,
}

/// Something for every moment at which a resource, or what it is in, may have become another, from now on.
///
/// # Errors
///
/// If the records cannot be read.
pub(super) async fn of(
    records: &Records,
    resource: ResourceId,
) -> Result<impl Stream<Item = ()> + use<>, Error> {
    let news = News { feed: records.operation_feed().await?, resource, delays: Policy::RECONNECT.delays() };
    Ok(unfold(news, async |mut news| {
        news.next().await;
        Some(((), news))
    }))
}

impl News {
    /// May be dropped while it waits; nothing is lost.
    async fn next(&mut self) {
        loop {
            match self.feed.next().await {
                Ok(Followed::Changed(operations)) => {
                    self.delays.reset();
                    let is_about_it =
                        |about: &ResourceId| self.resource == *about || self.resource.is_below(about);
                    if operations.iter().any(|operation| is_about_it(&operation.resource)) {
                        return;
                    }
                }
                Ok(Followed::Missed) => return,
                // Whoever waits looks by itself now and then, so there is nothing to say.
                Err(_) => sleep(self.delays.next().unwrap_or_default()).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::{FutureExt as _, StreamExt as _};
    use jiff::Timestamp;
    use pilothouse_arm::{OperationId, SubscriptionId};
    use pilothouse_records::{Operation, Request, catalog};
    use pilothouse_runtime::Shutdown;
    use pilothouse_store::{Location, Options, Store};
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn a_resource_is_told_of_by_the_operations_on_it_and_on_what_it_is_in() {
        let options = Options::new(Location::memory(), catalog().unwrap(), Shutdown::new());
        let records = Records::new(Store::open(options).await.unwrap());
        let subscription = SubscriptionId::new(Uuid::from_u128(1));
        let group = ResourceId::subscription(subscription).resource_group("first");
        let cluster = |name| group.provider(pilothouse_arm::PROVIDER, "hcpOpenShiftClusters", name);
        let (first, second) = (cluster("first"), cluster("second"));
        let pool = first.child("nodePools", "workers");
        let note = async |resource: &ResourceId| {
            let id = OperationId::new(Uuid::new_v4());
            let request = Request::Create;
            let operation = Operation::new(id, request, resource.clone(), "here", Timestamp::UNIX_EPOCH);
            records
                .change(subscription)
                .unwrap()
                .operation_create(&operation)
                .unwrap()
                .commit()
                .await
                .unwrap();
        };
        note(&pool).await;
        let mut news = pin!(of(&records, pool.clone()).await.unwrap());
        note(&second).await;
        note(&first.child("nodePools", "others")).await;
        assert_eq!(news.next().now_or_never(), None, "nothing of this is about it");
        for resource in [&pool, &first] {
            note(resource).await;
            assert_eq!(news.next().await, Some(()));
        }
    }
}
