//! Several requests at the same moment: one outcome, and never half of it.

use futures::future::join_all;
use rstest::rstest;
use serde_json::json;

use crate::support::{
    Engine, Rig, auth, auth_body, cluster, cluster_body, cluster_url, pool, pool_body, subscription,
    subscription_url, under_way,
};

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_cluster_from_many_is_made_once(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    let (url, body) = (cluster_url("First"), cluster_body("First"));
    let replies = join_all((0..16).map(|_| rig.put(&url, &body))).await;
    let links: std::collections::BTreeSet<_> =
        replies.iter().map(|reply| reply.header("azure-asyncoperation")).collect();
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
    assert!(replies.iter().all(|reply| matches!(reply.status, 200 | 201)));
    assert_eq!(links.len(), 1);
    assert_eq!(under_way(&rig).await, [("Create".to_owned(), 1)].into());
    rig.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_those_that_want_the_same_subnet_one_gets_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let body = cluster_body("shared");
    let urls: Vec<_> = (0..12).map(|number| cluster_url(&format!("c{number}"))).collect();
    let replies = join_all(urls.iter().map(|url| rig.put(url, &body))).await;
    let statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 400).count(), 11, "{statuses:?}");
    let listed = rig.records.cluster_list(subscription(), None, 99, None).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    rig.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_external_auth_and_one_last_node_pool_remain(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let auths: Vec<_> = (0..8).map(|number| auth(&format!("idp{number}"))).collect();
    let body = auth_body("https://idp.example");
    let replies = join_all(auths.iter().map(|url| rig.put(url, &body))).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
    assert!(replies.iter().all(|reply| matches!(reply.status, 201 | 400 | 429)));

    let pools: Vec<_> = (0..6).map(|number| pool(&format!("p{number}"))).collect();
    let body = pool_body(1);
    let replies = join_all(pools.iter().map(|url| rig.put(url, &body))).await;
    assert!(replies.iter().all(|reply| reply.status == 201), "pools do not get into each other's way");
    rig.succeed("First").await;
    let replies = join_all(pools.iter().map(|url| rig.delete(url))).await;
    let deleted = replies.iter().filter(|reply| reply.status == 202).count();
    assert!((1..=5).contains(&deleted), "{deleted} of 6 were deleted");
    rig.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_below_a_cluster_escapes_its_deletion(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    for _ in 0..5 {
        let Some(rig) = Rig::new(engine).await else { return };
        rig.made("First").await;
        let url = cluster_url("First");
        let pools: Vec<_> = (0..6).map(|number| pool(&format!("p{number}"))).collect();
        let body = pool_body(1);
        let (deleted, _) =
            tokio::join!(rig.delete(&url), join_all(pools.iter().map(|url| rig.put(url, &body))));
        assert!(matches!(deleted.status, 202 | 429), "{}", deleted.text);
        if deleted.status == 202 {
            let left = rig.records.node_pool_all(&cluster("First").parse().unwrap()).await.unwrap();
            let states: Vec<_> =
                left.iter().map(|pool| pool.resource.status.provisioning_state.to_string()).collect();
            assert!(states.iter().all(|state| state == "Deleting"), "{states:?}");
            assert_eq!(under_way(&rig).await, [("Delete".to_owned(), 1)].into());
        }
        rig.stop().await;
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_in_a_subscription_escapes_its_deletion(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    for _ in 0..5 {
        let Some(rig) = Rig::new(engine).await else { return };
        let names: Vec<_> = (0..8).map(|number| format!("c{number}")).collect();
        let requests: Vec<_> = names.iter().map(|name| (cluster_url(name), cluster_body(name))).collect();
        let deleted = json!({"state": "Deleted", "registrationDate": "now"});
        let url = subscription_url();
        let (told, created) = tokio::join!(
            rig.put(&url, &deleted),
            join_all(requests.iter().map(|(url, body)| rig.put(url, body)))
        );
        assert_eq!(told.status, 200, "{}", told.text);
        let made = created.iter().filter(|reply| reply.status == 201).count();
        assert!(created.iter().all(|reply| matches!(reply.status, 201 | 400)));
        let left = under_way(&rig).await;
        assert_eq!(left.get("Create"), None, "{left:?}");
        assert_eq!(left.get("Delete").copied().unwrap_or_default(), made, "{left:?}");
        rig.stop().await;
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_credential_escapes_a_revocation(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    for _ in 0..5 {
        let Some(rig) = Rig::new(engine).await else { return };
        rig.made("First").await;
        let action = |name: &str| format!("{}/{name}?api-version=2024-06-10-preview", cluster("First"));
        let (request, revoke) = (action("requestAdminCredential"), action("revokeCredentials"));
        let (revoked, _) = tokio::join!(rig.post(&revoke), join_all((0..6).map(|_| rig.post(&request))));
        assert!(matches!(revoked.status, 202 | 429), "{}", revoked.text);
        if revoked.status == 202 {
            assert_eq!(under_way(&rig).await, [("RevokeCredentials".to_owned(), 1)].into());
        }
        rig.stop().await;
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_changes_to_the_same_version_one_is_made(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let url = cluster_url("First");
    let etag = rig.get(&url).await.header("etag").to_owned();
    let bodies: Vec<_> = (0..8).map(|number| json!({"tags": {"number": number.to_string()}})).collect();
    let headers = [("if-match", etag.as_str())];
    let replies =
        join_all(bodies.iter().map(|body| rig.send_with(http::Method::PATCH, &url, &headers, Some(body))))
            .await;
    let statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 7, "{statuses:?}");
    rig.stop().await;
}
