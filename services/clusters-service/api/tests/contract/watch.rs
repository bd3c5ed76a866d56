use futures::{Stream, StreamExt as _};
use pilothouse_clusters_service_api::simulated::{Mode, Simulated};
use pilothouse_clusters_service_api::{Change, ClusterState, Cursor, Error, Event, NewNodePool};

use crate::support::{PATIENCE, asked_by, context, new_cluster};

async fn next(events: &mut (impl Stream<Item = Result<Event, Error>> + Unpin)) -> Event {
    tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap()
}

fn words(change: &Change) -> String {
    match change {
        Change::Cluster(cluster) => format!("cluster {:?}", cluster.state),
        Change::ClusterDeleted(_) => "cluster gone".to_owned(),
        Change::NodePool(pool) => format!("pool {:?}", pool.status.state.value),
        Change::NodePoolDeleted(..) => "pool gone".to_owned(),
        Change::Bookmark => "bookmark".to_owned(),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_watch_tells_what_is_there_then_what_happens_and_goes_on_from_a_cursor() {
    let service = Simulated::start(Mode::Automatic).await;
    let client = service.client();
    let cluster = client.cluster_create(&context(), &new_cluster("first")).await.unwrap();
    let mut events = Box::pin(client.watch(None).await.unwrap());
    let first = next(&mut events).await;
    assert_eq!((words(&first.change).as_str(), first.cursor), ("cluster Ready", None));
    let bookmark = next(&mut events).await;
    assert_eq!(bookmark.change, Change::Bookmark);

    let new = NewNodePool { properties: asked_by("pool"), ..NewNodePool::new("workers".parse().unwrap()) };
    client.node_pool_create(&context(), &cluster.id, &new).await.unwrap();
    client.cluster_delete(&context(), &cluster.id).await.unwrap();
    let expected = [
        "pool Validating",
        "pool Pending",
        "pool Installing",
        "pool Ready",
        "cluster Uninstalling",
        "pool gone",
        "cluster gone",
    ];
    let mut cursors = Vec::new();
    for expected in expected {
        let event = next(&mut events).await;
        assert_eq!(words(&event.change), expected);
        cursors.push(event.cursor.unwrap());
    }
    let mut resumed = Box::pin(client.watch(Some(&cursors[4])).await.unwrap());
    assert_eq!(words(&next(&mut resumed).await.change), "pool gone");
    service.cut_watches();
    while let Some(event) = tokio::time::timeout(PATIENCE, resumed.next()).await.unwrap() {
        assert_eq!(words(&event.unwrap().change), "cluster gone");
    }
}

#[tokio::test]
async fn a_cursor_that_was_forgotten_is_told_to_be_too_old() {
    let service = Simulated::start(Mode::Explicit).await;
    let client = service.client();
    let mut events = Box::pin(client.watch(None).await.unwrap());
    let cursor = next(&mut events).await.cursor.unwrap();
    let cluster = client.cluster_create(&context(), &new_cluster("first")).await.unwrap();
    assert!(client.watch(Some(&cursor)).await.is_ok());
    service.forget_history();
    assert!(client.watch(Some(&cursor)).await.err().unwrap().is_gone());
    assert!(client.watch(Some(&Cursor::from_text("nonsense"))).await.err().unwrap().is_invalid());
    service.change_cluster(&cluster.id, |cluster| cluster.status.state = ClusterState::Installing);
    let mut events = Box::pin(client.watch(None).await.unwrap());
    assert_eq!(words(&next(&mut events).await.change), "cluster Installing");
}
