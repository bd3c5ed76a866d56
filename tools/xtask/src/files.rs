//! Rules about the files themselves.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

use crate::violation::Violation;
use crate::workspace::Workspace;

/// Beyond this a file is a landmark that people avoid.
const LONGEST: usize = 700;

const MAP: &str = "docs/architecture.md";

/// The only script at the root.
const SCRIPT: &str = "test";

// In pieces, so that this file does not break its own rules.
const IGNORED: &str = concat!("#[", "ignore");
const UNWRITTEN: &str = concat!("todo", "!(");
const UNSORTED_DEBT: &str = concat!("TO", "DO");

/// Everything that is wrong with the files of the workspace.
pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for file in rust_files(&workspace.root).context("cannot list the source files")? {
        violations.extend(check_source(&file, &workspace.read(&file)?));
    }
    violations.extend(loose_scripts(&workspace.root).context("cannot list the root")?);
    let folders = workspace.members.iter().map(|member| member.folder.as_str());
    violations.extend(missing_on_map(fs::read_to_string(workspace.root.join(MAP)).ok().as_deref(), folders));
    Ok(violations)
}

fn check_source(file: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut report =
        |file: String, what: &str, remedy: &str| violations.push(Violation::new(file, what, remedy));

    let path = Path::new(file);
    if path.file_name().is_some_and(|name| name == "mod.rs") {
        report(file.to_owned(), "is a `mod.rs`", "call it after its folder: `foo.rs` beside `foo/`");
    }
    let is_test = path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs");
    let length = text.lines().count();
    if length > LONGEST && !is_test {
        report(
            file.to_owned(),
            &format!("has {length} lines, more than {LONGEST}"),
            "split it by resource, or move its tests to a `tests.rs`",
        );
    }
    for (number, line) in (1..).zip(text.lines()) {
        let place = format!("{file}:{number}");
        if line.trim_start().starts_with(IGNORED) {
            report(place.clone(), "ignores a test", "mend it, or let it skip by what the machine lacks");
        }
        if line.contains(UNWRITTEN) {
            report(place.clone(), "is not written", "write it, or leave it out until it is needed");
        }
        if bare_debt(line) {
            report(
                place,
                "owes something of no kind",
                "say which: -correctness, -security, -performance, -cleanup",
            );
        }
    }
    violations
}

/// A note of debt that does not say its kind, as in `…-security`.
fn bare_debt(line: &str) -> bool {
    line.match_indices(UNSORTED_DEBT).any(|(start, word)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let is_word = !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric);
        is_word && after != Some('-')
    })
}

fn missing_on_map<'a>(map: Option<&str>, folders: impl Iterator<Item = &'a str>) -> Vec<Violation> {
    let Some(map) = map else {
        return vec![Violation::new(MAP, "does not exist", "write the map of the folders")];
    };
    folders
        .filter(|folder| !map.contains(&format!("`{folder}`")) && !map.contains(&format!("`{folder}/`")))
        .map(|folder| {
            Violation::new(MAP, format!("does not mention `{folder}`"), "say there what the folder is for")
        })
        .collect()
}

fn loose_scripts(root: &Path) -> io::Result<Vec<Violation>> {
    const EXECUTABLE: u32 = 0o111;
    let mut violations = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if metadata.is_file() && metadata.permissions().mode() & EXECUTABLE != 0 && name != SCRIPT {
            violations.push(Violation::new(name, "is a loose script", "make it a verb of `cargo xtask`"));
        }
    }
    Ok(violations)
}

/// Paths of the source files below `root`, relative to it, in order.
fn rust_files(root: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let hidden = name.as_encoded_bytes().starts_with(b".");
            if entry.file_type()?.is_dir() {
                if !hidden && name != "target" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.extend(path.strip_prefix(root).ok().map(|path| path.display().to_string()));
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn breaks(file: &str, text: &str, what: &str) {
        let violations = check_source(file, text);
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(violations[0].to_string().contains(what), "{violations:?}");
    }

    #[test]
    fn long_file_is_found_unless_it_holds_tests() {
        let text = "// a line\n".repeat(LONGEST + 1);
        breaks("base/store/src/engine.rs", &text, "has 701 lines");
        assert_eq!(check_source("base/store/src/engine.rs", &"// a line\n".repeat(LONGEST)), []);
        assert_eq!(check_source("base/store/src/engine/tests.rs", &text), []);
        assert_eq!(check_source("base/store/tests/conformance.rs", &text), []);
    }

    #[test]
    fn module_file_without_a_name_is_found() {
        breaks("base/store/src/engine/mod.rs", "", "`mod.rs`");
    }

    #[test]
    fn ignored_test_is_found() {
        breaks("a.rs", &format!("    {IGNORED} = \"slow\"]\nfn f() {{}}"), "a.rs:1: ignores a test");
    }

    #[test]
    fn unwritten_code_is_found() {
        breaks("a.rs", &format!("fn f() {{\n    {UNWRITTEN}) }}"), "a.rs:2: is not written");
    }

    #[test]
    fn debt_says_its_kind() {
        breaks("a.rs", &format!("// {UNSORTED_DEBT}: later"), "owes something");
        assert_eq!(check_source("a.rs", &format!("// {UNSORTED_DEBT}-security: check the issuer")), []);
        assert_eq!(check_source("a.rs", &format!("// MAS{UNSORTED_DEBT}N")), []);
    }

    #[test]
    fn folder_that_is_not_on_the_map_is_found() {
        let map = "- `base/store/`: documents\n- `bin`: commands\n";
        assert_eq!(missing_on_map(Some(map), ["base/store", "bin"].into_iter()), []);
        let violations = missing_on_map(Some(map), ["base/pki"].into_iter());
        assert!(violations[0].to_string().contains("does not mention `base/pki`"), "{violations:?}");
        assert_eq!(missing_on_map(None, ["bin"].into_iter()).len(), 1);
    }

    #[test]
    fn loose_script_at_the_root_is_found() {
        let root = tempfile::tempdir().unwrap();
        for name in ["test", "build.sh"] {
            let path = root.path().join(name);
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let violations = loose_scripts(root.path()).unwrap();
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].file, "build.sh");
    }

    #[test]
    fn sources_are_listed_without_what_was_built() {
        let root = tempfile::tempdir().unwrap();
        for file in ["src/lib.rs", "src/a/b.rs", "target/debug/c.rs", ".cache/d.rs", "src/notes.md"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_eq!(rust_files(root.path()).unwrap(), ["src/a/b.rs", "src/lib.rs"]);
    }
}
