//! The published documents of the API.
//!
//! They are made from the wire types of `base/api` and checked in, so that a change of the contract is seen as one. A
//! document is published by being written; from then on it is frozen: `frozen.json` has its digest, and another one
//! takes `--thaw`, which is a decision and not a side effect.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use aws_lc_rs::digest::{SHA256, digest};
use pilothouse_api::Version;

use crate::violation::Violation;

const FOLDER: &str = "schema/openapi";
const FROZEN: &str = "frozen.json";

/// Digests of published documents, by api-version.
type Frozen = BTreeMap<String, String>;

struct Document {
    version: String,
    text: String,
}

impl Document {
    /// Where it is, from the root.
    fn file(&self) -> String {
        format!("{FOLDER}/{}.json", self.version)
    }

    fn digest(&self) -> String {
        digest_of(&self.text)
    }
}

/// What the types are now.
fn documents() -> anyhow::Result<Vec<Document>> {
    let document = |version: Version| {
        let text = serde_json::to_string_pretty(&version.openapi())? + "\n";
        Ok(Document { version: version.api_version().to_string(), text })
    };
    Version::ALL.into_iter().map(document).collect()
}

fn digest_of(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let hexadecimal: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hexadecimal}")
}

fn read_frozen(root: &Path) -> anyhow::Result<Frozen> {
    let file = root.join(FOLDER).join(FROZEN);
    if !file.exists() {
        return Ok(Frozen::new());
    }
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a list of digests", file.display()))
}

/// Whether the checked-in documents are what the types are, and published ones what they were.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<Violation>> {
    compare(root, &documents()?)
}

fn compare(root: &Path, documents: &[Document]) -> anyhow::Result<Vec<Violation>> {
    let frozen = read_frozen(root)?;
    let mut violations = Vec::new();
    for document in documents {
        let found = fs::read_to_string(root.join(document.file())).unwrap_or_default();
        if found != document.text {
            let remedy = "run `cargo xtask schema`; if the version is published, its types must not change";
            violations.push(Violation::new(document.file(), "is not what the types are", remedy));
        } else if frozen.get(&document.version) != Some(&document.digest()) {
            let remedy =
                "a published version does not change; if this one must, run `cargo xtask schema --thaw`";
            violations.push(Violation::new(document.file(), "is not what was published", remedy));
        }
    }
    for version in frozen.keys().filter(|version| documents.iter().all(|known| known.version != **version)) {
        let remedy = "serve the version again, or take its line out and delete the document";
        violations.push(Violation::new(
            format!("{FOLDER}/{FROZEN}"),
            format!("has {version}, which is not served"),
            remedy,
        ));
    }
    Ok(violations)
}

/// Writes what changed, and publishes what is new. Returns the files that were written.
pub(crate) fn write(root: &Path, thaw: bool) -> anyhow::Result<Vec<String>> {
    write_documents(root, &documents()?, thaw)
}

fn write_documents(root: &Path, documents: &[Document], thaw: bool) -> anyhow::Result<Vec<String>> {
    let mut frozen = read_frozen(root)?;
    for document in documents {
        let published = frozen.get(&document.version);
        anyhow::ensure!(
            thaw || published.is_none_or(|published| *published == document.digest()),
            "{} is published, and the types are something else now: undo the change or make it in a new version; \
             to publish it anew all the same, add --thaw",
            document.file()
        );
    }
    fs::create_dir_all(root.join(FOLDER)).context("cannot make the folder of the documents")?;
    let mut written = Vec::new();
    for document in documents {
        let path = root.join(document.file());
        if fs::read_to_string(&path).ok().as_ref() != Some(&document.text) {
            fs::write(&path, &document.text).with_context(|| format!("cannot write {}", path.display()))?;
            written.push(document.file());
        }
        frozen.insert(document.version.clone(), document.digest());
    }
    let text = serde_json::to_string_pretty(&frozen)? + "\n";
    fs::write(root.join(FOLDER).join(FROZEN), text).context("cannot write the list of digests")?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(version: &str, text: &str) -> Document {
        Document { version: version.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn what_was_written_is_up_to_date_and_every_other_is_not() {
        let root = tempfile::tempdir().unwrap();
        let documents = [document("2024-01-01", "a"), document("2025-01-01", "b")];
        assert_eq!(compare(root.path(), &documents).unwrap().len(), 2);
        assert_eq!(write_documents(root.path(), &documents, false).unwrap().len(), 2);
        assert_eq!(compare(root.path(), &documents).unwrap(), []);
        assert_eq!(write_documents(root.path(), &documents, false).unwrap(), Vec::<String>::new());

        fs::write(root.path().join(documents[0].file()), "edited").unwrap();
        let violations = compare(root.path(), &documents).unwrap();
        assert_eq!(violations.len(), 1);
        assert!(violations[0].to_string().contains("is not what the types are"), "{violations:?}");
    }

    #[test]
    fn published_documents_change_only_when_thawed() {
        let root = tempfile::tempdir().unwrap();
        write_documents(root.path(), &[document("2024-01-01", "a")], false).unwrap();
        let changed = [document("2024-01-01", "changed"), document("2025-01-01", "new")];
        let refused = write_documents(root.path(), &changed, false).unwrap_err().to_string();
        assert!(refused.contains("2024-01-01.json is published"), "{refused}");
        assert!(
            !root.path().join(changed[1].file()).exists(),
            "nothing is written when something is refused"
        );

        fs::write(root.path().join(changed[0].file()), "changed").unwrap();
        let violations = compare(root.path(), &changed[..1]).unwrap();
        assert!(violations[0].to_string().contains("is not what was published"), "{violations:?}");

        assert_eq!(write_documents(root.path(), &changed, true).unwrap().len(), 1);
        assert_eq!(compare(root.path(), &changed).unwrap(), []);
    }

    #[test]
    fn a_version_that_is_served_no_more_is_found() {
        let root = tempfile::tempdir().unwrap();
        let documents = [document("2024-01-01", "a"), document("2025-01-01", "b")];
        write_documents(root.path(), &documents, false).unwrap();
        let violations = compare(root.path(), &documents[1..]).unwrap();
        assert!(violations[0].to_string().contains("has 2024-01-01, which is not served"), "{violations:?}");
    }
}
