//! Lists, a part at a time.

use super::*;

/// Everything in a list, and how many parts it came in.
async fn all(cloud: &Cloud, path: &str, top: usize) -> (Vec<String>, usize) {
    let mut link = Some(format!("{path}{VERSION}&$top={top}"));
    let (mut found, mut parts) = (Vec::new(), 0);
    while let Some(next) = link {
        let (status, page) = cloud.call(Method::GET, &next, None).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let names = page["value"].as_array().unwrap().iter();
        found.extend(names.map(|found| found["name"].as_str().unwrap().to_owned()));
        parts += 1;
        link = page["nextLink"].as_str().map(|link| link.strip_prefix(&cloud.address).unwrap().to_owned());
    }
    (found, parts)
}

#[tokio::test]
async fn lists_come_in_parts_that_lead_to_one_another() {
    let cloud = Cloud::start(Location::memory()).await;
    let (groups, _) = GROUP.rsplit_once('/').unwrap();
    let (subscription, _) = groups.rsplit_once('/').unwrap();
    for group in ["a", "b", "c"] {
        let group = format!("{groups}/{group}");
        cloud.put(&group, json!({"location": "local"})).await;
        cloud.put(&format!("{group}/{ZONE}"), json!({"location": "global"})).await;
        cloud.put(&format!("{group}/{IDENTITY}"), json!({"location": "local"})).await;
        cloud.put(&format!("{group}/{ZONE}/A/api"), addresses(&["127.0.0.1"])).await;
    }
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(all(&cloud, groups, 2).await, (names(&["a", "b", "c"]), 2));
    assert_eq!(all(&cloud, groups, 3).await, (names(&["a", "b", "c"]), 1));
    let (everything, parts) = all(&cloud, &format!("{subscription}/resources"), 4).await;
    assert_eq!((everything.len(), parts), (9, 3));
    let zones = format!("{subscription}/providers/microsoft.network/DNSZones");
    assert_eq!(all(&cloud, &zones, 1000).await.0, ["first.pilothouse.test"; 3]);
    assert_eq!(all(&cloud, &zones, 1).await.0, ["first.pilothouse.test"; 3]);
    assert_eq!(all(&cloud, &format!("{groups}/b/resources"), 1).await.0.len(), 3);
    assert_eq!(all(&cloud, &format!("{groups}/b/{ZONE}/all"), 1).await.0, ["api"]);

    let (status, _) = cloud.get(&format!("{subscription}/providers/Microsoft.Compute/virtualMachines")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    for query in ["$top=0", "$top=1001", "$top=all", "$skipToken=nowhere"] {
        let (status, refusal) = cloud.call(Method::GET, &format!("{groups}{VERSION}&{query}"), None).await;
        let target = query.split('=').next().unwrap();
        assert_eq!(
            (status, &refusal["error"]["target"]),
            (StatusCode::BAD_REQUEST, &json!(target)),
            "{refusal}"
        );
    }
    cloud.stop().await;
}

#[tokio::test]
async fn a_list_goes_on_as_it_was_when_it_began() {
    let cloud = Cloud::start(Location::memory()).await;
    let (groups, _) = GROUP.rsplit_once('/').unwrap();
    for group in ["a", "b", "c"] {
        cloud.put(&format!("{groups}/{group}"), json!({"location": "local"})).await;
    }
    let (_, first) = cloud.call(Method::GET, &format!("{groups}{VERSION}&$top=1"), None).await;
    cloud.delete(&format!("{groups}/b")).await;
    let next = first["nextLink"].as_str().unwrap().strip_prefix(&cloud.address).unwrap();
    let (_, second) = cloud.call(Method::GET, next, None).await;
    assert_eq!(second["value"][0]["name"], "b");
    cloud.stop().await;
}
