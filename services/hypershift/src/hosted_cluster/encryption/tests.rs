use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn sources(keys: &[(&str, u8)]) -> Sources {
    let mut sources = Sources::default();
    for (name, byte) in keys {
        sources.add_encryption_key((*name).to_owned(), vec![*byte; 32]);
    }
    sources
}

fn wanted(active: &str, backup: Option<&str>) -> Wanted {
    Wanted::Keys { active: active.to_owned(), backup: backup.map(str::to_owned) }
}

fn ids(file: &KeyFile) -> Vec<&str> {
    file.keys.iter().map(|key| key.id.as_str()).collect()
}

#[test]
fn a_new_key_is_added_at_the_end_and_the_old_one_forgotten_when_nothing_needs_it() {
    let first =
        KeyFile::next(None, &wanted("a", None), &sources(&[("a", 1)]), false, false).unwrap().unwrap();
    assert_eq!(ids(&first), ["a"]);

    let both = sources(&[("a", 1), ("b", 2)]);
    let rotating = KeyFile::next(Some(first), &wanted("b", None), &both, false, false).unwrap().unwrap();
    assert_eq!(ids(&rotating), ["a", "b"]);
    let settled =
        KeyFile::next(Some(rotating.clone()), &wanted("b", None), &both, true, false).unwrap().unwrap();
    assert_eq!(ids(&settled), ["b"]);

    // One that is still named as the backup stays, and one that is named again encrypts again.
    let kept = KeyFile::next(Some(rotating), &wanted("b", Some("a")), &both, true, false).unwrap().unwrap();
    assert_eq!(ids(&kept), ["a", "b"]);
    let back = KeyFile::next(Some(kept), &wanted("a", Some("b")), &both, false, false).unwrap().unwrap();
    assert_eq!(ids(&back), ["b", "a"]);
}

#[test]
fn a_key_in_use_is_neither_replaced_nor_lost() {
    let first =
        KeyFile::next(None, &wanted("a", None), &sources(&[("a", 1)]), false, false).unwrap().unwrap();
    let refused = KeyFile::next(Some(first.clone()), &wanted("a", None), &sources(&[("a", 9)]), true, false);
    assert!(refused.unwrap_err().message.contains("Secret `a` is another than before"));
    let missing = KeyFile::next(Some(first.clone()), &wanted("a", None), &sources(&[]), true, false).unwrap();
    assert_eq!(missing, Some(first));
}

fn seen(
    active: &'static str,
    incoming: Option<&'static str>,
    deployed: bool,
    encrypted: bool,
) -> Option<Seen<'static>> {
    Some(Seen { active, incoming, deployed, encrypted })
}

#[test]
fn a_rotation_is_completed_by_a_control_plane_that_answers() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let first = status(None, seen("a", None, true, true), at(0)).unwrap();
    assert!(is_settled(Some(&first), Some("a")));
    assert_eq!(status(Some(&first), seen("a", None, true, true), at(9)).as_ref(), Some(&first));

    let rotating = status(Some(&first), seen("b", None, false, false), at(10)).unwrap();
    assert_eq!(rotating["targetKey"]["name"], "b");
    assert_eq!(rotating["history"][0]["state"], "Migrating");
    assert!(!is_settled(Some(&rotating), Some("b")));
    // Who is asked back has been left meanwhile.
    assert!(!is_settled(Some(&rotating), Some("a")));
    // Somebody is in a hurry.
    let third = status(Some(&rotating), seen("c", None, true, true), at(20)).unwrap();
    let states: Vec<_> =
        third["history"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, ["Completed", "Interrupted", "Completed"]);
    assert!(is_settled(Some(&third), Some("c")));
    assert!(third.get("targetKey").is_none());
}

#[test]
fn where_several_servers_read_it_a_key_is_known_to_all_before_it_encrypts() {
    let both = sources(&[("a", 1), ("b", 2)]);
    let next = |file: KeyFile, settled| {
        KeyFile::next(Some(file), &wanted("b", None), &both, settled, true).unwrap().unwrap()
    };
    let first = KeyFile::next(None, &wanted("a", None), &both, false, true).unwrap().unwrap();
    assert_eq!((ids(&first), first.incoming(&wanted("a", None))), (vec!["a"], None));
    let known = next(first, false);
    assert_eq!(ids(&known), ["b", "a"]);
    assert_eq!(known.incoming(&wanted("b", None)).as_deref(), Some("b"));
    // As long as it takes.
    assert_eq!(next(known.clone(), false), known);
    let promoted = known.promoted("b").unwrap();
    assert_eq!((ids(&promoted), promoted.incoming(&wanted("b", None))), (vec!["a", "b"], None));
    assert_eq!(ids(&next(promoted.clone(), false)), ["a", "b"]);
    assert_eq!(ids(&next(promoted, true)), ["b"]);

    let at = |second| Timestamp::from_second(second).unwrap();
    let before = status(None, seen("a", None, true, true), at(0)).unwrap();
    let state = |status: &Value| status["history"][0]["state"].as_str().unwrap().to_owned();
    let deploying = status(Some(&before), seen("a", Some("b"), false, false), at(1)).unwrap();
    assert_eq!(
        (state(&deploying).as_str(), &deploying["targetKey"]["name"]),
        ("ReadOnlyDeploy", &json!("b"))
    );
    // All of the file of before are ready, and nothing is complete by that.
    let deploying = status(Some(&deploying), seen("a", Some("b"), true, true), at(2)).unwrap();
    assert_eq!(
        (state(&deploying).as_str(), &deploying["activeKey"]["name"]),
        ("ReadOnlyDeploy", &json!("a"))
    );
    let writing = status(Some(&deploying), seen("b", None, false, false), at(3)).unwrap();
    assert_eq!(state(&writing), "WritePromote");
    let migrating = status(Some(&writing), seen("b", None, true, false), at(4)).unwrap();
    assert_eq!(state(&migrating), "Migrating");
    let done = status(Some(&migrating), seen("b", None, true, true), at(5)).unwrap();
    assert_eq!((state(&done).as_str(), &done["activeKey"]["name"]), ("Completed", &json!("b")));
    assert!(is_settled(Some(&done), Some("b")));
}

/// What may happen to a cluster of several API servers.
#[derive(Clone, Debug)]
enum Event {
    /// Its owner asks for another key.
    Ask(usize),
    /// The operator looks.
    Pass,
    /// A server is replaced by one of now.
    Replace(usize),
    /// The process of a server starts again in its pod, and reads the file of now.
    Restart(usize),
    /// A server writes a secret.
    Write(usize),
}

/// A server, by what it has read.
#[derive(Clone, Debug)]
struct Server {
    keys: Vec<String>,
    /// What its pod was made for.
    made_for: (Option<String>, Option<String>),
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => (0..NAMES.len()).prop_map(Event::Ask),
        6 => Just(Event::Pass),
        6 => (0..3_usize).prop_map(Event::Replace),
        2 => (0..3_usize).prop_map(Event::Restart),
        4 => (0..3_usize).prop_map(Event::Write),
    ]
}

/// A cluster without the cluster: the operator's own decisions, and servers that come and go in any order.
struct Model {
    file: KeyFile,
    asked: &'static str,
    status: Option<Value>,
    servers: Vec<Server>,
    /// What pods are made for now.
    desired: (Option<String>, Option<String>),
    /// The keys that something is encrypted with.
    stored: BTreeSet<String>,
}

impl Model {
    fn new() -> Self {
        let sources = sources(&[("a", 1)]);
        let file = KeyFile::next(None, &wanted("a", None), &sources, false, true).unwrap().unwrap();
        let desired = (file.active(), None);
        let server = Server { keys: vec!["a".to_owned()], made_for: desired.clone() };
        Self {
            file,
            asked: "a",
            status: None,
            servers: vec![server; 3],
            desired,
            stored: BTreeSet::from(["a".to_owned()]),
        }
    }

    fn happens(&mut self, event: &Event) {
        let read = |file: &KeyFile| file.keys.iter().map(|key| key.id.clone()).collect();
        match *event {
            Event::Ask(name) => self.asked = NAMES[name],
            Event::Pass => self.pass(),
            Event::Replace(server) => {
                self.servers[server] = Server { keys: read(&self.file), made_for: self.desired.clone() };
            }
            Event::Restart(server) => self.servers[server].keys = read(&self.file),
            Event::Write(server) => {
                self.stored.extend(self.servers[server].keys.last().cloned());
            }
        }
    }

    fn pass(&mut self) {
        let wanted = wanted(self.asked, None);
        let all = sources(&[("a", 1), ("b", 2), ("c", 3)]);
        let settled = is_settled(self.status.as_ref(), wanted.active());
        self.file = KeyFile::next(Some(self.file.clone()), &wanted, &all, settled, true).unwrap().unwrap();
        let (active, incoming) = (self.file.active(), self.file.incoming(&wanted));
        self.desired = (active.clone(), incoming.clone());
        let deployed = self.servers.iter().all(|server| server.made_for == self.desired);
        let encrypted = deployed && incoming.is_none();
        let active = active.unwrap();
        if encrypted && !settled {
            self.stored = BTreeSet::from([active.clone()]);
        }
        let seen = Seen { active: &active, incoming: incoming.as_deref(), deployed, encrypted };
        self.status = status(self.status.as_ref(), Some(seen), Timestamp::UNIX_EPOCH);
        if let Some(incoming) = incoming.filter(|_| deployed) {
            self.file = self.file.clone().promoted(&incoming).unwrap();
        }
    }

    /// Whatever is stored, or might be written next, every server can read.
    fn check(&self) -> Result<(), String> {
        let next = self.servers.iter().filter_map(|server| server.keys.last());
        for key in self.stored.iter().chain(next) {
            if let Some(server) = self.servers.iter().find(|server| !server.keys.contains(key)) {
                return Err(format!("{server:?} cannot read what {key} has encrypted"));
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn no_server_writes_what_another_cannot_read(events in prop::collection::vec(event(), 0..120)) {
        let mut model = Model::new();
        for event in &events {
            model.happens(event);
            prop_assert_eq!(model.check(), Ok(()), "after {:?} of {:?}", event, events);
        }
        // And in the end the key is the one that was asked for, alone.
        for _ in 0..8 {
            model.pass();
            (0..3).for_each(|server| model.happens(&Event::Replace(server)));
            prop_assert_eq!(model.check(), Ok(()));
        }
        prop_assert_eq!(ids(&model.file), [model.asked]);
        prop_assert!(is_settled(model.status.as_ref(), Some(model.asked)));
    }
}
