//! Names of points that say what is written.

#[cfg(debug_assertions)]
use std::collections::BTreeSet;

/// What is written and how, for the names of the points around it. In a release build it is nothing.
#[derive(Debug)]
pub struct Name {
    #[cfg(debug_assertions)]
    text: String,
}

// === impl Name ===

impl Name {
    /// A write to a store: `store.commit.put.pods`, of every kind that is written together. `kinds` is asked only where there are
    /// points.
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "a release build has no points"))]
    pub fn store_commit<K: Iterator<Item = String>>(kinds: impl FnOnce() -> K) -> Self {
        Self {
            #[cfg(debug_assertions)]
            text: {
                let kinds: BTreeSet<_> = kinds().collect();
                format!("store.commit.{}", kinds.into_iter().collect::<Vec<_>>().join("+"))
            },
        }
    }

    /// A write to a Kubernetes API: `kubernetes.write.patch.pods.status`.
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "a release build has no points"))]
    pub fn kubernetes_write(method: &str, path: &str) -> Self {
        Self {
            #[cfg(debug_assertions)]
            text: format!("kubernetes.write.{}.{}", method.to_lowercase(), resource(path)),
        }
    }

    /// The process passes the point at this moment of the work.
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "a release build has no points"))]
    pub(super) fn pass(&self, moment: &str) {
        #[cfg(debug_assertions)]
        super::armed::pass(&format!("{}.{moment}", self.text));
    }
}

/// Of the path of a request to a Kubernetes API the resource, and the subresource if there is one.
#[cfg(debug_assertions)]
fn resource(path: &str) -> String {
    let mut rest: Vec<_> = path.trim_matches('/').split('/').collect();
    // `api/VERSION`, or `apis/GROUP/VERSION`.
    rest.drain(..rest.len().min(if rest[0] == "api" { 2 } else { 3 }));
    let is_of_namespace = matches!(rest[..], ["namespaces", _, "status" | "finalize"]);
    if rest.len() > 2 && rest[0] == "namespaces" && !is_of_namespace {
        rest.drain(..2);
    }
    match rest[..] {
        [resource, _, subresource, ..] => format!("{resource}.{subresource}"),
        [resource, ..] => resource.to_owned(),
        [] => "other".to_owned(),
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn name_says_what_is_written_and_not_which() {
        for (path, expected) in [
            ("/api/v1/namespaces/default/pods", "pods"),
            ("/api/v1/namespaces/default/pods/web", "pods"),
            ("/api/v1/namespaces/default/pods/web/status", "pods.status"),
            ("/api/v1/namespaces", "namespaces"),
            ("/api/v1/namespaces/default", "namespaces"),
            ("/api/v1/namespaces/default/finalize", "namespaces.finalize"),
            ("/api/v1/nodes/one/status", "nodes.status"),
            ("/apis/apps/v1/namespaces/default/deployments/web/scale", "deployments.scale"),
            ("/apis/hypershift.openshift.io/v1beta1/namespaces/a/hostedclusters", "hostedclusters"),
            ("/version", "other"),
        ] {
            assert_eq!(resource(path), expected, "{path}");
        }
        assert_eq!(Name::kubernetes_write("PATCH", "/api/v1/nodes/one").text, "kubernetes.write.patch.nodes");
        let kinds = || ["put.b", "delete.a", "put.b"].map(str::to_owned).into_iter();
        assert_eq!(Name::store_commit(kinds).text, "store.commit.delete.a+put.b");
    }
}
