//! What every manifest holds: versions, lints and dependencies come from the workspace, names tell what a crate is.

use crate::violation::Violation;
use crate::workspace::{Member, Workspace};

/// Settings that no crate chooses for itself.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

/// Names for what has none. A crate is named for what it does.
const NAMES_OF_NOTHING: &[&str] = &["common", "util", "utils", "helper", "helpers", "manager", "managers"];

/// Packages whose name is not made from their folder: those that people type.
const NAMED_OTHERWISE: &[(&str, &str)] = &[("bin", "pilothouse"), ("tools/xtask", "xtask")];

const DEPENDENCIES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Everything that is wrong with the manifests.
pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<Vec<Violation>> {
    let mut violations: Vec<_> = workspace.members.iter().flat_map(check_member).collect();
    violations.extend(check_sorted(&workspace.read("Cargo.toml")?));
    Ok(violations)
}

fn check_member(member: &Member) -> Vec<Violation> {
    let file = member.manifest_path();
    let mut violations = Vec::new();
    let mut report = |what: String, remedy: String| violations.push(Violation::new(&file, what, remedy));

    if !inherits(member.manifest.get("lints")) {
        report("the workspace's lints do not apply".into(), "add `[lints]` with `workspace = true`".into());
    }
    let package = member.manifest.get("package").and_then(toml::Value::as_table);
    for key in INHERITED {
        if !inherits(package.and_then(|package| package.get(*key))) {
            report(format!("`{key}` is not the workspace's"), format!("write `{key}.workspace = true`"));
        }
    }
    if !package.is_some_and(|package| package.contains_key("description")) {
        report("there is no description".into(), "say in one line what the crate is for".into());
    }
    for (table, name) in own_versions(&member.manifest) {
        report(
            format!("`{name}` in `[{table}]` is not the workspace's"),
            format!("declare it in the root's Cargo.toml and write `{name}.workspace = true`"),
        );
    }
    if let Some(word) = NAMES_OF_NOTHING.iter().find(|word| member.name.split('-').any(|part| part == **word))
    {
        report(format!("`{word}` does not say what the crate does"), "name it for what it does".into());
    }
    let expected = expected_name(&member.folder);
    if member.name != expected {
        report(
            format!("the package is called `{}`", member.name),
            format!("call it `{expected}`, as its folder"),
        );
    }
    violations
}

fn inherits(value: Option<&toml::Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
}

/// Dependencies that a crate declares on its own, with the table they are in.
fn own_versions(manifest: &toml::Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut search = |prefix: &str, tables: &toml::Table| {
        for name in DEPENDENCIES {
            let entries = tables.get(*name).and_then(toml::Value::as_table).into_iter().flatten();
            let own = entries.filter(|(_, value)| !inherits(Some(value)));
            found.extend(own.map(|(dependency, _)| (format!("{prefix}{name}"), dependency.clone())));
        }
    };
    search("", manifest);
    for (target, tables) in manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten() {
        if let Some(tables) = tables.as_table() {
            search(&format!("target.{target}."), tables);
        }
    }
    found
}

/// `base/store` is `pilothouse-store`, `services/maestro/api` is `pilothouse-maestro-api`.
fn expected_name(folder: &str) -> String {
    if let Some((_, name)) = NAMED_OTHERWISE.iter().find(|(other, _)| *other == folder) {
        return (*name).to_owned();
    }
    let own = folder.split_once('/').map_or(folder, |(_, own)| own);
    format!("pilothouse-{}", own.replace('/', "-"))
}

/// Within a block of `[workspace.dependencies]`, lines are in order, so that a second entry for the same job is seen.
fn check_sorted(manifest: &str) -> Vec<Violation> {
    let table = manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    let mut violations = Vec::new();
    let mut previous = String::new();
    for line in table {
        if line.is_empty() {
            previous.clear();
        }
        let Some((name, _)) = line.split_once([' ', '=', '.']).filter(|_| !line.starts_with('#')) else {
            continue;
        };
        // Cargo takes both for the same name.
        let key = name.replace('_', "-");
        if key < previous {
            violations.push(Violation::new(
                "Cargo.toml",
                format!("`{name}` comes after `{previous}`"),
                "keep each block of `[workspace.dependencies]` in order",
            ));
        }
        previous = key;
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
        [package]
        name = 'pilothouse-store'
        description = 'Documents'
        version.workspace = true
        edition.workspace = true
        rust-version.workspace = true
        license.workspace = true
        publish.workspace = true
        [lints]
        workspace = true
        [dependencies]
        serde.workspace = true
        tokio = { workspace = true, features = ['test-util'] }
    ";

    fn broken(name: &str, folder: &str, manifest: &str) -> Vec<String> {
        let member = Member {
            name: name.to_owned(),
            folder: folder.to_owned(),
            uses: Vec::new(),
            manifest: manifest.parse().unwrap(),
        };
        check_member(&member).iter().map(Violation::to_string).collect()
    }

    #[track_caller]
    fn breaks(manifest: &str, what: &str) {
        let lines = broken("pilothouse-store", "base/store", manifest);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(what), "{lines:?}");
    }

    #[test]
    fn good_manifest_passes() {
        assert_eq!(broken("pilothouse-store", "base/store", GOOD), Vec::<String>::new());
    }

    #[test]
    fn crate_without_the_lints_is_found() {
        breaks(&GOOD.replace("[lints]\n        workspace = true", ""), "lints do not apply");
    }

    #[test]
    fn version_of_its_own_is_found() {
        breaks(
            &GOOD.replace("version.workspace = true\n        edition", "version = '1.0.0'\n        edition"),
            "`version`",
        );
        breaks(&GOOD.replace("publish.workspace = true", ""), "`publish`");
    }

    #[test]
    fn missing_description_is_found() {
        breaks(&GOOD.replace("description = 'Documents'", ""), "no description");
    }

    #[test]
    fn dependency_of_its_own_is_found() {
        breaks(&GOOD.replace("serde.workspace = true", "serde = '1'"), "`serde` in `[dependencies]`");
        breaks(&format!("{GOOD}\n[dev-dependencies]\ninsta = '1'"), "`insta` in `[dev-dependencies]`");
        breaks(
            &format!("{GOOD}\n[target.'cfg(unix)'.dependencies]\nnix = {{ version = '1' }}"),
            "`nix` in `[target.cfg(unix).dependencies]`",
        );
    }

    #[test]
    fn name_that_says_nothing_is_found() {
        for word in ["common", "utils", "helper", "manager"] {
            let name = format!("pilothouse-{word}");
            let lines = broken(&name, &format!("base/{word}"), GOOD);
            assert!(lines.iter().any(|line| line.contains("does not say what the crate does")), "{lines:?}");
        }
    }

    #[test]
    fn name_is_made_from_the_folder() {
        assert_eq!(expected_name("base/store"), "pilothouse-store");
        assert_eq!(expected_name("services/maestro/api"), "pilothouse-maestro-api");
        assert_eq!(expected_name("region"), "pilothouse-region");
        assert_eq!(expected_name("bin"), "pilothouse");
        let lines = broken("store", "base/store", GOOD);
        assert!(lines[0].contains("call it `pilothouse-store`"), "{lines:?}");
    }

    #[test]
    fn unsorted_dependency_is_found() {
        let sorted = "[workspace.dependencies]\nserde_json = '1'\n# why\nserde-saphyr = '2'\n\nanyhow = '1'\n[lints]\na = 1";
        assert_eq!(check_sorted(sorted), []);
        let unsorted = "[workspace.dependencies]\ntokio = '1'\nserde = '1'\n";
        assert_eq!(check_sorted(unsorted).len(), 1);
    }
}
