//! `cargo xtask types`: the table of Kubernetes' built-in types that the API server reads.
//!
//! What a field is called in JSON, which number it has in protobuf, how it merges and whether it may be absent are facts
//! of the published Go modules: the numbers stand in `generated.proto`, the rest in the tags of the structs. This reads
//! both and writes one text file a package. It is run by hand when the pinned version changes; the result is checked in
//! and reviewed as a diff.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::workspace::Workspace;

mod proto;
mod structs;
#[cfg(test)]
mod tests;

/// The minor version of Kubernetes whose types are served.
const VERSION: &str = "v0.34.1";
const TABLE: &str = "platform/kubeapi/src/types/table";

const API: &str = "k8s.io/api";
const MACHINERY: &str = "k8s.io/apimachinery";

/// Module, folder in it, name of the package in the table.
const PACKAGES: &[(&str, &str, &str)] = &[
    (API, "admissionregistration/v1", "admissionregistration"),
    (API, "apps/v1", "apps"),
    (API, "authentication/v1", "authentication"),
    (API, "authorization/v1", "authorization"),
    (API, "autoscaling/v1", "autoscaling"),
    (API, "autoscaling/v2", "autoscaling-v2"),
    (API, "batch/v1", "batch"),
    (API, "certificates/v1", "certificates"),
    (API, "coordination/v1", "coordination"),
    (API, "core/v1", "core"),
    (API, "discovery/v1", "discovery"),
    (API, "events/v1", "events"),
    (API, "flowcontrol/v1", "flowcontrol"),
    (API, "networking/v1", "networking"),
    (API, "node/v1", "node"),
    (API, "policy/v1", "policy"),
    (API, "rbac/v1", "rbac"),
    (API, "resource/v1", "resource"),
    (API, "scheduling/v1", "scheduling"),
    (API, "storage/v1", "storage"),
    (MACHINERY, "pkg/apis/meta/v1", "meta"),
    ("k8s.io/apiextensions-apiserver", "pkg/apis/apiextensions/v1", "apiextensions"),
    ("k8s.io/kube-aggregator", "pkg/apis/apiregistration/v1", "apiregistration"),
];

/// Messages whose JSON is not that of their fields, and how the table calls them.
const SPECIAL: &[(&str, &str)] = &[
    ("apimachinery.pkg.api.resource.Quantity", "quantity"),
    ("apimachinery.pkg.apis.meta.v1.FieldsV1", "fields"),
    ("apimachinery.pkg.apis.meta.v1.MicroTime", "micro-time"),
    ("apimachinery.pkg.apis.meta.v1.Time", "time"),
    ("apimachinery.pkg.apis.meta.v1.Verbs", "texts"),
    ("apimachinery.pkg.runtime.RawExtension", "raw"),
    ("apimachinery.pkg.util.intstr.IntOrString", "int-or-string"),
    ("api.authentication.v1.ExtraValue", "texts"),
    ("api.authorization.v1.ExtraValue", "texts"),
    ("api.certificates.v1.ExtraValue", "texts"),
    ("apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON", "json"),
    ("apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", "schema-or-list"),
    ("apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", "schema-or-flag"),
    ("apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray", "schema-or-texts"),
];

/// Writes the table anew.
pub(crate) fn generate(workspace: &Workspace) -> anyhow::Result<()> {
    let mut folders = BTreeMap::new();
    for &(module, ..) in PACKAGES {
        if !folders.contains_key(module) {
            folders.insert(module, download(module)?);
        }
    }
    let target = workspace.root.join(TABLE);
    for &(module, folder, name) in PACKAGES {
        let folder = folders[module].join(folder);
        let text = package(&folder, name).with_context(|| format!("cannot read the types of `{name}`"))?;
        let file = target.join(format!("{name}.txt"));
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Where the sources of a module are, fetched if need be.
fn download(module: &str) -> anyhow::Result<PathBuf> {
    let wanted = format!("{module}@{VERSION}");
    let output = Command::new("go")
        .args(["mod", "download", "-json", &wanted])
        .current_dir(std::env::temp_dir())
        .output()
        .context("cannot run `go`; install it to generate the table of types")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let folder = text.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.strip_suffix("\","));
    folder.map(PathBuf::from).with_context(|| format!("`go mod download {wanted}` failed: {text}"))
}

fn package(folder: &Path, name: &str) -> anyhow::Result<String> {
    let messages = proto::messages(&fs::read_to_string(folder.join("generated.proto"))?);
    let mut declared = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let generated = ["generated.", "zz_generated", "doc.go", "register.go"];
        if file.ends_with(".go")
            && !file.ends_with("_test.go")
            && !generated.iter().any(|skip| file.starts_with(skip))
        {
            declared.append(&mut structs::structs(&fs::read_to_string(&path)?));
        }
    }
    Ok(table(&messages, &declared, name))
}

/// One line a message, one a field. The words are explained where they are read.
fn table(messages: &[proto::Message], declared: &BTreeMap<String, structs::Struct>, package: &str) -> String {
    let mut text = String::new();
    for message in messages {
        let Some(declared) = declared.get(&message.name) else { continue };
        let special = SPECIAL.iter().any(|(name, _)| {
            name.strip_suffix(&message.name).is_some_and(|rest| rest.ends_with(&format!(".{package}.v1.")))
        });
        if special || message.is_list() {
            continue;
        }
        let atomic = if declared.atomic { " atomic" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{atomic}", message.name);
        for field in &message.fields {
            let Some(tags) = declared.fields.get(&field.name) else { continue };
            let _ = write!(text, "{} {} ", field.number, if tags.inline { "-" } else { &tags.json });
            let list = match (field.map, field.repeated) {
                (true, _) => "{}",
                (_, true) => "[]",
                _ if tags.pointer => "*",
                _ => "",
            };
            let _ = write!(text, "{list}{}", type_name(&field.of, package));
            for word in tags.words() {
                let _ = write!(text, " {word}");
            }
            text.push('\n');
        }
    }
    text
}

/// `Container` within its package, `core.Container` elsewhere, `time` for what is special.
fn type_name(of: &str, package: &str) -> String {
    let Some(full) = of.strip_prefix(".k8s.io.") else {
        let special = SPECIAL.iter().find(|(name, _)| {
            name.strip_suffix(of).is_some_and(|rest| rest.ends_with(&format!(".{package}.v1.")))
        });
        return special.map_or(of, |(_, word)| word).to_owned();
    };
    if let Some((_, word)) = SPECIAL.iter().find(|(name, _)| *name == full) {
        return (*word).to_owned();
    }
    let mut parts = full.rsplit('.');
    let (name, _version, package) = (parts.next(), parts.next(), parts.next());
    format!("{}.{}", package.unwrap_or_default(), name.unwrap_or_default())
}
