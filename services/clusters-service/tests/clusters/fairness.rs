//! One customer's trouble is not everybody's.

use pilothouse_clusters_service_api::{Azure, NewCluster};
use pilothouse_test_support::eventually;

use crate::support::{PATIENCE, World, new_cluster};

const MANY: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_whose_cloud_hangs_holds_up_no_other() {
    let world = World::new().await;
    let service = world.start_with(|config| config.concurrency = 4).await;
    let theirs = new_cluster("theirs").azure.subscription_id;
    world.cloud.hang(&format!("/subscriptions/{theirs}/"));
    for number in 0..MANY {
        service.create(&new_cluster(&format!("theirs-{number}"))).await;
    }
    eventually("the cloud is asked, and hangs", PATIENCE, || async {
        if world.cloud.is_holding() { Ok(()) } else { Err("nobody asked") }
    })
    .await;
    let ours = new_cluster("ours");
    let subscription_id = "22222222-2222-3333-4444-555555555555".to_owned();
    let ours = NewCluster { azure: Azure { subscription_id, ..ours.azure.clone() }, ..ours };
    let cluster = service.create(&ours).await;
    service.until_it_says(&cluster.id, "step 7").await;
}
