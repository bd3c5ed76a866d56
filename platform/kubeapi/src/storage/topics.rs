//! Who follows what.
//!
//! A topic is a collection, a namespace of one, or a single object: `secrets/`, `secrets/shop/`, `secrets/shop/key`. A change
//! wakes those who follow one of its own three topics and nobody else: with a thousand watches of single objects open, as a
//! node with many pods has them, one change is not a thousand tasks that look and find nothing.
//!
//! Somebody who is not woken does not move either, and may be far behind when his turn comes. That he has missed nothing is known
//! from the topic, which remembers the last of its changes that the history has forgotten.

use std::collections::HashMap;
use std::iter::once;

use tokio::sync::watch;

/// The topics that somebody follows.
#[derive(Debug, Default)]
pub(super) struct Topics {
    followed: HashMap<Box<str>, Topic>,
}

#[derive(Debug)]
struct Topic {
    /// The version of the last change. Whoever follows has a receiver.
    changed: watch::Sender<u64>,
    /// Every change after this version is in the history.
    complete_after: u64,
}

/// Whether a topic is about a key.
pub(super) fn covers(topic: &str, key: &str) -> bool {
    match topic.is_empty() || topic.ends_with('/') {
        true => key.starts_with(topic),
        false => topic == key,
    }
}

/// The topics that are about a key.
fn topics_of(key: &str) -> impl Iterator<Item = &str> {
    key.match_indices('/').map(|(at, _)| &key[..=at]).chain(once(key))
}

impl Topics {
    /// Follows a topic. Without anybody before, only what comes after `floor` is known to be in the history.
    pub(super) fn follow(&mut self, topic: &str, floor: u64) -> watch::Receiver<u64> {
        if let Some(followed) = self.followed.get(topic) {
            return followed.changed.subscribe();
        }
        let (changed, receiver) = watch::channel(floor);
        self.followed.insert(topic.into(), Topic { changed, complete_after: floor });
        receiver
    }

    /// Somebody who follows a topic is about to drop his receiver.
    pub(super) fn leave(&mut self, topic: &str) {
        if self.followed.get(topic).is_some_and(|followed| followed.changed.receiver_count() <= 1) {
            self.followed.remove(topic);
        }
    }

    /// The version after which the history has everything about a topic, if somebody follows it.
    pub(super) fn complete_after(&self, topic: &str) -> Option<u64> {
        self.followed.get(topic).map(|followed| followed.complete_after)
    }

    /// Wakes whoever follows a topic of the key.
    pub(super) fn changed(&self, key: &str, revision: u64) {
        for followed in topics_of(key).filter_map(|topic| self.followed.get(topic)) {
            followed.changed.send_replace(revision);
        }
    }

    /// The history has forgotten a change of the key.
    pub(super) fn forgotten(&mut self, key: &str, revision: u64) {
        for topic in topics_of(key) {
            if let Some(followed) = self.followed.get_mut(topic) {
                followed.complete_after = revision;
            }
        }
    }

    /// The history starts over: anything may have happened before this version.
    pub(super) fn restart(&mut self, floor: u64) {
        for followed in self.followed.values_mut() {
            followed.complete_after = floor;
            followed.changed.send_replace(floor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_wakes_those_who_follow_it_and_nobody_else() {
        let mut topics = Topics::default();
        let concerned = ["pods/", "pods/shop/", "pods/shop/web"].map(|topic| topics.follow(topic, 4));
        let others = ["pod", "secrets/", "pods/sho/", "pods/shop/we", "pods/shop/web-2"];
        let others = others.map(|topic| topics.follow(topic, 4));
        topics.changed("pods/shop/web", 5);
        assert!(concerned.iter().all(|receiver| receiver.has_changed().unwrap()));
        assert!(others.iter().all(|receiver| !receiver.has_changed().unwrap()));
    }

    #[test]
    fn what_is_forgotten_is_missed_only_where_it_belongs() {
        let mut topics = Topics::default();
        let _followers = ["pods/", "pods/shop/web", "secrets/"].map(|topic| topics.follow(topic, 4));
        topics.forgotten("pods/shop/cart", 9);
        let complete = ["pods/", "pods/shop/web", "secrets/", "nodes/"];
        let complete = complete.map(|topic| topics.complete_after(topic));
        assert_eq!(complete, [Some(9), Some(4), Some(4), None]);
        topics.restart(12);
        assert_eq!(topics.complete_after("secrets/"), Some(12));
    }

    #[test]
    fn a_topic_goes_with_its_last_follower() {
        let mut topics = Topics::default();
        let (first, second) = (topics.follow("pods/", 4), topics.follow("pods/", 7));
        assert_eq!(topics.complete_after("pods/"), Some(4), "somebody has followed it since");
        topics.leave("pods/");
        drop(first);
        assert!(topics.complete_after("pods/").is_some());
        topics.leave("pods/");
        drop(second);
        assert!(topics.followed.is_empty());
    }
}
