//! Following all clusters and node pools.

use std::collections::BTreeSet;
use std::pin::Pin;

use futures::{Stream, StreamExt as _};
use pilothouse_clusters_service_api::{Change, ClusterState, Cursor, Error, Event};

use crate::support::{PATIENCE, World, context, new_cluster, new_node_pool};

type Events = Pin<Box<dyn Stream<Item = Result<Event, Error>> + Send>>;

async fn next(events: &mut Events) -> Event {
    let event = tokio::time::timeout(PATIENCE, events.next()).await.unwrap();
    event.expect("the watch goes on").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_begins_with_everything_and_goes_on_with_every_change() {
    let world = World::new().await;
    let service = world.start().await;
    let first = service.create(&new_cluster("first")).await;
    service.client.node_pool_create(&context(), &first.id, &new_node_pool("workers")).await.unwrap();

    let mut events: Events = Box::pin(service.client.watch(None).await.unwrap());
    let mut told = BTreeSet::new();
    let bookmark = loop {
        let event = next(&mut events).await;
        match &event.change {
            Change::Cluster(cluster) => drop(told.insert(cluster.name.clone())),
            Change::NodePool(node_pool) => drop(told.insert(node_pool.id.to_string())),
            Change::Bookmark => break event.cursor.unwrap(),
            other => panic!("{other:?}"),
        }
        assert_eq!(event.cursor, None, "half of everything is nothing to come back to");
    };
    assert_eq!(told, BTreeSet::from(["first".to_owned(), "workers".to_owned()]));

    let second = service.create(&new_cluster("second")).await;
    loop {
        let event = next(&mut events).await;
        assert_ne!(event.cursor, None);
        assert_ne!(event.cursor.as_ref(), Some(&bookmark).filter(|_| event.change == Change::Bookmark));
        if matches!(&event.change, Change::Cluster(cluster) if cluster.id == second.id) {
            break;
        }
    }
    world.maestro.play_agent();
    service.client.cluster_delete(&context(), &second.id).await.unwrap();
    loop {
        match next(&mut events).await.change {
            Change::ClusterDeleted(id) if id == second.id => break,
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_one_cluster_tells_nothing_of_others() {
    let world = World::new().await;
    let service = world.start().await;
    let mut clusters = Vec::new();
    for name in ["first", "second", "third"] {
        let cluster = service.create(&new_cluster(name)).await;
        service.client.node_pool_create(&context(), &cluster.id, &new_node_pool("workers")).await.unwrap();
        service.until_it_says(&cluster.id, "step 7").await;
        clusters.push(cluster);
    }
    let [first, second, _] = clusters.as_slice() else { unreachable!() };
    let mut events: Events = Box::pin(service.client.watch_cluster(&second.id, None).await.unwrap());
    let mut told = Vec::new();
    let bookmark = loop {
        let event = next(&mut events).await;
        if event.change == Change::Bookmark {
            break event.cursor.unwrap();
        }
        told.push(event);
    };
    assert_eq!(told.len(), 2, "the cluster and its node pool: {told:?}");
    assert!(told.iter().all(|event| event.cluster_id() == Some(&second.id)), "{told:?}");

    // What happens first to another one is not told, here or to whoever comes back.
    service.client.cluster_delete(&context(), &first.id).await.unwrap();
    service.client.node_pool_create(&context(), &second.id, &new_node_pool("more")).await.unwrap();
    let again = service.client.watch_cluster(&second.id, Some(&bookmark)).await.unwrap();
    for mut events in [events, Box::pin(again)] {
        loop {
            let event = next(&mut events).await;
            assert_eq!(event.cluster_id(), Some(&second.id), "{event:?}");
            if matches!(&event.change, Change::NodePool(pool) if pool.id.as_str() == "more") {
                break;
            }
        }
    }

    let nobody = "0123456789abcdefghijklmnopqrstuv".parse().unwrap();
    let mut events: Events = Box::pin(service.client.watch_cluster(&nobody, None).await.unwrap());
    assert_eq!(next(&mut events).await.change, Change::Bookmark);
    let path = "/api/clusters_mgmt/v1/events?cluster=NOT%20ONE";
    let (status, body) = service.call("GET", path, &serde_json::Value::Null).await;
    assert_eq!(status, 400, "{body}");
}

/// Follows one cluster's life with a watch that breaks after every event, and compares with one that does not.
#[tokio::test(flavor = "multi_thread")]
async fn coming_back_with_a_cursor_misses_nothing_even_across_a_restart() {
    let world = World::new().await;
    world.maestro.play_agent();
    let mut service = world.start().await;
    let mut events: Events = Box::pin(service.client.watch(None).await.unwrap());
    let beginning: Cursor = next(&mut events).await.cursor.unwrap();

    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await;
    let mut seen = Vec::new();
    let mut cursor = beginning.clone();
    loop {
        let mut events: Events = Box::pin(service.client.watch(Some(&cursor)).await.unwrap());
        let event = next(&mut events).await;
        cursor = event.cursor.clone().unwrap();
        let Change::Cluster(found) = &event.change else { panic!("{event:?}") };
        let ready = found.state == ClusterState::Ready;
        seen.push(event);
        if ready {
            break;
        }
    }
    service.kill();
    service = world.start().await;
    let mut events: Events = Box::pin(service.client.watch(Some(&beginning)).await.unwrap());
    let mut again = Vec::new();
    for _ in 0..seen.len() {
        again.push(next(&mut events).await);
    }
    assert_eq!(again, seen);
    let states: Vec<_> = seen
        .iter()
        .map(|event| match &event.change {
            Change::Cluster(cluster) => cluster.state,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(states.first(), Some(&ClusterState::Validating));
    assert_eq!(states.last(), Some(&ClusterState::Ready));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_is_too_old_or_none_at_all_is_refused() {
    let world = World::new().await;
    let service = world.start().await;
    service.create(&new_cluster("first")).await;
    let beginning = Cursor::from_text("r0");
    let revision = world.store.revision().await.unwrap();
    world.store.compact(revision).await.unwrap();
    let gone = service.client.watch(Some(&beginning)).await.err().unwrap();
    assert!(gone.is_gone(), "{gone:?}");
    let invalid = service.client.watch(Some(&Cursor::from_text("yesterday"))).await.err().unwrap();
    assert!(invalid.is_invalid(), "{invalid:?}");
}
