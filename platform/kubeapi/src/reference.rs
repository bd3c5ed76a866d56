//! What is served and what is not, as a page of the documentation. It is made from the catalogue, so it cannot be wrong
//! about it; a test holds the page against it, and `cargo xtask reference` writes the page.

use std::fmt::Write as _;

use crate::catalogue::{Catalogue, Resource};
use crate::patch::PatchKind;

/// The minor version that the page is about.
const MINOR: u16 = 34;

/// Every verb of a kind that is stored.
const EVERYTHING: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Kinds of upstream's server that this one does not have, by group and plural, and why.
const NOT_SERVED: &[(&str, &str, &str)] = &[];

/// Subresources of upstream's server that this one does not have.
const NO_SUBRESOURCES: &[(&str, &str, &str)] = &[];

/// The page, in Markdown.
fn reference() -> String {
    let catalogue = Catalogue::built_in(MINOR);
    let mut page = format!(
        "# The Kubernetes API that is served\n\n\
         Made from the code by `cargo xtask reference`; do not edit. It is about the API server of management clusters, of hosted\n\
         clusters with the payload `light`, and of [`pilothouse kube-apiserver`](../how-to/run-a-kubernetes-api-alone.md), as version\n\
         1.{MINOR}. Where an answer differs from that of kube-apiserver is listed, with a reason each, in\n\
         `platform/kubeapi/tests/differential/allowed.toml`.\n\n## Kinds\n\n\
         Every kind is served in one version. *All* verbs are create, delete, deletecollection, get, list, patch, update and watch.\n"
    );
    for group in catalogue.groups() {
        for version in &group.versions {
            let name = if group.name.is_empty() {
                (*version).to_owned()
            } else {
                format!("{}/{version}", group.name)
            };
            let _ =
                writeln!(page, "\n### {name}\n\n| Kind | Resource | Short | Scope | Verbs | Subresources |");
            page.push_str("| --- | --- | --- | --- | --- | --- |\n");
            for resource in catalogue.of_version(group.name, version) {
                row(&mut page, resource);
            }
        }
    }
    page.push_str(
        "\nCustomResourceDefinitions add kinds while the server runs: structural schemas with pruning, defaults, validation and rules in CEL, several\n\
         versions (conversion `None`), `status` and `scale`, printer columns and selectable fields.\n",
    );
    page.push_str("\n## Bodies\n\n| What | Media type |\n| --- | --- |\n");
    for (what, media_type) in [
        ("read and written", "application/json"),
        ("read and written", "application/yaml"),
        ("read, of built-in kinds", "application/vnd.kubernetes.protobuf"),
        ("written", "application/json;as=Table"),
        ("written", "application/json;as=PartialObjectMetadata"),
    ] {
        let _ = writeln!(page, "| {what} | `{media_type}` |");
    }
    for kind in PatchKind::ALL {
        let _ = writeln!(page, "| read, as a patch | `{}` |", kind.media_type());
    }
    page.push_str("\n## Not served\n\n| Resource | Why |\n| --- | --- |\n");
    for (group, plural, why) in missing(&catalogue) {
        let name = if group.is_empty() { (*plural).to_owned() } else { format!("{plural}.{group}") };
        let _ = writeln!(page, "| `{name}` | {why} |");
    }
    for (plural, subresource, why) in NO_SUBRESOURCES {
        if !has_subresource(&catalogue, plural, subresource) {
            let _ = writeln!(page, "| `{plural}/{subresource}` | {why} |");
        }
    }
    page.push_str(
        "| alpha and beta versions of built-in kinds | one version of each kind is served |\n\
         | aggregated API servers | APIServices are stored and listed; nothing is proxied to them |\n\
         | admission webhooks and policies | their configurations are stored and listed; nothing is called or evaluated |\n\
         | conversion webhooks | a definition that asks for one is refused; with `None`, versions keep the fields that their schemas have in common |\n\
         | objects of more than 1.5 MiB | 413; kube-apiserver answers 500 up to 3 MiB, where etcd refuses them, and 413 beyond |\n",
    );
    page
}

fn row(page: &mut String, resource: &Resource) {
    let scope = if resource.namespaced { "namespace" } else { "cluster" };
    let mut verbs = resource.verbs.to_vec();
    verbs.sort_unstable();
    let verbs = if verbs == EVERYTHING { "*all*".to_owned() } else { verbs.join(", ") };
    let mut subresources: Vec<_> =
        resource.subresources.iter().map(|one| format!("`{}`", one.name)).collect();
    subresources.sort_unstable();
    let Resource { kind, plural, short_names, .. } = resource;
    let (short_names, subresources) = (short_names.join(", "), subresources.join(", "));
    let _ = writeln!(page, "| {kind} | `{plural}` | {short_names} | {scope} | {verbs} | {subresources} |");
}

fn missing(
    catalogue: &Catalogue,
) -> impl Iterator<Item = &'static (&'static str, &'static str, &'static str)> {
    let served = |group: &str, plural: &str| catalogue.resources().any(|resource| resource.is(group, plural));
    NOT_SERVED.iter().filter(move |(group, plural, _)| !served(group, plural))
}

fn has_subresource(catalogue: &Catalogue, plural: &str, subresource: &str) -> bool {
    catalogue
        .resources()
        .any(|resource| resource.is("", plural) && resource.subresource(subresource).is_some())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn page_is_what_the_code_says() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/kubernetes-api.md");
        if std::env::var_os("PILOTHOUSE_WRITE_REFERENCE").is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, reference()).unwrap();
        }
        let page = fs::read_to_string(&file).unwrap_or_default();
        assert!(page == reference(), "the page is stale: run `cargo xtask reference`");
    }

    #[test]
    fn every_kind_is_on_the_page_and_none_is_served_that_is_said_not_to_be() {
        let page = reference();
        let catalogue = Catalogue::built_in(MINOR);
        for resource in catalogue.resources() {
            let (kind, plural) = (&resource.kind, &resource.plural);
            assert!(page.contains(&format!("| {kind} | `{plural}` |")), "{kind}");
        }
        assert_eq!(
            missing(&catalogue).count(),
            NOT_SERVED.len(),
            "a kind is served by now: take its line out"
        );
        for (plural, subresource, _) in NO_SUBRESOURCES {
            assert!(
                !has_subresource(&catalogue, plural, subresource),
                "{plural}/{subresource} is served by now"
            );
        }
    }
}
