//! Holds the resolved dependencies against `deny.toml`.
//!
//! The file is cargo-deny's, and cargo-deny is asked where it is installed. Building it takes longer than all the
//! other checks together, so the rules that matter most (banned crates, licences, sources) are also read here, and held
//! against what cargo says it builds for the platforms that the file lists. Security advisories need a download and are
//! no part of this: `cargo deny check advisories`.

mod licence;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use anyhow::Context;
use cargo_metadata::{Metadata, MetadataCommand};
use serde::Deserialize;

use crate::violation::Violation;
use crate::workspace::Workspace;

const FILE: &str = "deny.toml";

/// What of `deny.toml` is read here.
#[derive(Debug, Deserialize)]
struct Rules {
    graph: Graph,
    bans: Bans,
    licenses: Licenses,
}

#[derive(Debug, Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    package: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<LicenceException>,
}

#[derive(Debug, Deserialize)]
struct LicenceException {
    #[serde(rename = "crate")]
    package: String,
    allow: Vec<String>,
}

/// A dependency, as far as the rules care. Ordered, so that the report is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Dependency {
    name: String,
    version: String,
    licence: Option<String>,
    is_from_registry: bool,
}

/// Everything that `deny.toml` refuses.
pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<Vec<Violation>> {
    let rules: Rules =
        toml::from_str(&workspace.read(FILE)?).with_context(|| format!("{FILE} is not valid"))?;
    let mut built = BTreeSet::new();
    for target in &rules.graph.targets {
        built.extend(built_for(workspace, target)?);
    }
    let metadata = MetadataCommand::new().current_dir(&workspace.root).exec()?;
    let mut violations = refused(&rules, &described(&metadata, &built));
    violations.extend(ask_cargo_deny(workspace)?);
    Ok(violations)
}

/// Name and version of every package that is built for `target`. The metadata cannot tell: it also lists optional
/// dependencies that no feature turns on.
fn built_for(workspace: &Workspace, target: &str) -> anyhow::Result<BTreeSet<(String, String)>> {
    let output = Command::new("cargo")
        .args(["tree", "--workspace", "--prefix=none", "--format={p}", "--edges=normal,build,dev"])
        .args(["--target", target])
        .current_dir(&workspace.root)
        .output()
        .context("cannot run cargo")?;
    anyhow::ensure!(
        output.status.success(),
        "cannot resolve the dependencies for {target}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(listed(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads lines such as `serde_derive v1.0.229 (proc-macro) (*)`.
fn listed(tree: &str) -> BTreeSet<(String, String)> {
    let lines = tree.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    });
    lines.collect()
}

/// What the metadata says about the packages in `built`, ours left out.
fn described(metadata: &Metadata, built: &BTreeSet<(String, String)>) -> BTreeSet<Dependency> {
    let foreign =
        metadata.packages.iter().filter(|package| !metadata.workspace_members.contains(&package.id));
    foreign
        .map(|package| Dependency {
            name: package.name.to_string(),
            version: package.version.to_string(),
            licence: package.license.clone(),
            is_from_registry: package.source.as_ref().is_some_and(|source| source.is_crates_io()),
        })
        .filter(|dependency| built.contains(&(dependency.name.clone(), dependency.version.clone())))
        .collect()
}

fn refused(rules: &Rules, dependencies: &BTreeSet<Dependency>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for dependency in dependencies {
        let Dependency { name, version, licence, is_from_registry } = dependency;
        if let Some(ban) = rules.bans.deny.iter().find(|ban| ban.package == *name) {
            violations.push(Violation::new(
                FILE,
                format!("`{name}` {version} is banned: {}", ban.reason),
                format!("`cargo tree --invert {name}` shows who brings it; choose features that do not"),
            ));
        }
        let exceptions = rules.licenses.exceptions.iter().filter(|exception| exception.package == *name);
        let allowed: Vec<_> = exceptions
            .flat_map(|exception| &exception.allow)
            .chain(&rules.licenses.allow)
            .map(String::as_str)
            .collect();
        let expression = licence.as_deref().unwrap_or_default();
        if !licence::is_satisfied(expression, &|licence| allowed.contains(&licence)) {
            let expression = licence.as_deref().unwrap_or("none");
            violations.push(Violation::new(
                FILE,
                format!("the licence of `{name}` {version} is not allowed: {expression}"),
                "do without the crate, or allow its licence with a reason",
            ));
        }
        if !is_from_registry {
            violations.push(Violation::new(
                FILE,
                format!("`{name}` {version} comes from outside the registry"),
                "depend on a published version",
            ));
        }
    }
    violations
}

fn ask_cargo_deny(workspace: &Workspace) -> anyhow::Result<Option<Violation>> {
    let is_installed = Command::new("cargo")
        .args(["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !is_installed {
        return Ok(None);
    }
    let status = Command::new("cargo")
        .args(["deny", "--offline", "check", "bans", "licenses", "sources"])
        .current_dir(&workspace.root)
        .status()
        .context("cannot run cargo-deny")?;
    Ok((!status.success())
        .then(|| Violation::new(FILE, "cargo-deny refuses the dependencies", "see its messages above")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "
        [graph]
        targets = ['x86_64-unknown-linux-gnu']
        [bans]
        deny = [{ crate = 'openssl', reason = 'one TLS stack' }]
        [licenses]
        allow = ['MIT', 'Apache-2.0']
        exceptions = [{ crate = 'rare', allow = ['Zlib'] }]
    ";

    fn broken(name: &str, licence: Option<&str>, is_from_registry: bool) -> Vec<String> {
        let dependency = Dependency {
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            licence: licence.map(str::to_owned),
            is_from_registry,
        };
        let rules = toml::from_str(RULES).unwrap();
        refused(&rules, &BTreeSet::from([dependency])).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn tree_is_read_line_by_line() {
        let tree = "xtask v0.1.0 (/somewhere/xtask)\nserde v1.0.229\nserde_derive v1.0.229 (proc-macro)\n\nserde v1.0.229 (*)\n";
        let names: Vec<_> =
            listed(tree).into_iter().map(|(name, version)| format!("{name} {version}")).collect();
        assert_eq!(names, ["serde 1.0.229", "serde_derive 1.0.229", "xtask 0.1.0"]);
    }

    #[test]
    fn ordinary_dependency_passes() {
        assert_eq!(broken("serde", Some("MIT OR Apache-2.0"), true), Vec::<String>::new());
    }

    #[test]
    fn banned_crate_is_refused_with_its_reason() {
        assert_eq!(
            broken("openssl", Some("MIT"), true),
            [
                "deny.toml: `openssl` 1.2.3 is banned: one TLS stack; `cargo tree --invert openssl` shows who brings \
              it; choose features that do not"
            ]
        );
    }

    #[test]
    fn licence_outside_the_list_is_refused() {
        assert!(broken("serde", Some("GPL-3.0"), true)[0].contains("not allowed: GPL-3.0"));
        assert!(broken("serde", None, true)[0].contains("not allowed: none"));
    }

    #[test]
    fn exception_holds_for_its_crate_only() {
        assert_eq!(broken("rare", Some("Zlib"), true), Vec::<String>::new());
        assert_eq!(broken("serde", Some("Zlib"), true).len(), 1);
    }

    #[test]
    fn unpublished_source_is_refused() {
        assert!(broken("serde", Some("MIT"), false)[0].contains("outside the registry"));
    }
}
