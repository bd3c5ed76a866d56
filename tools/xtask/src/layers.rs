//! Holds the workspace against the [table] of layers.

mod table;

use self::table::{LAYERS, Layer, TEST_EDGES, TESTING, TestEdge};
use crate::violation::Violation;
use crate::workspace::{Member, Use, Workspace};

const TABLE: &str = "tools/xtask/src/layers/table.rs";

/// Everything that breaks the table.
pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    let mut violations: Vec<_> = workspace.members.iter().flat_map(check_member).collect();
    violations.extend(unused_exceptions(workspace, TEST_EDGES));
    violations
}

fn check_member(member: &Member) -> Vec<Violation> {
    let Some(layer) = LAYERS.iter().find(|layer| any_matches(layer.folders, &member.folder)) else {
        return vec![Violation::new(
            member.manifest_path(),
            format!("`{}` belongs to no layer", member.folder),
            format!("name it in {TABLE}, or move it into a folder that is"),
        )];
    };
    let broken = member.uses.iter().filter_map(|used| check_use(member, layer, used));
    broken.chain(member.uses.iter().filter_map(|used| check_testing(member, used))).collect()
}

/// What only tests may build is built by tests only: by dev-dependencies, and by the crates that are nothing but tests.
fn check_testing(member: &Member, used: &Use) -> Option<Violation> {
    let may = used.test_only || matches!(member.folder.as_str(), "bench" | "tests");
    (used.wants_testing && !may).then(|| {
        Violation::new(
            member.manifest_path(),
            format!(
                "`{}` turns on the feature `testing` of `{}` outside of tests",
                member.folder, used.package
            ),
            "turn it on in [dev-dependencies]",
        )
    })
}

/// Whether the row may be passed over because the use is only for what the feature `testing` builds.
fn for_testing(member: &Member, used: &Use) -> bool {
    let name = used.folder.as_deref().unwrap_or(&used.package);
    used.for_testing
        && TESTING.iter().any(|testing| {
            any_matches(testing.folders, &member.folder)
                && testing.may_use.iter().any(|patterns| any_matches(patterns, name))
        })
}

fn check_use(member: &Member, layer: &Layer, used: &Use) -> Option<Violation> {
    // A crate's tests may use the crate with its feature `testing`.
    let itself = used.test_only && used.folder.as_deref() == Some(member.folder.as_str());
    if itself || for_testing(member, used) {
        return None;
    }
    match &used.folder {
        Some(folder) => {
            let contract = format!("{}/api", member.folder);
            let allowed = layer.may_use.iter().any(|patterns| any_matches(patterns, folder))
                || (layer.may_use.iter().any(|patterns| patterns.contains(&"./api")) && *folder == contract);
            let excepted = used.test_only
                && TEST_EDGES
                    .iter()
                    .any(|edge| matches(edge.from, &member.folder) && matches(edge.to, folder));
            (!allowed && !excepted).then(|| {
                let kind = if used.test_only { "uses, in its tests," } else { "uses" };
                Violation::new(
                    member.manifest_path(),
                    format!("`{}` {kind} `{folder}`, which its layer may not: {}", member.folder, layer.why),
                    format!("drop the dependency, or argue for a change of {TABLE}"),
                )
            })
        }
        None => {
            let banned = layer.must_not_use.iter().any(|list| list.contains(&used.package.as_str()));
            (banned && !used.test_only).then(|| {
                Violation::new(
                    member.manifest_path(),
                    format!(
                        "`{}` uses `{}`, which its layer must not: {}",
                        member.folder, used.package, layer.why
                    ),
                    "move the code that needs it to a layer that may",
                )
            })
        }
    }
}

/// Exceptions may only shrink: one that names two existing folders and has no use any more has to go.
fn unused_exceptions(workspace: &Workspace, edges: &[TestEdge]) -> Vec<Violation> {
    let unused = edges.iter().filter(|edge| {
        let from = workspace.members.iter().find(|member| member.folder == edge.from);
        from.is_some_and(|member| !member.uses.iter().any(|used| used.folder.as_deref() == Some(edge.to)))
    });
    unused
        .map(|edge| {
            Violation::new(
                TABLE,
                format!("the test-only edge from `{}` to `{}` is not used", edge.from, edge.to),
                "remove it",
            )
        })
        .collect()
}

fn any_matches(patterns: &[&str], folder: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, folder))
}

/// Whether `folder` is what `pattern` says, where `*` stands for one folder.
fn matches(pattern: &str, folder: &str) -> bool {
    let (pattern, folder): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), folder.split('/').collect());
    pattern.len() == folder.len()
        && pattern.iter().zip(&folder).all(|(want, have)| *want == "*" || want == have)
}

#[cfg(test)]
mod tests;
