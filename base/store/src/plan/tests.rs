//! The planner by itself: what a batch of commands does to the rows it touches.

use super::*;
use crate::engine::{PreparedAction, PreparedOperation};
use crate::{DocumentId, Partition};

fn key(name: &str) -> Key {
    Key {
        container: "notes".into(),
        partition: Partition::try_new("ada").unwrap(),
        id: DocumentId::try_new(name).unwrap(),
    }
}

fn entry(value: &str) -> Entry {
    Entry { index: "colour".into(), value: value.to_owned() }
}

fn operation(name: &str, precondition: Precondition, action: PreparedAction) -> PreparedOperation {
    PreparedOperation { key: key(name), indexed: true, guard: Guard::Precondition(precondition), action }
}

fn put(name: &str, precondition: Precondition, colour: &str) -> PreparedOperation {
    let content = Content {
        body: format!("\"{colour}\"").into(),
        sealing_key: None,
        time_to_live: None,
        entries: vec![entry(colour)],
    };
    operation(name, precondition, PreparedAction::Put(content))
}

fn commit(operations: Vec<PreparedOperation>) -> Command {
    Command::Commit(Prepared { operations, fences: Vec::new() })
}

fn empty() -> World {
    World {
        state: State {
            revision: Revision::from_number(10),
            position: 20,
            compacted: Revision::ZERO,
            generation: 0,
        },
        now: 1_000,
        incarnation: 1,
        heads: HashMap::new(),
        leases: HashMap::new(),
        retired_keys: HashSet::new(),
    }
}

fn revision(reply: &Result<Reply, Error>) -> u64 {
    match reply {
        Ok(Reply::Committed(committed)) => committed.revision.number(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn commands_of_a_batch_see_those_before_them() {
    let commands = [
        commit(vec![put("x", Precondition::Absent, "red")]),
        commit(vec![put("x", Precondition::Absent, "blue")]),
        commit(vec![put("x", Precondition::Any, "green"), put("y", Precondition::Absent, "red")]),
        commit(vec![operation("y", Precondition::Any, PreparedAction::Delete)]),
    ];
    let plan = plan(&commands, empty());
    assert_eq!(revision(&plan.replies[0]), 11);
    assert!(matches!(plan.replies[1], Err(Error::Conflict(Conflict::Exists { .. }))));
    assert_eq!(revision(&plan.replies[2]), 12, "a refused transaction uses up no revision");
    assert_eq!(revision(&plan.replies[3]), 13);

    let rows: Vec<_> = plan
        .versions
        .iter()
        .map(|row| {
            (row.position, row.revision.number(), row.key.id.as_str(), row.previous, row.body.is_some())
        })
        .collect();
    let expected = [
        (21, 11, "x", None, true),
        (22, 12, "x", Some(21), true),
        (23, 12, "y", None, true),
        (24, 13, "y", Some(23), false),
    ];
    assert_eq!(rows, expected);
    assert_eq!((plan.state.revision.number(), plan.state.position), (13, 24));
    assert_eq!(plan.heads.len(), 2, "each head is written once, as it is in the end");
    assert!(plan.heads[&key("y")].etag.is_none());
}

#[test]
fn a_document_made_again_remembers_its_tombstone_as_such() {
    let delete = || commit(vec![operation("x", Precondition::Any, PreparedAction::Delete)]);
    let make = || commit(vec![put("x", Precondition::Absent, "red")]);
    let plan = plan(&[make(), delete(), make()], empty());
    let previous: Vec<_> = plan.versions.iter().map(|version| version.previous).collect();
    assert_eq!(previous, [None, Some(21), Some(-22)]);
}

#[test]
fn entries_live_from_the_revision_that_made_them_to_the_one_that_took_them() {
    let commands = [
        commit(vec![put("x", Precondition::Absent, "red")]),
        commit(vec![put("x", Precondition::Any, "red")]),
        commit(vec![put("x", Precondition::Any, "blue")]),
        commit(vec![put("x", Precondition::Any, "red")]),
    ];
    let first = plan(&commands, empty());
    let lives: Vec<_> = first
        .opened
        .iter()
        .map(|(open, until)| (open.entry.value.as_str(), open.since.number(), until.map(Revision::number)))
        .collect();
    assert_eq!(lives, [("blue", 13, Some(14)), ("red", 11, Some(13)), ("red", 14, None)]);
    assert!(first.closed.is_empty());

    let world = World { state: first.state, heads: first.heads.into_iter().collect(), ..empty() };
    let second = plan(&[commit(vec![operation("x", Precondition::Any, PreparedAction::Delete)])], world);
    assert!(second.opened.is_empty());
    assert_eq!(second.closed.len(), 1, "what was there before the batch is closed in place");
    assert_eq!((second.closed[0].0.since.number(), second.closed[0].1.number()), (14, 15));
}

#[test]
fn expiry_deletes_only_what_is_still_due() {
    let head = |expires_at| Head {
        revision: Revision::from_number(5),
        position: 5,
        etag: Some(Etag::from_text("e")),
        expires_at,
        entries: Vec::new(),
    };
    let expire = |name: &str| {
        let operation = PreparedOperation {
            key: key(name),
            indexed: false,
            guard: Guard::Expired,
            action: PreparedAction::Delete,
        };
        commit(vec![operation])
    };
    let heads = [("due", Some(1_000)), ("renewed", Some(1_001)), ("kept", None)];
    let world = World { heads: heads.iter().map(|(name, at)| (key(name), head(*at))).collect(), ..empty() };
    let plan = plan(&["due", "renewed", "kept", "gone"].map(expire), world);
    assert_eq!(plan.versions.len(), 1);
    assert_eq!((plan.versions[0].key.id.as_str(), plan.versions[0].expired), ("due", true));
    assert!(plan.replies.iter().all(Result::is_ok));
}

#[test]
fn leases_pass_on_by_time_and_a_fence_holds_within_a_batch() {
    let name = LeaseName::try_new("work").unwrap();
    let acquire = |holder: &str| {
        Command::Lease(LeaseCommand::Acquire {
            name: name.clone(),
            holder: holder.to_owned(),
            time_to_live: Duration::from_micros(500),
        })
    };
    let fenced = |token| {
        Command::Commit(Prepared {
            operations: vec![put("x", Precondition::Any, "red")],
            fences: vec![Fence { name: name.clone(), token }],
        })
    };
    let first =
        plan(&[acquire("ada"), acquire("bob"), fenced(1), acquire("ada"), fenced(1), fenced(2)], empty());
    let outcomes: Vec<_> = first.replies.iter().map(Result::is_ok).collect();
    assert_eq!(outcomes, [true, false, true, true, false, true]);

    for (now, passes_on) in [(1_499, false), (1_500, true)] {
        let world = World { leases: first.leases.clone().into_iter().collect(), now, ..empty() };
        let later = plan(&[acquire("bob"), fenced(2)], world);
        assert_eq!(later.replies[0].is_ok(), passes_on);
        assert_eq!(later.replies[1].is_ok(), !passes_on);
    }
}

#[test]
fn nothing_is_written_with_a_retired_key() {
    let mut sealed = put("x", Precondition::Any, "red");
    if let PreparedAction::Put(content) = &mut sealed.action {
        content.sealing_key = Some("old".to_owned());
    }
    let world = World { retired_keys: HashSet::from(["old".to_owned()]), ..empty() };
    let plan = plan(&[commit(vec![put("y", Precondition::Any, "red"), sealed])], world);
    assert!(matches!(&plan.replies[0], Err(Error::RetiredKey { id }) if id == "old"));
    assert!(plan.versions.is_empty());
}
