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
    let first = KeyFile::next(None, &wanted("a", None), &sources(&[("a", 1)]), false).unwrap().unwrap();
    assert_eq!(ids(&first), ["a"]);

    let both = sources(&[("a", 1), ("b", 2)]);
    let rotating = KeyFile::next(Some(first), &wanted("b", None), &both, false).unwrap().unwrap();
    assert_eq!(ids(&rotating), ["a", "b"]);
    let settled = KeyFile::next(Some(rotating.clone()), &wanted("b", None), &both, true).unwrap().unwrap();
    assert_eq!(ids(&settled), ["b"]);

    // One that is still named as the backup stays, and one that is named again encrypts again.
    let kept = KeyFile::next(Some(rotating), &wanted("b", Some("a")), &both, true).unwrap().unwrap();
    assert_eq!(ids(&kept), ["a", "b"]);
    let back = KeyFile::next(Some(kept), &wanted("a", Some("b")), &both, false).unwrap().unwrap();
    assert_eq!(ids(&back), ["b", "a"]);
}

#[test]
fn a_key_in_use_is_neither_replaced_nor_lost() {
    let first = KeyFile::next(None, &wanted("a", None), &sources(&[("a", 1)]), false).unwrap().unwrap();
    let refused = KeyFile::next(Some(first.clone()), &wanted("a", None), &sources(&[("a", 9)]), true);
    assert!(refused.unwrap_err().message.contains("Secret `a` is another than before"));
    let missing = KeyFile::next(Some(first.clone()), &wanted("a", None), &sources(&[]), true).unwrap();
    assert_eq!(missing, Some(first));
}

#[test]
fn a_rotation_is_completed_by_a_control_plane_that_answers() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let first = status(None, Some("a"), true, at(0)).unwrap();
    assert!(is_settled(Some(&first), Some("a")));
    assert_eq!(status(Some(&first), Some("a"), true, at(9)).as_ref(), Some(&first));

    let rotating = status(Some(&first), Some("b"), false, at(10)).unwrap();
    assert_eq!(rotating["targetKey"]["name"], "b");
    assert_eq!(rotating["history"][0]["state"], "Migrating");
    assert!(!is_settled(Some(&rotating), Some("b")));
    // Somebody is in a hurry.
    let third = status(Some(&rotating), Some("c"), true, at(20)).unwrap();
    let states: Vec<_> =
        third["history"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, ["Completed", "Interrupted", "Completed"]);
    assert!(is_settled(Some(&third), Some("c")));
    assert!(third.get("targetKey").is_none());
}
