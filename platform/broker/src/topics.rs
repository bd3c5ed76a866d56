//! Who hears what: filters in a tree, a level of the topic a level of the tree. Pure.

use std::collections::{BTreeMap, HashMap};

/// A connection, told from an earlier one with the same client id.
pub(crate) type SessionId = u64;

/// A filter as it was subscribed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter<'a> {
    pub(crate) group: Option<&'a str>,
    pub(crate) path: &'a str,
}

/// What a subscription asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// Whether messages are to be acknowledged.
    pub(crate) acknowledged: bool,
    /// Whether the client does not want its own messages back.
    pub(crate) no_local: bool,
}

/// All subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    root: Level,
    /// Moves on with every message, so that the members of a group take turns.
    turn: usize,
}

#[derive(Debug, Default)]
struct Level {
    names: HashMap<String, Level>,
    /// `+`
    any: Option<Box<Level>>,
    /// Those whose filter ends here.
    here: Subscribers,
    /// Those whose filter ends here with `#`.
    below: Subscribers,
}

#[derive(Debug, Default)]
struct Subscribers {
    each: HashMap<SessionId, Subscription>,
    groups: BTreeMap<String, BTreeMap<SessionId, Subscription>>,
}

// === impl Filter ===

impl<'a> Filter<'a> {
    /// Takes `$share/<group>/` off; `None` if the filter is none.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (group, path) = match text.strip_prefix("$share/") {
            Some(rest) => {
                let (group, path) = rest.split_once('/')?;
                if group.is_empty() || group.contains(['+', '#']) {
                    return None;
                }
                (Some(group), path)
            }
            None => (None, text),
        };
        let levels = path.split('/').collect::<Vec<_>>();
        let valid = levels.iter().enumerate().all(|(index, level)| match *level {
            "#" => index + 1 == levels.len(),
            "+" => true,
            level => !level.contains(['+', '#']),
        });
        (valid && !path.is_empty() && !path.contains('\0')).then_some(Self { group, path })
    }
}

/// Whether everything that `wanted`, a topic or a filter, selects is also selected by the filter `allowed`.
pub(crate) fn covers(allowed: &str, wanted: &str) -> bool {
    // Wildcards at the beginning do not mean the broker's own topics.
    if wanted.starts_with('$') && allowed.starts_with(['+', '#']) {
        return false;
    }
    let mut wanted = wanted.split('/');
    for level in allowed.split('/') {
        // It also means the level above it.
        if level == "#" {
            return true;
        }
        match wanted.next() {
            Some("#") | None => return false,
            Some(other) if level != "+" && level != other => return false,
            Some(_) => {}
        }
    }
    wanted.next().is_none()
}

// === impl Topics ===

impl Topics {
    /// Adds or replaces a subscription; whether it is new.
    pub(crate) fn subscribe(
        &mut self,
        session: SessionId,
        filter: &Filter<'_>,
        wanted: Subscription,
    ) -> bool {
        let subscribers = self.root.ensure(filter.path);
        match filter.group {
            None => subscribers.each.insert(session, wanted).is_none(),
            Some(group) => {
                subscribers.groups.entry(group.to_owned()).or_default().insert(session, wanted).is_none()
            }
        }
    }

    /// Takes a subscription away; whether there was one.
    pub(crate) fn unsubscribe(&mut self, session: SessionId, filter: &Filter<'_>) -> bool {
        let levels: Vec<_> = filter.path.split('/').collect();
        self.root.remove(&levels, session, filter.group)
    }

    /// Who is to be sent a message: each session once, with the strictest of what its subscriptions ask for.
    pub(crate) fn matching(&mut self, topic: &str, from: SessionId) -> Vec<(SessionId, bool)> {
        self.turn = self.turn.wrapping_add(1);
        let mut found = HashMap::new();
        let levels: Vec<_> = topic.split('/').collect();
        // Topics of the broker's own begin with `$`, and no wildcard reaches them.
        let wildcards = !topic.starts_with('$');
        self.root.collect(&levels, wildcards, self.turn, &mut |session, wanted: Subscription| {
            if wanted.no_local && session == from {
                return;
            }
            *found.entry(session).or_insert(false) |= wanted.acknowledged;
        });
        found.into_iter().collect()
    }
}

// === impl Level ===

impl Level {
    fn ensure(&mut self, path: &str) -> &mut Subscribers {
        let mut level = self;
        for name in path.split('/') {
            match name {
                "#" => return &mut level.below,
                "+" => level = level.any.get_or_insert_default(),
                name => level = level.names.entry(name.to_owned()).or_default(),
            }
        }
        &mut level.here
    }

    fn remove(&mut self, levels: &[&str], session: SessionId, group: Option<&str>) -> bool {
        match levels {
            [] => self.here.remove(session, group),
            ["#"] => self.below.remove(session, group),
            ["+", rest @ ..] => {
                let Some(any) = &mut self.any else { return false };
                let removed = any.remove(rest, session, group);
                if any.is_empty() {
                    self.any = None;
                }
                removed
            }
            [name, rest @ ..] => {
                let Some(level) = self.names.get_mut(*name) else { return false };
                let removed = level.remove(rest, session, group);
                if level.is_empty() {
                    self.names.remove(*name);
                }
                removed
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.any.is_none() && self.here.is_empty() && self.below.is_empty()
    }

    fn collect(
        &self,
        levels: &[&str],
        wildcards: bool,
        turn: usize,
        take: &mut impl FnMut(SessionId, Subscription),
    ) {
        if wildcards {
            // `a/#` also means `a`.
            self.below.each(turn, take);
        }
        let [name, rest @ ..] = levels else { return self.here.each(turn, take) };
        if let Some(level) = self.names.get(*name) {
            level.collect(rest, true, turn, take);
        }
        if wildcards && let Some(any) = &self.any {
            any.collect(rest, true, turn, take);
        }
    }
}

// === impl Subscribers ===

impl Subscribers {
    fn is_empty(&self) -> bool {
        self.each.is_empty() && self.groups.is_empty()
    }

    fn remove(&mut self, session: SessionId, group: Option<&str>) -> bool {
        let Some(group) = group else { return self.each.remove(&session).is_some() };
        let Some(members) = self.groups.get_mut(group) else { return false };
        let removed = members.remove(&session).is_some();
        if members.is_empty() {
            self.groups.remove(group);
        }
        removed
    }

    fn each(&self, turn: usize, take: &mut impl FnMut(SessionId, Subscription)) {
        self.each.iter().for_each(|(session, wanted)| take(*session, *wanted));
        for members in self.groups.values() {
            if let Some((session, wanted)) = members.iter().nth(turn % members.len()) {
                take(*session, *wanted);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Subscription = Subscription { acknowledged: false, no_local: false };

    fn heard(topics: &mut Topics, topic: &str) -> Vec<SessionId> {
        let mut heard: Vec<_> = topics.matching(topic, 0).into_iter().map(|(session, _)| session).collect();
        heard.sort_unstable();
        heard
    }

    #[test]
    fn filters_select_as_the_standard_says() {
        let mut topics = Topics::default();
        let filters = ["a/b", "a/+", "a/#", "#", "+/+", "/+", "$SYS/#", "+", "a/+/c"];
        for (session, filter) in (1..).zip(filters) {
            assert!(topics.subscribe(session, &Filter::parse(filter).unwrap(), PLAIN));
        }
        for (topic, expected) in [
            ("a/b", &[1, 2, 3, 4, 5][..]),
            ("a", &[3, 4, 8]),
            ("a/", &[2, 3, 4, 5]),
            ("/b", &[4, 5, 6]),
            ("a/b/c", &[3, 4, 9]),
            ("$SYS/x", &[7]),
            ("b/c/d", &[4]),
        ] {
            assert_eq!(heard(&mut topics, topic), expected, "{topic}");
        }
        for (session, filter) in (1..).zip(filters) {
            assert!(topics.unsubscribe(session, &Filter::parse(filter).unwrap()), "{filter}");
            assert!(!topics.unsubscribe(session, &Filter::parse(filter).unwrap()), "{filter}");
        }
        assert!(topics.root.is_empty(), "nothing is left behind");
    }

    #[test]
    fn odd_filters_are_refused() {
        for odd in ["", "a#", "#/a", "a/b+", "$share/g", "$share//a", "$share/g/", "$share/+/a", "a/#/b"] {
            assert_eq!(Filter::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn members_of_a_group_take_turns_and_groups_do_not_share() {
        let mut topics = Topics::default();
        for (session, filter) in [(1, "$share/g/a/+"), (2, "$share/g/a/+"), (3, "$share/h/a/+"), (4, "a/b")] {
            topics.subscribe(session, &Filter::parse(filter).unwrap(), PLAIN);
        }
        let mut counts = BTreeMap::new();
        for _ in 0..10 {
            heard(&mut topics, "a/b")
                .into_iter()
                .for_each(|session| *counts.entry(session).or_insert(0) += 1);
        }
        assert_eq!(counts, BTreeMap::from([(1, 5), (2, 5), (3, 10), (4, 10)]));
    }

    #[test]
    fn overlapping_subscriptions_deliver_once_and_own_messages_may_be_left_out() {
        let mut topics = Topics::default();
        let acknowledged = Subscription { acknowledged: true, no_local: false };
        topics.subscribe(1, &Filter::parse("a/b").unwrap(), PLAIN);
        topics.subscribe(1, &Filter::parse("a/+").unwrap(), acknowledged);
        let own = Subscription { acknowledged: true, no_local: true };
        topics.subscribe(2, &Filter::parse("a/b").unwrap(), own);
        assert_eq!(topics.matching("a/b", 2), [(1, true)]);
    }
}
