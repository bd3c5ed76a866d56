//! Links lead below the base that was asked.

use pilothouse_clusters_service_api::{BASES, NewBreakGlassCredential};
use pilothouse_http::ClientBuilder;
use serde_json::{Value, json};

use crate::support::{PATIENCE, World, context, new_cluster, new_node_pool};

/// All links in an answer, wherever they are.
fn links(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str() {
                    Some(text) if name == "href" => found.push(text.to_owned()),
                    _ => links(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| links(item, found)),
        _ => {}
    }
}

fn all_below(base: &str, answer: &Value) {
    let mut found = Vec::new();
    links(answer, &mut found);
    assert!(!found.is_empty(), "{answer}");
    assert!(found.iter().all(|link| link.starts_with(&format!("{base}/"))), "{base}: {found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_below_the_base_that_was_asked_and_lead_to_what_they_name() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    let id = &cluster.id;
    service.client.node_pool_create(&context(), id, &new_node_pool("workers")).await.unwrap();
    for base in BASES {
        for path in [
            "/clusters".to_owned(),
            format!("/clusters/{id}"),
            format!("/clusters/{id}/node_pools"),
            format!("/clusters/{id}/node_pools/workers"),
            format!("/clusters/{id}/inflight_checks"),
            format!("/clusters/{id}/autoscaler"),
            format!("/clusters/{id}/provision_shard"),
            "/versions/openshift-v4.20.8".to_owned(),
            "/nothing".to_owned(),
            "/clusters/none".to_owned(),
        ] {
            let (status, answer) = service.call("GET", &format!("{base}{path}"), &Value::Null).await;
            all_below(base, &answer);
            if status == 200 {
                let mut found = Vec::new();
                links(&answer, &mut found);
                for link in found {
                    assert_eq!(service.call("GET", &link, &Value::Null).await.0, 200, "{link} of {path}");
                }
            }
        }
        let new = json!({"id": "more", "replicas": 1});
        let path = format!("{base}/clusters/{id}/node_pools?dryRun=true");
        let (status, tried) = service.call("POST", &path, &new).await;
        assert_eq!(status, 200);
        all_below(base, &tried);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_has_links_below_the_base_that_was_asked_but_for_credentials_which_only_one_has() {
    let world = World::new().await;
    let service = world.start().await;
    world.maestro.play_agent();
    let cluster = service.create(&new_cluster("first")).await;
    let ready = pilothouse_clusters_service_api::ClusterState::Ready;
    service.until(&cluster.id, ready).await;
    service
        .client
        .break_glass_create(&context(), &cluster.id, &NewBreakGlassCredential::default())
        .await
        .unwrap();
    let http = ClientBuilder::new(PATIENCE).build().unwrap();
    let url = format!("http://{}{}/events", service.address, BASES[1]).parse().unwrap();
    let mut response = http.call("GET".parse().unwrap(), url).streaming().send().await.unwrap();
    let lines = async_lines(&mut response).await;
    let mut found = Vec::new();
    for line in &lines {
        links(line, &mut found);
    }
    assert!(found.contains(&format!("{}/clusters/{}", BASES[1], cluster.id)), "{found:?}");
    let credentials: Vec<_> = found.iter().filter(|link| link.contains("break_glass")).collect();
    assert!(
        !credentials.is_empty() && credentials.iter().all(|link| link.starts_with(BASES[0])),
        "{found:?}"
    );
}

/// What comes up to the first bookmark.
async fn async_lines(response: &mut pilothouse_http::Response) -> Vec<Value> {
    let mut text = String::new();
    while !text.to_lowercase().contains("bookmark") {
        let chunk = tokio::time::timeout(PATIENCE, response.chunk()).await.unwrap().unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
