//! Lists page by page, and single things that lists link to.

use pilothouse_clusters_service_api::{ClusterState, ListQuery, NewBreakGlassCredential};
use serde_json::{Value, json};

use crate::support::{Running, World, context, new_cluster};

async fn sweep(service: &Running, order: Option<&str>, size: u32) -> Vec<String> {
    let mut all = Vec::new();
    for page in 1.. {
        let order = order.map(str::to_owned);
        let query = ListQuery { order, page: Some(page), size: Some(size), ..ListQuery::default() };
        let found = service.client.cluster_list(&context(), &query).await.unwrap();
        assert_eq!((found.page, found.total, found.size as usize), (page, 7, found.items.len()));
        if found.items.is_empty() {
            break;
        }
        all.extend(found.items.into_iter().map(|cluster| cluster.id.to_string()));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_put_together_are_everything_once_and_in_order() {
    let world = World::new().await;
    let service = world.start().await;
    let mut ids = Vec::new();
    for number in 0..7 {
        ids.push(service.create(&new_cluster(&format!("cluster-{number}"))).await.id.to_string());
    }
    ids.sort();
    let backwards: Vec<_> = ids.iter().rev().cloned().collect();
    for size in [1, 3, 7, 100] {
        assert_eq!(sweep(&service, None, size).await, ids, "{size}");
        assert_eq!(sweep(&service, Some("id"), size).await, ids, "{size}");
        assert_eq!(
            sweep(&service, Some(" ID desc ".to_lowercase().as_str()), size).await,
            backwards,
            "{size}"
        );
    }
    let by_name = ListQuery { order: Some("name desc".into()), size: Some(1), ..ListQuery::default() };
    let found = service.client.cluster_list(&context(), &by_name).await.unwrap();
    assert_eq!((found.items[0].name.as_str(), found.total), ("cluster-6", 7));
    // Behind the last page is an empty one; before the first there is none.
    let far = ListQuery { page: Some(u32::MAX), size: Some(u32::MAX), ..ListQuery::default() };
    let found = service.client.cluster_list(&context(), &far).await.unwrap();
    assert_eq!((found.items.len(), found.total), (0, 7));
    for (query, words) in [
        ("page=0", "pages are counted from one"),
        ("size=-1", "`-1` is not a number"),
        ("page=two", "`two` is not a number"),
        ("order=name+down", "`down` is neither `asc` nor `desc`"),
    ] {
        let path = format!("/api/clusters_mgmt/v1/clusters?{query}");
        let (status, refused) = service.call("GET", &path, &Value::Null).await;
        let reason = refused["reason"].as_str().unwrap_or_default();
        assert!(status == 400 && reason.contains(words), "{query}: {refused}");
    }
    let none = ListQuery { size: Some(0), ..ListQuery::default() };
    let found = service.client.cluster_list(&context(), &none).await.unwrap();
    assert_eq!((found.items.len(), found.total), (0, 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_and_an_autoscaler_can_be_asked_for_by_themselves() {
    let world = World::new().await;
    let service = world.start().await;
    world.maestro.play_agent();
    let mut new = new_cluster("first");
    new.autoscaler = serde_json::from_value(json!({"max_pod_grace_period": 30})).unwrap();
    let cluster = service.create(&new).await;
    service.until(&cluster.id, ClusterState::Ready).await;
    let href = &cluster.href;
    let (_, checks) = service.call("GET", &format!("{href}/inflight_checks"), &Value::Null).await;
    let check = &checks["items"][0];
    let (status, found) = service.call("GET", check["href"].as_str().unwrap(), &Value::Null).await;
    assert_eq!((status, &found), (200, check));
    let (status, _) = service.call("GET", &format!("{href}/inflight_checks/none"), &Value::Null).await;
    assert_eq!(status, 404);

    let (status, found) = service.call("GET", &format!("{href}/autoscaler"), &Value::Null).await;
    let expected = json!({"kind": "ClusterAutoscaler", "href": format!("{href}/autoscaler"), "max_pod_grace_period": 30});
    assert_eq!((status, found), (200, expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_and_external_auths_are_searched_and_sorted_like_everything_else() {
    let world = World::new().await;
    let service = world.start().await;
    world.maestro.play_agent();
    let cluster = service.create(&new_cluster("first")).await;
    let id = &cluster.id;
    service.until(id, ClusterState::Ready).await;
    for name in ["ada", "ben"] {
        let username = Some(name.to_owned());
        let new = NewBreakGlassCredential { username, ..NewBreakGlassCredential::default() };
        service.client.break_glass_create(&context(), id, &new).await.unwrap();
    }
    let auth = json!({"id": "entra", "issuer": {"url": "https://issuer.test", "audiences": ["a"]},
                      "claim": {"mappings": {"username": {"claim": "sub"}}}});
    let auth = serde_json::from_value(auth).unwrap();
    service.client.external_auth_create(&context(), id, &auth).await.unwrap();
    let href = &cluster.href;
    let list = async |path: &str| service.call("GET", &format!("{href}/{path}"), &Value::Null).await;

    let (_, found) = list("break_glass_credentials?search=username+like+%27%25ada%27").await;
    assert_eq!(found["total"], 1, "{found}");
    let (_, found) = list("break_glass_credentials?order=username+desc&size=1").await;
    assert_eq!(
        (&found["total"], &found["items"][0]["username"]),
        (&json!(2), &json!("system:customer-break-glass:ben"))
    );
    let auths = "external_auth_config/external_auths";
    for (search, total) in [("id+%3D+%27entra%27", 1), ("issuer.url+%3D+%27https://other.test%27", 0)] {
        let (status, found) = list(&format!("{auths}?search={search}&order=id")).await;
        assert_eq!((status, &found["total"]), (200, &json!(total)), "{found}");
    }
    for path in
        [format!("{auths}?search=nothing+%3D+%27x%27"), "break_glass_credentials?order=kubeconfig".to_owned()]
    {
        let (status, refused) = list(&path).await;
        assert!(
            status == 400 && refused["reason"].as_str().unwrap().contains("there is no field"),
            "{refused}"
        );
    }
}
