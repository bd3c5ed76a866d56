use std::collections::BTreeMap;

/// What is wrong with the tags of a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagProblem {
    /// There are too many.
    #[error("must have at most {} items", TagProblem::MOST)]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// A key has no characters.
    #[error("a tag's name must not be empty")]
    EmptyKey,
    /// A key has too many characters.
    #[error("a tag's name may have at most {} characters", TagProblem::LONGEST_KEY)]
    KeyTooLong {
        /// The key.
        key: String,
    },
    /// A key has a character that none may have.
    #[error("a tag's name must not contain `{character}`; none may have any of {}", TagProblem::NOT_IN_KEYS)]
    ForbiddenCharacter {
        /// The key.
        key: String,
        /// The first such character.
        character: char,
    },
    /// Two keys differ in their case alone.
    #[error("tags' names are compared without regard to case, and `{other}` is the same")]
    SameKey {
        /// The key.
        key: String,
        /// The one it is the same as.
        other: String,
    },
    /// A value has too many characters.
    #[error("a tag's value may have at most {} characters", TagProblem::LONGEST_VALUE)]
    ValueTooLong {
        /// The key it belongs to.
        key: String,
    },
}

impl TagProblem {
    /// So many tags a resource may have.
    pub const MOST: usize = 50;
    /// So many characters a key may have.
    pub const LONGEST_KEY: usize = 512;
    /// So many characters a value may have.
    pub const LONGEST_VALUE: usize = 256;
    /// Characters that a key may not have.
    pub const NOT_IN_KEYS: &str = r"<>%&\?/";

    /// Everything that is wrong with these tags.
    pub fn of(tags: &BTreeMap<String, String>) -> Vec<Self> {
        let mut problems = Vec::new();
        if tags.len() > Self::MOST {
            problems.push(Self::TooMany { count: tags.len() });
        }
        let mut seen = BTreeMap::new();
        for (key, value) in tags {
            if key.is_empty() {
                problems.push(Self::EmptyKey);
            }
            if key.chars().count() > Self::LONGEST_KEY {
                problems.push(Self::KeyTooLong { key: key.clone() });
            }
            if let Some(character) = key.chars().find(|character| Self::NOT_IN_KEYS.contains(*character)) {
                problems.push(Self::ForbiddenCharacter { key: key.clone(), character });
            }
            if let Some(other) = seen.insert(key.to_lowercase(), key) {
                problems.push(Self::SameKey { key: key.clone(), other: other.clone() });
            }
            if value.chars().count() > Self::LONGEST_VALUE {
                problems.push(Self::ValueTooLong { key: key.clone() });
            }
        }
        problems
    }

    /// The tag it is about, unless it is about all of them.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::TooMany { .. } => None,
            Self::EmptyKey => Some(""),
            Self::KeyTooLong { key }
            | Self::ForbiddenCharacter { key, .. }
            | Self::SameKey { key, .. }
            | Self::ValueTooLong { key } => Some(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn tags_at_their_limits_are_taken() {
        let many: BTreeMap<_, _> =
            (0..TagProblem::MOST).map(|number| (format!("t{number}"), String::new())).collect();
        assert_eq!(TagProblem::of(&many), []);
        assert_eq!(TagProblem::of(&tags(&[(&"ä".repeat(512), &"ö".repeat(256))])), []);
    }

    #[test]
    fn everything_wrong_with_tags_is_named() {
        let long = "x".repeat(513);
        let found = TagProblem::of(&tags(&[
            ("", ""),
            ("a/b", "1"),
            ("Team", "1"),
            ("team", "2"),
            ("value", &"v".repeat(257)),
            (&long, ""),
        ]));
        assert_eq!(
            found,
            [
                TagProblem::EmptyKey,
                TagProblem::ForbiddenCharacter { key: "a/b".into(), character: '/' },
                TagProblem::SameKey { key: "team".into(), other: "Team".into() },
                TagProblem::ValueTooLong { key: "value".into() },
                TagProblem::KeyTooLong { key: long.clone() },
            ]
        );
        assert_eq!(found[1].key(), Some("a/b"));
        for character in TagProblem::NOT_IN_KEYS.chars() {
            let key = format!("a{character}");
            assert_eq!(
                TagProblem::of(&tags(&[(&key, "")])),
                [TagProblem::ForbiddenCharacter { key: key.clone(), character }]
            );
        }
        let many: BTreeMap<_, _> = (0..51).map(|number| (format!("t{number}"), String::new())).collect();
        assert_eq!(TagProblem::of(&many), [TagProblem::TooMany { count: 51 }]);
    }
}
