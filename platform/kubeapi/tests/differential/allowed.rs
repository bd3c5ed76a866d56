//! The list of what may differ, which may only shrink.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::difference::Difference;

/// How much of a value a failure shows.
const SHOWN: usize = 300;

/// The list, by cause.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allowed {
    #[serde(default)]
    difference: Vec<Cause>,
}

/// Differences of one cause.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cause {
    cause: String,
    /// Why it is so, and whether it is to stay.
    reason: String,
    /// Each `subject/scenario/step /path`: at this place of this step's answer, and below it.
    at: Vec<String>,
}

impl Allowed {
    pub(crate) fn load(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap();
        let list: Self = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for cause in &list.difference {
            assert!(!cause.reason.trim().is_empty(), "`{}` is allowed without a reason", cause.cause);
        }
        list
    }

    /// What is wrong: differences that are not listed, and lines that no longer hold. Empty if nothing is.
    pub(crate) fn judge(&self, differences: &[Difference]) -> String {
        let mut verdict = String::new();
        let unlisted: Vec<_> =
            differences.iter().filter(|one| !self.places().any(|(_, at)| covers(at, one))).collect();
        if !unlisted.is_empty() {
            let _ = writeln!(verdict, "{} differences are not in allowed.toml:", unlisted.len());
        }
        for one in unlisted {
            let _ = writeln!(verdict, "  {},", quoted(&format!("{} {}", one.step, one.path)));
            let _ = writeln!(verdict, "    real: {}", shown(one.real.as_ref()));
            let _ = writeln!(verdict, "    ours: {}", shown(one.ours.as_ref()));
        }
        for (cause, at) in self.stale(differences) {
            let _ = writeln!(verdict, "no longer differs, so take it out of allowed.toml (`{cause}`): {at}");
        }
        verdict
    }

    fn places(&self) -> impl Iterator<Item = (&str, &str)> {
        self.difference.iter().flat_map(|cause| cause.at.iter().map(|at| (cause.cause.as_str(), at.as_str())))
    }

    /// What is listed and does not differ.
    fn stale(&self, differences: &[Difference]) -> Vec<(&str, &str)> {
        self.places().filter(|(_, at)| !differences.iter().any(|one| covers(at, one))).collect()
    }

    /// The text of the list without the lines that no longer hold, and without causes that have none left.
    pub(crate) fn shrunk(&self, text: &str, differences: &[Difference]) -> String {
        const START: &str = "[[difference]]";
        let stale: Vec<_> = self.stale(differences).into_iter().map(|(_, at)| at).collect();
        let holds = |line: &str| !stale.iter().any(|at| line.trim().trim_end_matches(',') == quoted(at));
        let mut blocks = text.split(START);
        let mut shrunk = blocks.next().unwrap_or_default().to_owned();
        for (block, cause) in blocks.zip(&self.difference) {
            if cause.at.iter().all(|at| stale.contains(&at.as_str())) {
                continue;
            }
            shrunk.push_str(START);
            shrunk.extend(block.split_inclusive('\n').filter(|line| holds(line)));
        }
        shrunk
    }
}

/// A place as the list writes it.
fn quoted(at: &str) -> String {
    if at.contains('\'') { format!("{at:?}") } else { format!("'{at}'") }
}

fn covers(at: &str, difference: &Difference) -> bool {
    let Some((step, path)) = at.rsplit_once(" /") else { return false };
    let rest = difference.path[1..].strip_prefix(path);
    step == difference.step && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn shown(value: Option<&serde_json::Value>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn difference(path: &str) -> Difference {
        Difference { step: "a/b/c d".to_owned(), path: path.to_owned(), real: Some(json!(1)), ours: None }
    }

    fn allowed(at: &str) -> Allowed {
        let cause = Cause { cause: "x".to_owned(), reason: "y".to_owned(), at: vec![at.to_owned()] };
        Allowed { difference: vec![cause] }
    }

    #[test]
    fn listed_difference_covers_what_is_below_it_and_nothing_beside_it() {
        let list = allowed("a/b/c d /body/spec");
        assert_eq!(list.judge(&[difference("/body/spec/replicas")]), "");
        let verdict = list.judge(&[difference("/body/spec"), difference("/body/special")]);
        assert_eq!(
            verdict,
            "1 differences are not in allowed.toml:\n  'a/b/c d /body/special',\n    real: 1\n    ours: nothing\n"
        );
    }

    #[test]
    fn listed_difference_that_is_gone_has_to_go_from_the_list() {
        let verdict = allowed("a/b/c d /body/spec").judge(&[]);
        assert_eq!(verdict, "no longer differs, so take it out of allowed.toml (`x`): a/b/c d /body/spec\n");
    }

    #[test]
    fn shrinking_takes_out_what_no_longer_differs_and_nothing_else() {
        let text = "# head\n\n[[difference]]\ncause = 'x'\nreason = 'y'\nat = [\n  'a/b/c d /body/kept',\n  'a/b/c d /body/gone',\n  \"a/b/c's /body/gone\",\n]\n\n\
                    [[difference]]\ncause = 'z'\nreason = 'y'\nat = [\n  'a/b/c d /body/gone too',\n]\n";
        let list: Allowed = toml::from_str(text).unwrap();
        assert_eq!(
            list.shrunk(text, &[difference("/body/kept")]),
            "# head\n\n[[difference]]\ncause = 'x'\nreason = 'y'\nat = [\n  'a/b/c d /body/kept',\n]\n\n"
        );
    }
}
