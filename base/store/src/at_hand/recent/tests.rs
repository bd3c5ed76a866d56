use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::plan::NewVersion;
use crate::{DocumentId, Etag, Partition};

fn key(id: &str) -> Key {
    Key {
        container: "notes".into(),
        partition: Partition::try_new("ada").unwrap(),
        id: DocumentId::try_new(id).unwrap(),
    }
}

fn scope() -> Scope {
    Scope::Partition(Partition::try_new("ada").unwrap())
}

fn state(revision: u64) -> State {
    State { revision: Revision::from_number(revision), position: 0, compacted: Revision::ZERO, generation: 0 }
}

/// A document that is written, or deleted; `previous` is the position of the version before.
fn write(revision: u64, id: &str, previous: Option<i64>, body: Option<&str>) -> NewVersion {
    let revision = Revision::from_number(revision);
    NewVersion {
        position: 0,
        key: key(id),
        revision,
        previous,
        expired: false,
        etag: body.map(|_| Etag::new(revision, 1)),
        body: body.map(Arc::from),
        sealing_key: None,
        expires_at: None,
    }
}

fn plan(through: u64, versions: Vec<NewVersion>) -> Plan {
    Plan {
        replies: Vec::new(),
        state: state(through),
        versions,
        heads: BTreeMap::new(),
        opened: BTreeMap::new(),
        closed: Vec::new(),
        leases: BTreeMap::new(),
    }
}

fn nothing(_: &Key) -> Option<Version> {
    None
}

/// Revision, and the document before and after.
type Told = Vec<(u64, Option<String>, Option<String>)>;

fn told(recent: &Recent, after: u64) -> Option<Told> {
    let found = recent.changes(&scope(), Revision::from_number(after), 10)?.found;
    let body = |version: &Option<Version>| version.as_ref().map(|version| version.body.to_string());
    Some(found.iter().map(|one| (one.revision.number(), body(&one.before), body(&one.after))).collect())
}

fn text(body: &str) -> Option<String> {
    Some(body.to_owned())
}

#[test]
fn feeds_are_told_what_was_before_and_after_within_a_batch_too() {
    let recent = Recent::default();
    assert!(told(&recent, 0).is_none(), "nothing is known yet");
    let versions = vec![
        write(5, "a", None, Some("one")),
        write(6, "a", Some(1), Some("two")),
        write(7, "a", Some(2), None),
        write(8, "a", Some(-3), Some("three")),
    ];
    recent.committed(state(4), &plan(8, versions), nothing);
    let all = [
        (5, None, text("one")),
        (6, text("one"), text("two")),
        (7, text("two"), None),
        (8, None, text("three")),
    ];
    assert_eq!(told(&recent, 4).unwrap(), all);
    assert_eq!(told(&recent, 6).unwrap(), all[2..]);
    assert_eq!(told(&recent, 8).unwrap(), []);
    assert!(told(&recent, 3).is_none(), "before what is here");
    assert!(told(&recent, 9).is_none(), "that has not happened");
    let elsewhere = Scope::Container("others".into());
    assert!(recent.changes(&elsewhere, Revision::from_number(4), 10).unwrap().found.is_empty());
}

#[test]
fn what_cannot_be_told_whole_is_left_to_the_database() {
    let recent = Recent::default();
    recent.committed(state(4), &plan(5, vec![write(5, "a", None, Some("one"))]), nothing);
    // A transaction of two documents, of which the second was not at hand before.
    let versions = vec![write(6, "b", None, Some("new")), write(6, "c", Some(1), Some("two"))];
    recent.committed(state(5), &plan(6, versions), nothing);
    assert!(told(&recent, 5).is_none());
    assert_eq!(told(&recent, 6).unwrap(), []);
    // And one of which the first was not.
    let versions = vec![write(7, "c", Some(1), Some("three")), write(7, "d", None, Some("new"))];
    recent.committed(state(6), &plan(7, versions), nothing);
    assert!(told(&recent, 6).is_none());
    assert_eq!(told(&recent, 7).unwrap(), []);
    let former = |key: &Key| write(7, key.id.as_str(), None, Some("three")).document();
    recent.committed(state(7), &plan(8, vec![write(8, "c", Some(1), Some("four"))]), former);
    assert_eq!(told(&recent, 7).unwrap(), [(8, text("three"), text("four"))]);
}

#[test]
fn a_transaction_is_never_cut_in_two() {
    let recent = Recent::default();
    let half = "x".repeat(LARGEST / 2);
    let versions = vec![
        write(1, "a", None, Some(&half)),
        write(1, "b", None, Some("small")),
        write(2, "c", None, Some(&half)),
    ];
    recent.committed(state(0), &plan(2, versions), nothing);
    assert!(told(&recent, 0).is_none());
    assert_eq!(told(&recent, 1).unwrap().len(), 1);
    let versions = (0..3).map(|number| write(3, &format!("d{number}"), None, Some("small"))).collect();
    recent.committed(state(2), &plan(3, versions), nothing);
    let limited = recent.changes(&scope(), Revision::from_number(2), 2).unwrap().found;
    assert_eq!(limited.len(), 3);
}

#[test]
fn where_the_store_stands_is_known_between_commits_only() {
    let recent = Recent::default();
    assert_eq!(recent.state(), None);
    recent.committed(state(4), &plan(5, vec![write(5, "a", None, Some("one"))]), nothing);
    assert_eq!(recent.state(), Some(state(5)));
    recent.committing();
    assert_eq!(recent.state(), None);
    assert!(told(&recent, 4).is_some(), "what was told before is still true");
    recent.forget();
    assert_eq!(recent.state(), None);
    assert!(told(&recent, 4).is_none());
    // Somebody who knew of less goes on: there is a gap.
    recent.committed(state(7), &plan(8, vec![write(8, "b", None, Some("two"))]), nothing);
    assert!(told(&recent, 5).is_none());
    assert_eq!(told(&recent, 7).unwrap().len(), 1);
}
