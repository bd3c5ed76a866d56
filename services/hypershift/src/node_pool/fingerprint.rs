//! What workers are told apart by: whoever was made of something else is replaced or changed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::names;
use crate::versions::Release;

/// The release and its Kubernetes.
const VERSION: &str = "hypershift.openshift.io/nodePoolCurrentVersion";
const CONFIG: &str = "hypershift.openshift.io/nodePoolCurrentConfig";
const TEMPLATE: &str = "hypershift.openshift.io/nodePoolPlatformMachineTemplate";

/// What a worker is made of, in parts, so that one can say which of them changes. Made from what matters rather than from
/// the objects that it becomes, so that a new version of this operator that writes those differently replaces nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Of the release.
    pub(crate) version: String,
    /// Of the configuration that the pool names.
    pub(crate) config: String,
    /// Of its machine.
    pub(crate) template: String,
}

// === impl Fingerprint ===

impl Fingerprint {
    pub(crate) fn new(release: &Release, config: &str, template: &[String]) -> Self {
        Self {
            version: format!("{}-{}", release.version, release.kubernetes),
            config: names::stable_hash([config]),
            template: names::stable_hash(template.iter().map(String::as_str)),
        }
    }

    /// All of it in a few letters, for names.
    pub(crate) fn short(&self) -> String {
        let mut hash = names::stable_hash([self.version.as_str(), &self.config, &self.template]);
        hash.truncate(8);
        hash
    }

    /// As the annotations of a machine say it.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        [(VERSION, &self.version), (CONFIG, &self.config), (TEMPLATE, &self.template)]
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .into()
    }

    pub(crate) fn read(metadata: &ObjectMeta) -> Self {
        let part = |name| names::annotation(metadata, name).unwrap_or_default().to_owned();
        Self { version: part(VERSION), config: part(CONFIG), template: part(TEMPLATE) }
    }
}
