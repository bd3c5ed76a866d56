use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::*;

fn metadata(namespace: &str, name: &str, uid: &str, owners: &[&str]) -> ObjectMeta {
    let owners =
        owners.iter().map(|uid| OwnerReference { uid: (*uid).to_owned(), ..OwnerReference::default() });
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        owner_references: Some(owners.collect()),
        ..ObjectMeta::default()
    }
}

fn uids(items: &[Arc<Item>]) -> Vec<&str> {
    items.iter().map(|item| item.uid.as_str()).collect()
}

type Heard = Arc<Mutex<Vec<(String, String)>>>;

/// An inventory, and what it announced as pairs of uids before and after.
fn inventory() -> (Inventory, Heard) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let inventory = Inventory::default();
    let log = heard.clone();
    let uid = |item: &Option<Arc<Item>>| item.as_ref().map(|item| item.uid.clone()).unwrap_or_default();
    inventory.listen(vec![Box::new(move |change| {
        log.lock().unwrap().push((uid(&change.before), uid(&change.after)));
    })]);
    (inventory, heard)
}

#[test]
fn dependents_follow_owner_references_through_every_change() {
    let (inventory, _heard) = inventory();
    let (maps, secrets) = resources();
    inventory.seen(&maps, &metadata("a", "one", "1", &["owner"]));
    inventory.seen(&secrets, &metadata("a", "two", "2", &["owner", "other"]));
    assert_eq!(uids(&inventory.dependents("owner")), ["1", "2"]);

    inventory.seen(&secrets, &metadata("a", "two", "2", &["other"]));
    assert_eq!(uids(&inventory.dependents("owner")), ["1"]);
    assert_eq!(uids(&inventory.dependents("other")), ["2"]);

    inventory.gone(&maps, &ObjectKey::namespaced("a", "one"));
    assert!(inventory.dependents("owner").is_empty());
}

#[test]
fn only_what_changes_the_graph_is_announced() {
    let (inventory, heard) = inventory();
    let (maps, _) = resources();
    let mut first = metadata("a", "one", "1", &[]);
    inventory.seen(&maps, &first);
    first.resource_version = Some("2".to_owned());
    inventory.seen(&maps, &first);
    inventory.seen(&maps, &metadata("a", "one", "9", &[]));
    inventory.retain(&maps, &BTreeSet::new());
    let heard = heard.lock().unwrap().clone();
    let expected = [("", "1"), ("1", ""), ("", "9"), ("9", "")];
    assert_eq!(heard, expected.map(|(before, after)| (before.to_owned(), after.to_owned())));
}

#[test]
fn contents_of_a_namespace_are_counted_by_resource() {
    let (inventory, _heard) = inventory();
    let (maps, secrets) = resources();
    inventory.seen(&maps, &metadata("a", "one", "1", &[]));
    inventory.seen(&maps, &metadata("a", "two", "2", &[]));
    inventory.seen(&maps, &metadata("aa", "two", "3", &[]));
    let mut held = metadata("a", "held", "4", &[]);
    held.finalizers = Some(vec!["example.com/hold".to_owned()]);
    inventory.seen(&secrets, &held);
    let remaining: Vec<_> = inventory
        .remaining("a")
        .into_iter()
        .map(|remaining| {
            (remaining.resource, remaining.objects, remaining.finalizers.values().sum::<usize>())
        })
        .collect();
    assert_eq!(remaining, [("configmaps".to_owned(), 2, 0), ("secrets".to_owned(), 1, 1)]);
}

fn resources() -> (Arc<ApiResource>, Arc<ApiResource>) {
    (Arc::new(ApiResource::erase::<ConfigMap>(&())), Arc::new(ApiResource::erase::<Secret>(&())))
}
