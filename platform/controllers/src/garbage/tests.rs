use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;
use pilothouse_informer::ObjectKey;

use super::*;

fn item(uid: &str, deletion: Deletion, owners: &[(&str, bool)]) -> Arc<Item> {
    Arc::new(Item {
        resource: Arc::new(ApiResource::erase::<ConfigMap>(&())),
        key: ObjectKey::namespaced("a", uid),
        uid: uid.to_owned(),
        owners: owners
            .iter()
            .map(|(uid, blocks)| Owner {
                uid: (*uid).to_owned(),
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                name: (*uid).to_owned(),
                blocks: *blocks,
            })
            .collect(),
        deletion,
        finalizers: [].into(),
    })
}

const ALIVE: Deletion = Deletion::No(Policy::Background);

fn dependent(states: &[OwnerState], deletion: Deletion, dependents: &[Arc<Item>]) -> Vec<Action> {
    let names = ["x", "y", "z"];
    let owners: Vec<_> = names.iter().take(states.len()).map(|name| (*name, true)).collect();
    let item = item("it", deletion, &owners);
    let owners: Vec<_> = item.owners.iter().zip(states.iter().copied()).collect();
    plan_dependent(&item, &owners, dependents)
}

fn delete(policy: Policy) -> Action {
    Action::Delete { uid: "it".to_owned(), policy }
}

fn disown(owners: &[&str]) -> Action {
    Action::Disown { uid: "it".to_owned(), owners: owners.iter().map(|uid| (*uid).to_owned()).collect() }
}

#[test]
fn object_lives_as_long_as_one_of_its_owners() {
    use OwnerState::{Gone, Solid, Waiting};
    let child = || [item("child", ALIVE, &[("it", true)])];
    for (states, deletion, dependents, expected) in [
        (&[Solid][..], ALIVE, vec![], vec![]),
        (&[Gone], ALIVE, vec![], vec![delete(Policy::Background)]),
        (&[Gone, Gone], ALIVE, vec![], vec![delete(Policy::Background)]),
        (&[Solid, Gone, Waiting], ALIVE, vec![], vec![disown(&["y", "z"])]),
        (&[Waiting], ALIVE, vec![], vec![delete(Policy::Background)]),
        (&[Waiting], ALIVE, child().to_vec(), vec![delete(Policy::Foreground)]),
        (&[Gone], ALIVE, child().to_vec(), vec![delete(Policy::Background)]),
        (&[Gone], Deletion::No(Policy::Orphan), vec![], vec![delete(Policy::Orphan)]),
        (&[Gone], Deletion::Yes(Policy::Background), vec![], vec![]),
    ] {
        assert_eq!(dependent(states, deletion, &dependents), expected, "{states:?} {deletion:?}");
    }
}

#[test]
fn circle_of_waiting_owners_is_broken() {
    let circle = [item("x", Deletion::Yes(Policy::Foreground), &[("it", true)])];
    let actions = dependent(&[OwnerState::Waiting], ALIVE, &circle);
    assert_eq!(actions, [Action::Unblock { uid: "it".to_owned() }, delete(Policy::Foreground)]);
}

#[test]
fn foreground_waits_for_those_that_block_and_for_nobody_else() {
    let owner = item("owner", Deletion::Yes(Policy::Foreground), &[]);
    let release = vec![Action::Release { finalizer: FOREGROUND }];
    assert_eq!(plan_owner(&owner, &[item("a", ALIVE, &[("owner", true)])]), []);
    assert_eq!(plan_owner(&owner, &[item("a", ALIVE, &[("owner", false), ("other", true)])]), release);
    assert_eq!(plan_owner(&owner, &[]), release);
}

#[test]
fn orphaning_lets_every_dependent_go_before_the_owner() {
    let owner = item("owner", Deletion::Yes(Policy::Orphan), &[]);
    let dependents = [item("it", ALIVE, &[("owner", true)])];
    assert_eq!(plan_owner(&owner, &dependents), [disown(&["owner"])]);
    assert_eq!(plan_owner(&owner, &[]), [Action::Release { finalizer: ORPHAN }]);
    assert_eq!(plan_owner(&item("owner", ALIVE, &[]), &dependents), []);
}
