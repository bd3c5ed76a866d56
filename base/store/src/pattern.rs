//! Paths into a document: a JSON pointer in which a segment `*` stands for every member of an object or
//! element of an array. Indexes and secrets are declared with them.

use std::fmt;

use crate::Error;
use crate::outline::Outline;

/// A parsed path such as `/metadata/labels/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Name(String),
    Every,
}

impl Pattern {
    pub(crate) fn try_new(text: &str) -> Result<Self, Error> {
        let invalid =
            |problem: &str| Error::Invalid { what: format!("path {text:?}"), problem: problem.to_owned() };
        let rest = text.strip_prefix('/').ok_or_else(|| invalid("it does not start with `/`"))?;
        rest.split('/')
            .map(|segment| match segment {
                "" => Err(invalid("it has an empty segment")),
                "*" => Ok(Segment::Every),
                name => Ok(Segment::Name(name.replace("~1", "/").replace("~0", "~"))),
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether a value at one path could be, contain or lie within a value at the other.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|pair| match pair {
            (Segment::Name(left), Segment::Name(right)) => left == right,
            _ => true,
        })
    }

    /// The scalar values at this path as text. A final `*` over an object gives `name=value`, which is how
    /// labels are looked up.
    pub(crate) fn texts(&self, document: &mut Outline<'_>) -> Result<Vec<String>, serde_json::Error> {
        let mut found = Vec::new();
        collect(&self.0, document, &mut found)?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Gives every value at this path, with its concrete pointer, to `change`.
    pub(crate) fn for_each_mut<E: From<serde_json::Error>>(
        &self,
        document: &mut Outline<'_>,
        change: &mut impl FnMut(&str, &mut Outline<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        visit(&self.0, &mut String::new(), document, change)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|segment| match segment {
            Segment::Every => f.write_str("/*"),
            Segment::Name(name) => write!(f, "/{}", escaped(name)),
        })
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn collect(
    path: &[Segment],
    value: &mut Outline<'_>,
    found: &mut Vec<String>,
) -> Result<(), serde_json::Error> {
    let Some((segment, rest)) = path.split_first() else {
        found.extend(value.scalar());
        return Ok(());
    };
    value.unfold()?;
    match (segment, value) {
        (Segment::Every, Outline::Object(members)) if rest.is_empty() => {
            found.extend(
                members.iter().filter_map(|(name, value)| Some(format!("{name}={}", value.scalar()?))),
            );
            Ok(())
        }
        (Segment::Name(name), Outline::Object(members)) => {
            match members.iter_mut().find(|(member, _)| member == name) {
                Some((_, value)) => collect(rest, value, found),
                None => Ok(()),
            }
        }
        (Segment::Every, Outline::Object(members)) => {
            members.iter_mut().try_for_each(|(_, value)| collect(rest, value, found))
        }
        (Segment::Every, Outline::Array(elements)) => {
            elements.iter_mut().try_for_each(|value| collect(rest, value, found))
        }
        _ => Ok(()),
    }
}

fn visit<E: From<serde_json::Error>>(
    path: &[Segment],
    at: &mut String,
    value: &mut Outline<'_>,
    change: &mut impl FnMut(&str, &mut Outline<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let Some((segment, rest)) = path.split_first() else {
        return change(at, value);
    };
    value.unfold()?;
    let length = at.len();
    let mut descend = |name: &str, value: &mut Outline<'_>| {
        at.truncate(length);
        at.push('/');
        at.push_str(&escaped(name));
        visit(rest, at, value, change)
    };
    match (segment, value) {
        (Segment::Name(name), Outline::Object(members)) => {
            let member = members.iter_mut().find(|(member, _)| member == name);
            member.map_or(Ok(()), |(name, value)| descend(name, value))?;
        }
        (Segment::Every, Outline::Object(members)) => {
            members.iter_mut().try_for_each(|(name, value)| descend(name, value))?;
        }
        (Segment::Every, Outline::Array(elements)) => {
            elements.iter_mut().enumerate().try_for_each(|(i, value)| descend(&i.to_string(), value))?;
        }
        _ => {}
    }
    at.truncate(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_found_through_names_members_and_elements() {
        let document = json!({
            "metadata": {"labels": {"app": "web", "tier": "1"}, "uid": 7, "gone": null},
            "owners": [{"uid": "a"}, {"uid": "b"}, {"name": "c"}],
            "a/b": {"c~d": true},
        });
        for (path, expected) in [
            ("/metadata/labels/*", vec!["app=web", "tier=1"]),
            ("/metadata/uid", vec!["7"]),
            ("/metadata/gone", vec![]),
            ("/metadata/labels", vec![]),
            ("/owners/*/uid", vec!["a", "b"]),
            ("/a~1b/c~0d", vec!["true"]),
            ("/nowhere/*/x", vec![]),
        ] {
            let text = document.to_string();
            let mut outline = Outline::try_new(&text).unwrap();
            let found = Pattern::try_new(path).unwrap().texts(&mut outline).unwrap();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn every_value_at_a_path_is_visited_with_its_pointer() {
        let text = json!({"data": {"a/b": 1, "c": [2]}, "list": [{"x": 3}, {"x": 4}]}).to_string();
        let mut document = Outline::try_new(&text).unwrap();
        let mut seen = Vec::new();
        for path in ["/data/*", "/list/*/x"] {
            Pattern::try_new(path)
                .unwrap()
                .for_each_mut(&mut document, &mut |pointer, value| {
                    let mut text = String::new();
                    value.write(&mut text);
                    seen.push(format!("{pointer}={text}"));
                    Ok::<(), serde_json::Error>(())
                })
                .unwrap();
        }
        assert_eq!(seen, ["/data/a~1b=1", "/data/c=[2]", "/list/0/x=3", "/list/1/x=4"]);
    }

    #[test]
    fn overlapping_paths_are_recognised() {
        let overlaps =
            |a: &str, b: &str| Pattern::try_new(a).unwrap().overlaps(&Pattern::try_new(b).unwrap());
        assert!(overlaps("/data/*", "/data/password"));
        assert!(overlaps("/data", "/data/x/y"));
        assert!(overlaps("/*/x", "/a/x"));
        assert!(!overlaps("/data/a", "/data/b"));
        assert!(!overlaps("/metadata/labels/*", "/data/*"));
    }
}
