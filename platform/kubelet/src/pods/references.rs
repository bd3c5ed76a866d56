//! Which ConfigMaps and Secrets a pod refers to.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
}

/// One object in the namespace of the pod that refers to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reference {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", self.kind.name(), self.namespace, self.name)
    }
}

/// What the volumes of a pod are made of. Variables are not here: they are read once, when a container starts.
pub(crate) fn of_volumes(pod: &Pod) -> BTreeSet<Reference> {
    let namespace = pod.namespace().unwrap_or_default();
    let mut found = BTreeSet::new();
    let mut refer = |kind, name: &str| {
        found.insert(Reference { kind, namespace: namespace.clone(), name: name.to_owned() });
    };
    for volume in pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default() {
        if let Some(source) = &volume.config_map {
            refer(Kind::ConfigMap, &source.name);
        }
        if let Some(name) = volume.secret.as_ref().and_then(|source| source.secret_name.as_deref()) {
            refer(Kind::Secret, name);
        }
        let sources = volume.projected.iter().filter_map(|projected| projected.sources.as_ref()).flatten();
        for source in sources {
            if let Some(source) = &source.config_map {
                refer(Kind::ConfigMap, &source.name);
            }
            if let Some(source) = &source.secret {
                refer(Kind::Secret, &source.name);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_volume_is_looked_into_and_variables_are_not() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {
            "containers": [{"name": "main", "envFrom": [{"configMapRef": {"name": "read-once"}}]}],
            "volumes": [
                {"name": "a", "configMap": {"name": "one"}}, {"name": "b", "secret": {"secretName": "two"}},
                {"name": "c", "projected": {"sources": [{"configMap": {"name": "one"}}, {"secret": {"name": "three"}},
                    {"serviceAccountToken": {"path": "token"}}]}},
                {"name": "d", "emptyDir": {}}]}}))
        .unwrap();
        let found: Vec<_> = of_volumes(&pod).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["ConfigMap n/one", "Secret n/three", "Secret n/two"]);
    }
}
